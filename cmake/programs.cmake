# SPDX-License-Identifier: MIT
# Our own executables: what they need, and the instruction set that they are built for.

include(CheckLanguage)
check_language(C) # of one example
if(CMAKE_C_COMPILER)
  enable_language(C)
endif()

find_package(CLI11 CONFIG QUIET)
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
      "The programs, tests and benchmarks need more than is here. Missing Debian and Ubuntu packages:${missing}\n"
      "Install them (apt-get install ...), or take the library alone: -DLAZYPRUNE_BUILD_TESTS=OFF -DLAZYPRUNE_BUILD_EXAMPLES=OFF -DLAZYPRUNE_BUILD_BENCH=OFF"
  )
endif()

set(arch "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(arch x86-64-v3)
endif()
set(LAZYPRUNE_ARCH "${arch}" CACHE STRING "-march= of our own executables; empty: the compiler's default")

# Everything an executable of ours is linked with, and nobody else's.
add_library(lazyprune.own INTERFACE)
target_link_libraries(lazyprune.own INTERFACE lazyprune::lazyprune)
# GCC 12 sees overlaps in joined strings where there are none: https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105651
target_compile_options(lazyprune.own INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
if(LAZYPRUNE_ARCH)
  target_compile_options(lazyprune.own INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=>-march=${LAZYPRUNE_ARCH})
endif()

# For compute capabilities 8.0 and 9.0, and by the latter's PTX for those that come later.
if(TARGET lazyprune.cuda)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared) # as lazyprune::cuda is linked
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
