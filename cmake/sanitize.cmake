# SPDX-License-Identifier: MIT
# dev.cmake with AddressSanitizer and UndefinedBehaviorSanitizer: cmake -C cmake/sanitize.cmake -S . -B build/sanitize
include(${CMAKE_CURRENT_LIST_DIR}/dev.cmake)
set(CMAKE_BUILD_TYPE Debug CACHE STRING "" FORCE)
# Optimizing what the sanitizers add takes most of a build's time; only what computes much is worth it.
# The program's has AddressSanitizer alone: with the other it takes more than twice as long, and the same headers have both in the tests of
# their floors.
set(LAZYPRUNE_COMPUTES "-O1;-fno-sanitize=undefined" CACHE STRING "" FORCE)
set(LAZYPRUNE_LIGHT "" CACHE STRING "" FORCE)
set(LAZYPRUNE_SHORT "" CACHE STRING "" FORCE)
set(LAZYPRUNE_TEST_ALL OFF CACHE BOOL "" FORCE)
set(LAZYPRUNE_BUILD_BENCH OFF CACHE BOOL "" FORCE)
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all" CACHE STRING "" FORCE)
