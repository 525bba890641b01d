# Whether kernels for GPUs can be compiled: sets TZMARK_HAS_KERNELS, and TZMARK_CUDA_STATE for people.
#
# Only nvcc is wanted, to make an image of the kernels that libcuda loads; nothing links the CUDA runtime. TZMARK_CUDA
# is AUTO, ON or OFF: ON fails where AUTO goes on without kernels.
set(TZMARK_HAS_KERNELS OFF)
# Ampere, Hopper, and PTX for what comes later.
set(TZMARK_NVCC_OPTIONS -fatbin -std=c++20 -O3 -gencode arch=compute_80,code=sm_80
                        -gencode arch=compute_90,code=[sm_90,compute_90] -no-compress)
if(TZMARK_CUDA STREQUAL "OFF")
  set(TZMARK_CUDA_STATE "off")
  return()
endif()

set(TZMARK_CUDA_STATE "no toolkit")
find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
  set(TZMARK_CUDA_STATE "toolkit ${CUDAToolkit_VERSION} cannot compile the kernels")
  # A toolkit may know neither these GPUs nor this C++ compiler.
  if(NOT "${TZMARK_NVCC_WORKS}" STREQUAL "${CUDAToolkit_NVCC_EXECUTABLE} ${CUDAToolkit_VERSION}")
    set(probe "${CMAKE_CURRENT_BINARY_DIR}/nvcc_probe")
    file(WRITE "${probe}.cu" "#include <cstdint>\n__global__ void probe() {}\n")
    execute_process(COMMAND "${CUDAToolkit_NVCC_EXECUTABLE}" ${TZMARK_NVCC_OPTIONS} -o "${probe}.fatbin" "${probe}.cu"
      RESULT_VARIABLE status OUTPUT_VARIABLE TZMARK_NVCC_OUTPUT ERROR_VARIABLE TZMARK_NVCC_OUTPUT)
    if(status EQUAL 0)
      set(TZMARK_NVCC_WORKS "${CUDAToolkit_NVCC_EXECUTABLE} ${CUDAToolkit_VERSION}" CACHE INTERNAL "")
    else()
      unset(TZMARK_NVCC_WORKS CACHE)
      message(STATUS "tzmark: nvcc fails: ${TZMARK_NVCC_OUTPUT}")
    endif()
  endif()
  if(TZMARK_NVCC_WORKS)
    set(TZMARK_HAS_KERNELS ON)
    set(TZMARK_CUDA_STATE "kernels for sm_80, sm_90 and later (toolkit ${CUDAToolkit_VERSION})")
  endif()
endif()
if(TZMARK_CUDA STREQUAL "ON" AND NOT TZMARK_HAS_KERNELS)
  message(FATAL_ERROR "TZMARK_CUDA is ON: ${TZMARK_CUDA_STATE}")
endif()
