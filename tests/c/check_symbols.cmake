# SPDX-License-Identifier: MIT
# Checks that the shared library exports exactly the functions in EXPECTED, each under the version of the ABI that introduced it.
# cmake -D NM=nm -D LIBRARY=liblazyprune.so -D EXPECTED=symbols.txt -P check_symbols.cmake
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[0-9a-f]+ [^A] [^\n]+" listed "${listed}") # leaves out type A, the symbol of the version itself
list(TRANSFORM listed REPLACE "^[0-9a-f]+ [A-Za-z] " "")
list(SORT listed)
file(STRINGS ${EXPECTED} expected)
list(SORT expected)
if(NOT listed STREQUAL expected)
  list(JOIN listed "\n  " listed)
  message(FATAL_ERROR "symbols: expected those of ${EXPECTED}, found\n  ${listed}")
endif()
list(LENGTH listed count)
message(STATUS "symbols: ${count}, as expected")
