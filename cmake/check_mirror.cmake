# SPDX-License-Identifier: MIT
# include/lazyprune/PATH/x.hpp (or x.cuh) has its tests/PATH/x.test.cpp, and the other way round; the test includes its header before all
# else, which shows that the header can be compiled alone (where tests are compiled together, tests/odr does).
# The program likewise: examples/lazyprune/PATH/x.hpp has its tests/programs/PATH/x.test.cpp. Those of commands run the program that was built,
# and need include no header of it.
# cmake [-D ROOT=tree] -P cmake/check_mirror.cmake
cmake_minimum_required(VERSION 3.25)
if(NOT ROOT)
  cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH ROOT)
endif()

set(without_test
    lazyprune version # no more than includes, and macros
    core/concepts core/policy # held by tests/static and tests/compile_fail
    core/evidence core/plan core/types core/views session/statistics session/step model/config model/generation model/weights files/family/model_family
    text/jinja/syntax files/stored_tensor text/text_run eval/sample) # words only: every test speaks them
set(without_header "")

file(GLOB_RECURSE headers RELATIVE ${ROOT}/include/lazyprune ${ROOT}/include/lazyprune/*.hpp ${ROOT}/include/lazyprune/*.cuh)
list(FILTER headers EXCLUDE REGEX "(^|/)detail/") # tested through what uses them
list(TRANSFORM headers REPLACE "\\.(hpp|cuh)$" "")
list(REMOVE_ITEM headers ${without_test})

set(tests "")
foreach(floor IN ITEMS core policy session registry backend model files text eval)
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
  if(NOT includes MATCHES "^#include <lazyprune/${test}\\.(hpp|cuh)>$")
    string(APPEND wrong "\n  tests/${test}.test.cpp does not include lazyprune/${test}.hpp before all else")
  endif()
endforeach()

set(program_without_test
    flag_checks # command_line
    commands/flags commands/outcome commands/text_run engine/cpu_engine engine/engine engine/loaded_engine engine/reference_engine models/loading
    models/loading_definition models/sessions traces/replay words/model_words terminal/interrupts terminal/typed_lines # commands/
    pages/html pages/page_style pages/sweep_figures pages/sweep_page_template pages/sweep_tables pages/sweep_view
    pages/trace_page_template # the two pages
    questions/prediction_log questions/question_set questions/results questions/runner # commands/eval, sweep and search
    terminal/progress) # seen on terminals alone
file(GLOB_RECURSE program_headers RELATIVE ${ROOT}/examples/lazyprune ${ROOT}/examples/lazyprune/*.hpp)
file(GLOB_RECURSE program_tests RELATIVE ${ROOT}/tests/programs ${ROOT}/tests/programs/*.test.cpp)
list(TRANSFORM program_headers REPLACE "\\.hpp$" "")
list(TRANSFORM program_tests REPLACE "\\.test\\.cpp$" "")
foreach(header IN LISTS program_headers)
  if(NOT header IN_LIST program_tests AND NOT header IN_LIST program_without_test)
    string(APPEND wrong "\n  examples/lazyprune/${header}.hpp has no tests/programs/${header}.test.cpp")
  endif()
endforeach()
foreach(test IN LISTS program_tests)
  if(NOT test IN_LIST program_headers)
    string(APPEND wrong "\n  tests/programs/${test}.test.cpp has no examples/lazyprune/${test}.hpp")
  endif()
endforeach()

list(LENGTH headers count)
if(wrong OR count EQUAL 0)
  message(FATAL_ERROR "mirror: ${count} headers seen${wrong}")
endif()
message(STATUS "mirror: ${count} headers, each with its test, which includes it first")
