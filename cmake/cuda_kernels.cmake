# lamppost_cuda_kernels: every kernel of kernels.def for each chip of LAMPPOST_CUDA_CHIPS, as PTX
# text (what tests/codegen reads) and as a cubin. A kernel that spills registers fails the build.
# nvcc is called directly: CMake 3.25 does not know C++20 for CUDA.

set(LAMPPOST_CUDA_CHIPS 90a CACHE STRING "Chips to build kernels for, as in sm_90a; a list")

# No contraction: fma is an explicit operation of the numerics contract.
set(lamppost_nvcc_flags -std=c++20 -O3 --expt-relaxed-constexpr -fmad=false
  -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR})
set(lamppost_cuda_folder ${PROJECT_BINARY_DIR}/cuda)
file(MAKE_DIRECTORY ${lamppost_cuda_folder})

set(lamppost_ptx_files "")
set(lamppost_cubin_files "")
foreach(chip ${LAMPPOST_CUDA_CHIPS})
  set(ptx ${lamppost_cuda_folder}/kernels_sm_${chip}.ptx)
  set(cubin ${lamppost_cuda_folder}/kernels_sm_${chip}.cubin)
  add_custom_command(OUTPUT ${ptx}
    COMMAND ${LAMPPOST_NVCC} ${lamppost_nvcc_flags} -arch=compute_${chip} -ptx
      -MD -MF ${ptx}.d -MT ${ptx} ${PROJECT_SOURCE_DIR}/collectives/entry_cuda.cu -o ${ptx}
    DEPENDS ${PROJECT_SOURCE_DIR}/collectives/entry_cuda.cu DEPFILE ${ptx}.d
    COMMENT "Kernels for sm_${chip}: PTX" VERBATIM)
  add_custom_command(OUTPUT ${cubin}
    COMMAND ${LAMPPOST_NVCC} -arch=sm_${chip} -cubin -O3 -fmad=false
      -Xptxas --warn-on-spills,-Werror ${ptx} -o ${cubin}
    DEPENDS ${ptx} COMMENT "Kernels for sm_${chip}: machine code" VERBATIM)
  list(APPEND lamppost_ptx_files ${ptx})
  list(APPEND lamppost_cubin_files ${cubin})
endforeach()
add_custom_target(lamppost_cuda_kernels ALL DEPENDS ${lamppost_cubin_files})
