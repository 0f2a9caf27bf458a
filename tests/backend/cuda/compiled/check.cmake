# SPDX-License-Identifier: MIT
# The backend cuda by nvcc, warnings as errors, for compute capability 8.0 and 9.0. No kernel keeps anything in memory that belongs into registers
# (a stack frame, a spill), and none takes more registers than its budget: what lets as many blocks live side by side on a multiprocessor of
# 65,536 registers as the kernel counts on.
# cmake -D NVCC=nvcc -D SOURCE=cuda.cu -D INCLUDE=include -D OUTPUT=folder [-D HOST=g++] -P check.cmake
cmake_minimum_required(VERSION 3.25)

# Of kernels by their names (device/attention.cuh, elementwise.cuh), the first that fits: registers, and the blocks that this leaves room for.
set(budgets
    "attend_tensorILj256E 255" # 2 blocks of 128 threads
    "attend_tensorILj128E 168" # 3, as many as shared memory of 164 KiB has room for
    "attend_tensor 128" # 4
    "attend_exactI.Lj256E 128" # 4
    "attend_exact 102" # 5 of 128 threads, 20 of 32
    "probe_scores 64" # 8 of 128
    " 32") # all else waits for memory: 8 of 256 threads, every thread that there is room for

set(command ${NVCC} -std=c++20 -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -Xptxas -v -Werror all-warnings -Xcompiler
            -Wall,-Wextra -I${INCLUDE} ${SOURCE} -lcublasLt -o ${OUTPUT}/cuda)
if(HOST)
  list(APPEND command -ccbin ${HOST})
endif()
file(MAKE_DIRECTORY ${OUTPUT})
execute_process(COMMAND ${command} OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "compiled: nvcc failed:\n${said}")
endif()

set(wrong "")
set(kernels 0)
string(REGEX MATCHALL "Function properties for [^\n]+\n[^\n]+\n[^\n]*Used [0-9]+ registers" entries "${said}")
foreach(entry IN LISTS entries)
  math(EXPR kernels "${kernels} + 1")
  string(REGEX MATCH "properties for ([^\n]+)\n *([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads" parts "${entry}")
  set(name ${CMAKE_MATCH_1})
  if(NOT parts OR NOT "${CMAKE_MATCH_2} ${CMAKE_MATCH_3} ${CMAKE_MATCH_4}" STREQUAL "0 0 0")
    string(APPEND wrong "\n  ${name}: not all in registers: ${parts}")
  endif()
  string(REGEX MATCH "Used ([0-9]+) registers" parts "${entry}")
  set(registers ${CMAKE_MATCH_1})
  foreach(budget IN LISTS budgets)
    string(REGEX MATCH "^([^ ]*) ([0-9]+)$" parts "${budget}")
    set(pattern "${CMAKE_MATCH_1}")
    set(most "${CMAKE_MATCH_2}")
    if(name MATCHES "${pattern}")
      if(registers GREATER most)
        string(APPEND wrong "\n  ${name}: ${registers} registers, more than ${most}")
      endif()
      break()
    endif()
  endforeach()
endforeach()
if(wrong OR kernels LESS 60)
  message(FATAL_ERROR "compiled: ${kernels} kernels seen${wrong}\n${said}")
endif()
message(STATUS "compiled: ${kernels} kernels, all in registers, each within its budget")
