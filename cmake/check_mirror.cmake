# SPDX-License-Identifier: MIT
# include/lazyprune/PATH/x.hpp has its tests/PATH/x.test.cpp, and the other way round; the test includes its header before all else, which
# shows that the header can be compiled alone.
# cmake [-D ROOT=tree] -P cmake/check_mirror.cmake
cmake_minimum_required(VERSION 3.25)
if(NOT ROOT)
  cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH ROOT)
endif()

set(without_test
    lazyprune version # no more than includes, and macros
    core/concepts core/policy # held by tests/static and tests/compile_fail
    core/evidence core/plan core/types core/views session/statistics session/step model/config model/weights) # words only: every test speaks them
set(without_header "")

file(GLOB_RECURSE headers RELATIVE ${ROOT}/include/lazyprune ${ROOT}/include/lazyprune/*.hpp)
list(FILTER headers EXCLUDE REGEX "(^|/)detail/") # tested through what uses them
list(TRANSFORM headers REPLACE "\\.hpp$" "")
list(REMOVE_ITEM headers ${without_test})

set(tests "")
foreach(floor IN ITEMS core policy session registry backend model io eval)
  file(GLOB_RECURSE found RELATIVE ${ROOT}/tests ${ROOT}/tests/${floor}/*.test.cpp)
  list(APPEND tests ${found})
endforeach()
list(TRANSFORM tests REPLACE "\\.test\\.cpp$" "")
list(REMOVE_ITEM tests ${without_header} "")

set(wrong "")
foreach(header IN LISTS headers)
  if(NOT header IN_LIST tests)
    string(APPEND wrong "\n  include/lazyprune/${header}.hpp has no tests/${header}.test.cpp")
  endif()
endforeach()
foreach(test IN LISTS tests)
  if(NOT test IN_LIST headers)
    string(APPEND wrong "\n  tests/${test}.test.cpp has no include/lazyprune/${test}.hpp")
    continue()
  endif()
  file(STRINGS ${ROOT}/tests/${test}.test.cpp includes REGEX "^#include" LIMIT_COUNT 1)
  if(NOT includes STREQUAL "#include <lazyprune/${test}.hpp>")
    string(APPEND wrong "\n  tests/${test}.test.cpp does not include lazyprune/${test}.hpp before all else")
  endif()
endforeach()

list(LENGTH headers count)
if(wrong OR count EQUAL 0)
  message(FATAL_ERROR "mirror: ${count} headers seen${wrong}")
endif()
message(STATUS "mirror: ${count} headers, each with its test, which includes it first")
