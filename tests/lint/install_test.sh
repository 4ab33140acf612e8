#!/usr/bin/env bash
# Installs a build to a temporary prefix, moves that, and uses it as a stranger would: find_package
# with a project of its own (example 02, run), and pkg-config from strict C99 (example 01, run).
# usage: install_test.sh BUILD_DIR SOURCE_DIR
set -euo pipefail

build=$(cd "$1" && pwd)
source=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

# example NUMBER EXTENSION: the source file of a numbered example, a file or in a folder.
example() {
  local found
  found=$(find "$source/examples" -path "$source/examples/$1_*" -name "*.$2" | sort | head -n 1)
  [ -n "$found" ] || { echo "no examples/$1_*.$2" >&2; return 1; }
  printf '%s\n' "$found"
}

echo "== install, then move"
cmake --install "$build" --prefix "$work/first" >"$work/install.log" ||
  { cat "$work/install.log"; exit 1; }
mv "$work/first" "$work/moved"
prefix=$work/moved
if grep -rIl "$work/first" "$prefix"; then
  echo "the files above hold the prefix: the tree cannot be moved" >&2
  exit 1
fi
# Anything but MPI's header comes from the installed tree: the source tree must not be in there.
if grep -rIlF "$source/" "$prefix"; then
  echo "the files above name the source tree" >&2
  exit 1
fi

components="" libraries=lamppost::lamppost launcher=()
if compgen -G "$prefix/lib*/cmake/lamppost/lamppostMpiTargets.cmake" >/dev/null ||
  compgen -G "$prefix/lib/*/cmake/lamppost/lamppostMpiTargets.cmake" >/dev/null; then
  components="COMPONENTS mpi"
  libraries="lamppost::lamppost_mpi"
  launcher=(mpirun -n 2)
fi

if [ -n "$components" ]; then
  echo "== find_package: example 02, standalone"
  cpp_example=$(example 02 cc)
  mkdir "$work/user"
  cat >"$work/user/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C CXX)
find_package(lamppost 0.1 REQUIRED $components)
add_executable(user $cpp_example)
target_compile_features(user PRIVATE cxx_std_20)
target_link_libraries(user PRIVATE $libraries)
EOF
  cmake -S "$work/user" -B "$work/user/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log" ||
    { cat "$work/configure.log"; exit 1; }
  cmake --build "$work/user/build" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
  timeout 60 "${launcher[@]}" "$work/user/build/user"
fi

echo "== find_package: without MPI in sight, C only"
mkdir "$work/plain"
cat >"$work/plain/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(plain LANGUAGES C)
set(CMAKE_DISABLE_FIND_PACKAGE_MPI ON)
find_package(lamppost REQUIRED)
find_package(lamppost QUIET COMPONENTS nothing_of_the_kind)
if(lamppost_FOUND)
  message(FATAL_ERROR "a component that does not exist was found")
endif()
file(WRITE ${CMAKE_BINARY_DIR}/main.c
  "#include <lamppost/lamppost.h>\nint main(void) { return lpGetVersion() == LP_VERSION ? 0 : 1; }\n")
add_executable(plain ${CMAKE_BINARY_DIR}/main.c)
target_link_libraries(plain PRIVATE lamppost::lamppost)
EOF
cmake -S "$work/plain" -B "$work/plain/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log" ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$work/plain/build" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
"$work/plain/build/plain"

echo "== pkg-config: example 01, strict C99"
c_example=$(example 01 c)
pc=$(find "$prefix" -name lamppost.pc)
libdir=$(PKG_CONFIG_PATH=${pc%/*} pkg-config --variable=libdir lamppost)
read -ra flags <<<"$(PKG_CONFIG_PATH=${pc%/*} pkg-config --cflags --libs lamppost)"
cc -std=c99 -pedantic -Wall -Wextra -Werror "$c_example" -o "$work/hello" "${flags[@]}" \
  "-Wl,-rpath,$libdir"
timeout 60 "$work/hello"

echo "== tools of the installed tree find their libraries"
for tool in "$prefix"/bin/lamppost-*; do
  [ -x "$tool" ] || continue
  if ldd "$tool" | grep 'not found'; then
    echo "$tool lacks the libraries above" >&2
    exit 1
  fi
done
echo "installed package: usable"
