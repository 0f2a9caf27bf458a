# SPDX-License-Identifier: MIT
# A header includes its own floor and those below, and names no flag of the program; floors 0-3 include the standard library and nothing
# else from outside.
# cmake [-D ROOT=tree] -P cmake/check_floors.cmake
cmake_minimum_required(VERSION 3.25)
if(NOT ROOT)
  cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH ROOT)
endif()

set(floors core policy session registry backend model io eval)
# What stands above the folders.
set(floor_of_version.hpp 0)
set(floor_of_lazyprune.hpp 2)

# The floor of a header, its path relative to include/lazyprune.
function(floor_of path out)
  string(REGEX REPLACE "/.*" "" top ${path})
  list(FIND floors ${top} floor)
  if(floor EQUAL -1)
    set(floor "${floor_of_${top}}")
  endif()
  set(${out} "${floor}" PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE headers RELATIVE ${ROOT}/include/lazyprune ${ROOT}/include/lazyprune/*.hpp ${ROOT}/include/lazyprune/*.cuh)
set(wrong "")
foreach(header IN LISTS headers)
  floor_of(${header} own)
  if(own STREQUAL "")
    string(APPEND wrong "\n  ${header}: stands on no floor")
    continue()
  endif()
  file(STRINGS ${ROOT}/include/lazyprune/${header} lines REGEX "^[ \t]*#[ \t]*include")
  foreach(line IN LISTS lines)
    if(line MATCHES "<lazyprune/([^>]+)>")
      floor_of(${CMAKE_MATCH_1} other)
      if(other STREQUAL "" OR other GREATER own)
        string(APPEND wrong "\n  ${header}: ${line} is above its floor")
      endif()
    elseif(NOT line MATCHES "<[^>]+>")
      string(APPEND wrong "\n  ${header}: ${line} is not of the form <lazyprune/...>")
    elseif(own LESS_EQUAL 3 AND NOT line MATCHES "<[a-z_]+>")  # the standard library's headers have neither a folder nor a suffix
      string(APPEND wrong "\n  ${header}: ${line} is not of the standard library")
    endif()
  endforeach()
endforeach()

foreach(header IN LISTS headers)
  file(STRINGS ${ROOT}/include/lazyprune/${header} lines REGEX "[\"`]--[a-z]")
  foreach(line IN LISTS lines)
    string(APPEND wrong "\n  ${header}: names a flag: ${line}")
  endforeach()
endforeach()

list(LENGTH headers count)
if(wrong OR count EQUAL 0)
  message(FATAL_ERROR "floors: ${count} headers seen${wrong}")
endif()
message(STATUS "floors: ${count} headers, each includes its own floor and those below")
