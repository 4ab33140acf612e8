# Flags that all of Lamppost's own code is compiled with.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
if(LAMPPOST_SANITIZE)
  add_compile_options(-fsanitize=${LAMPPOST_SANITIZE})
  add_link_options(-fsanitize=${LAMPPOST_SANITIZE})
endif()

function(lamppost_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # Contraction is off because fma is an explicit operation of the numerics contract.
  target_compile_options(${target} PRIVATE
    -Wall -Wextra $<$<BOOL:${LAMPPOST_WERROR}>:-Werror> -ffp-contract=off
    $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno>)
  target_include_directories(${target} PRIVATE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  # fmt's headers only; src/base/fmt_library.cc compiles the rest of it, once.
  get_target_property(fmt_include fmt::fmt-header-only INTERFACE_INCLUDE_DIRECTORIES)
  if(fmt_include)
    target_include_directories(${target} SYSTEM PRIVATE ${fmt_include})
  endif()
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF C_STANDARD 99
    CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# The fiber scheduler is compiled without sanitizers and tells them about fibers itself. Nor may the
# compiler make memmove of its loops: that one is watched wherever it is called from.
function(lamppost_fiber_options source)
  set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(LAMPPOST_SANITIZE MATCHES "thread")
    set_source_files_properties(${source} PROPERTIES
      COMPILE_OPTIONS "-fno-sanitize=thread;-fno-tree-loop-distribute-patterns"
      COMPILE_DEFINITIONS LAMPPOST_TSAN)
  elseif(LAMPPOST_SANITIZE MATCHES "address")
    set_source_files_properties(${source} PROPERTIES
      COMPILE_OPTIONS -fno-sanitize=address COMPILE_DEFINITIONS LAMPPOST_ASAN)
  endif()
endfunction()
