# SPDX-License-Identifier: MIT
# Runs PROGRAM with CASE. Compares its exit code, its output and its error output with three regular expressions.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${PROGRAM} ${CASE} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
foreach(pair IN ITEMS "result;${RESULT}" "out;${OUT}" "err;${ERR}")
  list(GET pair 0 name)
  list(GET pair 1 expected)
  if(NOT "${${name}}" MATCHES "${expected}")
    message(FATAL_ERROR "${CASE}: ${name} is \"${${name}}\", expected ${expected}")
  endif()
endforeach()
