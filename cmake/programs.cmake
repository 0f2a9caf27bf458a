# SPDX-License-Identifier: MIT
# Our own programs, tests and benchmarks: the packages that they need, and the instruction set that they are compiled for.

include(CheckLanguage)
check_language(C) # one example is in C
if(CMAKE_C_COMPILER)
  enable_language(C)
endif()

if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW) # newer versions of CMake have no FindBoost, but Boost has files for CMake
endif()
find_package(CLI11 CONFIG QUIET)
find_package(Boost 1.74 QUIET) # headers only, for `lazyprune serve`
set(missing "")
foreach(pair IN ITEMS "xsimd libxsimd-dev" "nlohmann_json nlohmann-json3-dev" "CLI11 libcli11-dev"
                      "OpenMP_CXX OpenMP (comes with g++; for clang: libomp-dev)")
  string(REGEX MATCH "^([^ ]+) (.*)$" pair "${pair}")
  if(NOT ${CMAKE_MATCH_1}_FOUND)
    string(APPEND missing "\n  ${CMAKE_MATCH_2}")
  endif()
endforeach()
if(missing)
  message(
    FATAL_ERROR
      "The programs, tests and benchmarks need packages that were not found. In Debian and Ubuntu their names are:${missing}\n"
      "Install them (apt-get install ...), or configure the library alone: -DLAZYPRUNE_BUILD_TESTS=OFF -DLAZYPRUNE_BUILD_EXAMPLES=OFF -DLAZYPRUNE_BUILD_BENCH=OFF"
  )
endif()

set(arch "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(arch x86-64-v3)
endif()
set(LAZYPRUNE_ARCH "${arch}" CACHE STRING "Value of -march= for the project's programs, tests and benchmarks; empty: the compiler's default")

# Settings for all our own executables. Users of the library do not get them.
add_library(lazyprune.own INTERFACE)
target_link_libraries(lazyprune.own INTERFACE lazyprune::lazyprune)
# GCC 12 warns that joined strings overlap, though they do not: https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105651
target_compile_options(lazyprune.own INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
# GCC frees memory often by default, which takes 8 % of the time to compile. With this flag a unit takes up to 3 GB instead of 2.
cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY) # MiB
cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR enough "4000 * ${processors}")
if(memory GREATER enough)
  target_compile_options(lazyprune.own INTERFACE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=1500000>")
endif()
if(LAZYPRUNE_ARCH)
  target_compile_options(lazyprune.own INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=>-march=${LAZYPRUNE_ARCH})
endif()

# Our programs and tests compile the kernels of the CPU backend once.
if(TARGET lazyprune.cpu)
  add_library(lazyprune.kernels STATIC cmake/cpu_kernels.cpp)
  target_link_libraries(lazyprune.kernels PUBLIC lazyprune.own lazyprune::cpu)
  target_compile_definitions(lazyprune.kernels PUBLIC LAZYPRUNE_KERNELS_ELSEWHERE)
  target_compile_options(lazyprune.kernels PRIVATE ${LAZYPRUNE_COMPUTES})
endif()

# CUDA code is compiled for the compute capabilities 8.0 and 9.0a, and to PTX of 9.0. GPUs with a later compute capability run this PTX.
if(TARGET lazyprune.cuda)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 90-virtual)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared) # lazyprune::cuda links the shared runtime, too
  enable_language(CUDA)
endif()

if(LAZYPRUNE_BUILD_EXAMPLES)
  add_subdirectory(examples)
endif()
if(LAZYPRUNE_BUILD_TESTS)
  enable_testing()
  add_subdirectory(tests)
endif()
if(LAZYPRUNE_BUILD_BENCH)
  add_subdirectory(bench)
endif()
