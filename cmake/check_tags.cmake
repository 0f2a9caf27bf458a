# SPDX-License-Identifier: MIT
# Editors and drawings of the code find its definitions: Universal Ctags sees a few that everybody looks for.
# cmake [-D ROOT=tree] -P cmake/check_tags.cmake
cmake_minimum_required(VERSION 3.25)
if(NOT ROOT)
  cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH ROOT)
endif()

find_program(CTAGS NAMES ctags-universal ctags)
if(CTAGS)
  execute_process(COMMAND ${CTAGS} --version OUTPUT_VARIABLE version ERROR_QUIET)
endif()
if(NOT version MATCHES "Universal Ctags")
  message(STATUS "tags: skipped: Universal Ctags is not there")
  return()
endif()

execute_process(COMMAND ${CTAGS} --languages=C++ --map-C++=+.cuh --kinds-C++=cs --fields=+s -R -f - ${ROOT}/include OUTPUT_VARIABLE tags COMMAND_ERROR_IS_FATAL ANY)
set(missing "")
foreach(name IN ITEMS session any_session transformer cpu reference)
  if(NOT tags MATCHES "(^|\n)${name}\t[^\n]*\t[cs]\tnamespace:lazyprune::v0(\n|$)")
    string(APPEND missing " ${name}")
  endif()
endforeach()
if(missing)
  message(FATAL_ERROR "tags: ctags does not see, in namespace lazyprune::v0:${missing}")
endif()
message(STATUS "tags: the library's types can be found")
