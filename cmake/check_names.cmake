# SPDX-License-Identifier: MIT
# No file or folder has a name that Windows refuses; every source file names its licence in its first line (the second, after a #!).
# cmake [-D ROOT=tree] -P cmake/check_names.cmake
cmake_minimum_required(VERSION 3.25)
if(NOT ROOT)
  cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH ROOT)
endif()

file(GLOB_RECURSE paths LIST_DIRECTORIES true RELATIVE ${ROOT} ${ROOT}/include/* ${ROOT}/examples/* ${ROOT}/tests/* ${ROOT}/bench/*
     ${ROOT}/cmake/* ${ROOT}/.ci/*)
list(APPEND paths CMakeLists.txt)

set(wrong "")
set(count 0)
foreach(path IN LISTS paths)
  cmake_path(GET path FILENAME name)
  string(TOLOWER ${name} lower)
  if(lower MATCHES "^(aux|con|nul|prn|com[0-9]|lpt[0-9])(\\..*)?$")
    string(APPEND wrong "\n  ${path} cannot exist on Windows")
  endif()
  if(name MATCHES "\\.(hpp|cpp|cuh|cu|h|c|map|cmake|py|sh)$" OR name STREQUAL CMakeLists.txt OR path STREQUAL .ci/run)
    math(EXPR count "${count} + 1")
    file(READ ${ROOT}/${path} text LIMIT 200)
    if(NOT text MATCHES "^(#![^\n]*\n)?(//|#|/\\*) SPDX-License-Identifier: MIT( \\*/)?\n")
      string(APPEND wrong "\n  ${path} does not begin with its SPDX-License-Identifier")
    endif()
  endif()
endforeach()

if(wrong OR count EQUAL 0)
  message(FATAL_ERROR "names: ${count} sources seen${wrong}")
endif()
message(STATUS "names: ${count} sources with their licence, no name that Windows refuses")
