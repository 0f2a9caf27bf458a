# SPDX-License-Identifier: MIT
# The settings of dev.cmake, with ThreadSanitizer: cmake -C cmake/sanitize_threads.cmake -DCMAKE_CXX_COMPILER=clang++ -S . -B build/clang-threads
# The compiler must be Clang: ThreadSanitizer does not see how the threads of GNU OpenMP wait for each other, and would report false
# races. LLVM's OpenMP loads a library, Archer, which tells ThreadSanitizer. Run the programs with
# TSAN_OPTIONS=ignore_noninstrumented_modules=1, or mutexes inside OpenMP are reported, too.
include(${CMAKE_CURRENT_LIST_DIR}/sanitize.cmake)
set(LAZYPRUNE_TEST_THREADS ON CACHE BOOL "" FORCE)
set(LAZYPRUNE_TEST_IN_FULL ON CACHE BOOL "" FORCE)
set(LAZYPRUNE_COMPUTES -O1 CACHE STRING "" FORCE)
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -fsanitize=thread" CACHE STRING "" FORCE)
