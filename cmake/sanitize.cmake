# SPDX-License-Identifier: MIT
# The settings of dev.cmake, with AddressSanitizer and UndefinedBehaviorSanitizer: cmake -C cmake/sanitize.cmake -S . -B build/sanitize
include(${CMAKE_CURRENT_LIST_DIR}/dev.cmake)
set(CMAKE_BUILD_TYPE Debug CACHE STRING "" FORCE)
# With optimization, the code that sanitizers add takes most of the build's time. Therefore only code that computes much is optimized.
# Optimized code is not checked for addresses that overflow, because it takes three times as long to compile with this check.
# AddressSanitizer still finds accesses to such addresses.
set(LAZYPRUNE_COMPUTES "-O1;-fno-sanitize=pointer-overflow" CACHE STRING "" FORCE)
set(LAZYPRUNE_LIGHT "" CACHE STRING "" FORCE)
set(LAZYPRUNE_SHORT "" CACHE STRING "" FORCE)
set(LAZYPRUNE_TEST_ALL OFF CACHE BOOL "" FORCE)
set(LAZYPRUNE_TEST_THREADS OFF CACHE BOOL "" FORCE) # sanitize_threads.cmake has the sanitizer for these
set(LAZYPRUNE_BUILD_BENCH OFF CACHE BOOL "" FORCE)
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all" CACHE STRING "" FORCE)
