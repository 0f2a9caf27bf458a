# SPDX-License-Identifier: MIT
# Settings for work on the library itself: cmake -C cmake/dev.cmake -S . -B build. Users of the library get none of them.
set(CMAKE_CXX_FLAGS "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror" CACHE STRING "" FORCE)
set(CMAKE_C_FLAGS "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror" CACHE STRING "" FORCE)
# The code that nvcc generates has superfluous parentheses. Each test has all kernels, which take a third of the room if they are compressed.
set(CMAKE_CUDA_FLAGS "-Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-parentheses -Xfatbin=-compress-all" CACHE STRING "" FORCE)
set(LAZYPRUNE_COMPUTES -O1 CACHE STRING "Flags of code that computes much" FORCE)
set(LAZYPRUNE_LIGHT -O1 CACHE STRING "Flags of code that takes longer to compile than to run" FORCE)
set(LAZYPRUNE_SHORT -O0 CACHE STRING "Flags of examples and benchmarks, which are only compiled or run for a moment" FORCE)
set(LAZYPRUNE_ONE_UNIT ON CACHE BOOL "Compile the program in two units instead of one a folder" FORCE)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON CACHE BOOL "" FORCE)
set(LAZYPRUNE_BUILD_TESTS ON CACHE BOOL "" FORCE)
set(LAZYPRUNE_BUILD_EXAMPLES ON CACHE BOOL "" FORCE)
# Some tests and benchmarks take too long to be built for every change. They are built if LAZYPRUNE_TEST_IN_FULL is set, as in .ci/run --long.
set(in_full OFF)
if(DEFINED ENV{LAZYPRUNE_TEST_IN_FULL})
  set(in_full ON)
endif()
set(LAZYPRUNE_BUILD_BENCH ${in_full} CACHE BOOL "" FORCE)
set(LAZYPRUNE_TEST_IN_FULL ${in_full} CACHE BOOL "" FORCE)
