# SPDX-License-Identifier: MIT
# For work on the library itself: cmake -C cmake/dev.cmake -S . -B build. Users of the library never meet these warnings.
set(CMAKE_CXX_FLAGS "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror" CACHE STRING "" FORCE)
set(CMAKE_C_FLAGS "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror" CACHE STRING "" FORCE)
set(CMAKE_CUDA_FLAGS "-Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-parentheses" CACHE STRING "" FORCE) # nvcc writes parentheses of its own
set(LAZYPRUNE_LIGHT -O1 CACHE STRING "Flags for what computes little: its compiling takes longer than its work" FORCE)
set(LAZYPRUNE_SHORT -O0 CACHE STRING "Flags for what is run for a moment" FORCE)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON CACHE BOOL "" FORCE)
foreach(part IN ITEMS TESTS EXAMPLES BENCH)
  set(LAZYPRUNE_BUILD_${part} ON CACHE BOOL "" FORCE)
endforeach()
