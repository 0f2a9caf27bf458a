# SPDX-License-Identifier: MIT
# Runs the programs PLAIN and FAST, and fails unless both print the same lines and neither accepts numbers that are not finite.
foreach(program IN ITEMS PLAIN FAST)
  execute_process(COMMAND ${${program}} OUTPUT_VARIABLE ${program}_lines COMMAND_ERROR_IS_FATAL ANY)
  if(NOT "${${program}_lines}" MATCHES "query_attention: key of the token at position 1: expected finite numbers, found nan\n"
     OR "${${program}_lines}" MATCHES "was accepted")
    message(FATAL_ERROR "${${program}} does not notice numbers that are not finite:\n${${program}_lines}")
  endif()
endforeach()
if(NOT PLAIN_lines STREQUAL FAST_lines)
  string(REPLACE "\n" ";" plain "${PLAIN_lines}")
  string(REPLACE "\n" ";" fast "${FAST_lines}")
  set(others ${fast})
  list(REMOVE_ITEM others ${plain})
  list(JOIN others "\n" others)
  message(FATAL_ERROR "${FAST} decides otherwise than ${PLAIN}:\n${others}")
endif()
