# SPDX-License-Identifier: MIT
# For work on the library itself: cmake -C cmake/dev.cmake -S . -B build. Users of the library never meet these warnings.
set(CMAKE_CXX_FLAGS "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror" CACHE STRING "" FORCE)
set(CMAKE_C_FLAGS "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror" CACHE STRING "" FORCE)
set(CMAKE_CUDA_FLAGS "-Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-parentheses" CACHE STRING "" FORCE) # nvcc writes parentheses of its own
set(LAZYPRUNE_COMPUTES -O1 CACHE STRING "Flags for what computes much" FORCE)
set(LAZYPRUNE_LIGHT -O1 CACHE STRING "Flags for what computes little: its compiling takes longer than its work" FORCE)
set(LAZYPRUNE_SHORT -O0 CACHE STRING "Flags for what is run for a moment" FORCE)
set(LAZYPRUNE_ONE_UNIT ON CACHE BOOL "Compile each part of the program as one file" FORCE)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON CACHE BOOL "" FORCE)
set(LAZYPRUNE_BUILD_TESTS ON CACHE BOOL "" FORCE)
set(LAZYPRUNE_BUILD_EXAMPLES ON CACHE BOOL "" FORCE)
# What takes longer than it tells from one change to the next: .ci/run builds it.
set(in_full OFF)
if(DEFINED ENV{LAZYPRUNE_TEST_IN_FULL})
  set(in_full ON)
endif()
set(LAZYPRUNE_BUILD_BENCH ${in_full} CACHE BOOL "" FORCE)
set(LAZYPRUNE_TEST_IN_FULL ${in_full} CACHE BOOL "" FORCE)
