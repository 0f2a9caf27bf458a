# SPDX-License-Identifier: MIT
# The C++ in README.md is compiled code: every ```cpp block stands word for word in a file of examples/ or tests/consumer/.
# cmake [-D ROOT=tree] -P cmake/check_readme.cmake
cmake_minimum_required(VERSION 3.25)
if(NOT ROOT)
  cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH ROOT)
endif()

set(sources "")
file(GLOB_RECURSE paths ${ROOT}/examples/*.cpp ${ROOT}/tests/consumer/*.cpp)
foreach(path IN LISTS paths)
  file(READ ${path} text)
  string(APPEND sources "${text}\n")
endforeach()

file(READ ${ROOT}/README.md rest)
set(wrong "")
set(count 0)
set(fence "\n```cpp\n")
string(FIND "${rest}" "${fence}" begin)
while(NOT begin EQUAL -1)
  math(EXPR begin "${begin} + 8")  # the fence's length
  string(SUBSTRING "${rest}" ${begin} -1 rest)
  string(FIND "${rest}" "```" end)
  string(SUBSTRING "${rest}" 0 ${end} block)
  string(SUBSTRING "${rest}" ${end} -1 rest)
  math(EXPR count "${count} + 1")
  string(FIND "${sources}" "${block}" place)
  if(place EQUAL -1)
    string(APPEND wrong "\n--- block ${count} stands in no example:\n${block}")
  endif()
  string(FIND "${rest}" "${fence}" begin)
endwhile()

if(wrong)
  message(FATAL_ERROR "readme: ${wrong}")
endif()
message(STATUS "readme: ${count} blocks of C++, each from a compiled file")
