# SPDX-License-Identifier: MIT
# The settings of dev.cmake, with ThreadSanitizer: cmake -C cmake/sanitize_threads.cmake -DCMAKE_CXX_COMPILER=clang++ -S . -B build/clang-threads
# It must be Clang: ThreadSanitizer does not see how GNU OpenMP's threads wait for each other, and would report races that are none. LLVM's
# OpenMP tells it, by the library Archer, which it loads by itself in programs with ThreadSanitizer. Run the programs with
# TSAN_OPTIONS=suppressions=cmake/sanitize_threads.supp.
include(${CMAKE_CURRENT_LIST_DIR}/sanitize.cmake)
set(LAZYPRUNE_TEST_THREADS ON CACHE BOOL "" FORCE)
set(LAZYPRUNE_COMPUTES -O1 CACHE STRING "" FORCE)
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -fsanitize=thread" CACHE STRING "" FORCE)
