# The CUDA part. Sets lamppost_with_cuda; if true, lamppost_cuda_headers carries cuda.h and
# LAMPPOST_HAVE_CUDA, and lamppost_cuda_kernels builds every kernel of kernels.def for each chip of
# LAMPPOST_CUDA_CHIPS, as PTX text (what tests/codegen reads) and as machine code. A kernel that spills
# registers fails the build. nvcc is called directly: CMake 3.25 does not know C++20 for CUDA.

set(LAMPPOST_CUDA_CHIPS AUTO CACHE STRING
  "Chips to build kernels for: 80, 90a, 100f, 120f; a list, or AUTO: this machine's GPUs, else 90a")

set(lamppost_with_cuda FALSE)
set(reason "")
if(LAMPPOST_CUDA STREQUAL "OFF")
  set(reason "LAMPPOST_CUDA is OFF")
else()
  find_program(LAMPPOST_NVCC nvcc HINTS ${CUDAToolkit_ROOT}/bin /usr/local/cuda/bin)
  if(LAMPPOST_NVCC)
    get_filename_component(lamppost_cuda_bin ${LAMPPOST_NVCC} REALPATH)
    get_filename_component(lamppost_cuda_bin ${lamppost_cuda_bin} DIRECTORY)
    find_path(LAMPPOST_CUDA_INCLUDE cuda.h HINTS ${lamppost_cuda_bin}/../include
      ${lamppost_cuda_bin}/../targets/x86_64-linux/include)
    find_program(LAMPPOST_FATBINARY fatbinary HINTS ${lamppost_cuda_bin})
  endif()
  foreach(part NVCC CUDA_INCLUDE FATBINARY)
    if(NOT LAMPPOST_${part} AND NOT reason)
      set(reason "no ${part} of a CUDA toolkit was found (set CUDAToolkit_ROOT)")
    endif()
  endforeach()
  string(REPLACE "NVCC" "nvcc" reason "${reason}")
  string(REPLACE "CUDA_INCLUDE" "cuda.h" reason "${reason}")
  string(REPLACE "FATBINARY" "fatbinary" reason "${reason}")
endif()
if(reason)
  if(LAMPPOST_CUDA STREQUAL "ON")
    message(FATAL_ERROR "lamppost: LAMPPOST_CUDA is ON, but ${reason}")
  endif()
  message(STATUS "lamppost: cuda backend off: ${reason}")
  return()
endif()
set(lamppost_with_cuda TRUE)

add_library(lamppost_cuda_headers INTERFACE)
target_include_directories(lamppost_cuda_headers SYSTEM INTERFACE
  $<BUILD_INTERFACE:${LAMPPOST_CUDA_INCLUDE}>)
target_compile_definitions(lamppost_cuda_headers INTERFACE LAMPPOST_HAVE_CUDA=1)
target_link_libraries(lamppost_cuda_headers INTERFACE ${CMAKE_DL_LIBS})

# ---- Chips ---------------------------------------------------------------------------------------
# The chips that have family- or architecture-specific instructions are built with them.
function(lamppost_native_chips result)
  set(chips "")
  find_program(LAMPPOST_NVIDIA_SMI nvidia-smi)
  if(LAMPPOST_NVIDIA_SMI)
    execute_process(COMMAND ${LAMPPOST_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE lines ERROR_QUIET)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" versions "${lines}")
    foreach(version ${versions})
      string(REPLACE "." "" chip ${version})
      if(chip EQUAL 90)
        set(chip 90a)
      elseif(chip GREATER_EQUAL 100)
        string(APPEND chip f)
      endif()
      list(APPEND chips ${chip})
    endforeach()
    list(REMOVE_DUPLICATES chips)
  endif()
  if(NOT chips)
    set(chips 90a)
  endif()
  set(${result} ${chips} PARENT_SCOPE)
endfunction()

set(lamppost_chips ${LAMPPOST_CUDA_CHIPS})
if(LAMPPOST_CUDA_CHIPS STREQUAL "AUTO")
  lamppost_native_chips(lamppost_chips)
endif()
list(TRANSFORM lamppost_chips PREPEND sm_ OUTPUT_VARIABLE lamppost_chip_names)
string(JOIN " " lamppost_chip_names ${lamppost_chip_names})
message(STATUS "lamppost: cuda backend on: kernels for ${lamppost_chip_names}")

# ---- Kernels -------------------------------------------------------------------------------------
# No contraction: fma is an explicit operation of the numerics contract.
set(lamppost_nvcc_flags -std=c++20 -O3 --expt-relaxed-constexpr -fmad=false
  -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR})
set(lamppost_cuda_folder ${PROJECT_BINARY_DIR}/cuda)
file(MAKE_DIRECTORY ${lamppost_cuda_folder})

# The kernels of one chip: `output`.ptx and `output`.cubin. A folder in ARGN may hold another
# collectives/kernels.def.
function(lamppost_kernels_of_chip chip output)
  set(first_folders ${ARGN})
  list(TRANSFORM first_folders PREPEND -I)
  add_custom_command(OUTPUT ${output}.ptx
    COMMAND ${LAMPPOST_NVCC} ${first_folders} ${lamppost_nvcc_flags} -arch=compute_${chip} -ptx
      -MD -MF ${output}.ptx.d -MT ${output}.ptx ${PROJECT_SOURCE_DIR}/collectives/entry_cuda.cu
      -o ${output}.ptx
    DEPENDS ${PROJECT_SOURCE_DIR}/collectives/entry_cuda.cu DEPFILE ${output}.ptx.d
    COMMENT "Kernels for sm_${chip}: PTX" VERBATIM)
  add_custom_command(OUTPUT ${output}.cubin
    COMMAND ${LAMPPOST_NVCC} -arch=sm_${chip} -cubin -O3 -fmad=false
      -Xptxas --warn-on-spills,-Werror ${output}.ptx -o ${output}.cubin
    DEPENDS ${output}.ptx COMMENT "Kernels for sm_${chip}: machine code" VERBATIM)
endfunction()

set(lamppost_ptx_files "")
set(lamppost_cubin_files "")
set(lamppost_images "")
foreach(chip ${lamppost_chips})
  set(output ${lamppost_cuda_folder}/kernels_sm_${chip})
  lamppost_kernels_of_chip(${chip} ${output})
  list(APPEND lamppost_ptx_files ${output}.ptx)
  list(APPEND lamppost_cubin_files ${output}.cubin)
  list(APPEND lamppost_images --image3=kind=elf,sm=${chip},file=${output}.cubin)
endforeach()
set(lamppost_fatbin ${lamppost_cuda_folder}/kernels.fatbin)
add_custom_command(OUTPUT ${lamppost_fatbin}
  COMMAND ${LAMPPOST_FATBINARY} -64 --create=${lamppost_fatbin} ${lamppost_images}
  DEPENDS ${lamppost_cubin_files} COMMENT "Kernels: one image for ${lamppost_chip_names}" VERBATIM)
add_custom_target(lamppost_cuda_kernels ALL DEPENDS ${lamppost_fatbin})

# The image becomes part of `source`, a source of `target`.
function(lamppost_embed_cuda_kernels target source)
  set_source_files_properties(${source} PROPERTIES
    OBJECT_DEPENDS ${lamppost_fatbin} SKIP_UNITY_BUILD_INCLUSION ON
    COMPILE_DEFINITIONS
      "LAMPPOST_CUDA_FATBIN=\"${lamppost_fatbin}\";LAMPPOST_CUDA_CHIP_NAMES=\"${lamppost_chip_names}\"")
  add_dependencies(${target} lamppost_cuda_kernels)
endfunction()
