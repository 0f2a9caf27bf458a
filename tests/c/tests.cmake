# SPDX-License-Identifier: MIT
# The C library: its header, its functions, its symbols, and engines in C and Python that are driven by it.

if(NOT TARGET c_engine OR NOT TARGET lazyprune::program)
  string(JOIN "|" left_out "^c/(c_engine|planted_faults|python_engine)" ${left_out}) # there is no C compiler
endif()
lazyprune_tests(c lazyprune::c lazyprune::eval)
if(TARGET c_engine AND TARGET lazyprune::program)
  add_dependencies(lazyprune.tests.c lazyprune.program c_engine)
  target_compile_definitions(lazyprune.tests.c PRIVATE LAZYPRUNE_PROGRAM="$<TARGET_FILE:lazyprune.program>"
                                                       LAZYPRUNE_C_ENGINE="$<TARGET_FILE:c_engine>")
  add_library(lazyprune.tests.abi OBJECT c/abi.c)
  target_link_libraries(lazyprune.tests.abi PRIVATE lazyprune::c)
  set_target_properties(lazyprune.tests.abi PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
  include(c/planted_faults.cmake)
  set_tests_properties(c/python_engine PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: there is no python3")
endif()
if(CMAKE_NM AND CMAKE_SYSTEM_NAME STREQUAL Linux AND LAZYPRUNE_TEST_ALL) # sanitizers add symbols
  add_test(NAME c/symbols COMMAND ${CMAKE_COMMAND} -D NM=${CMAKE_NM} -D LIBRARY=$<TARGET_FILE:lazyprune.c>
                                  -D EXPECTED=${CMAKE_CURRENT_SOURCE_DIR}/c/symbols.txt -P ${CMAKE_CURRENT_SOURCE_DIR}/c/check_symbols.cmake)
endif()
find_program(VALGRIND valgrind)
mark_as_advanced(VALGRIND)
if(VALGRIND AND TARGET c_engine AND LAZYPRUNE_TEST_ALL) # which sanitizers are not run under
  set(ids ${CMAKE_CURRENT_BINARY_DIR}/ids.txt)
  foreach(i RANGE 59)
    math(EXPR id "3 + ${i} * 7919 % 2300")
    list(APPEND ids_of_prompt ${id})
  endforeach()
  list(JOIN ids_of_prompt " " ids_of_prompt)
  file(WRITE ${ids} "${ids_of_prompt}\n")
  add_test(NAME c/valgrind COMMAND ${VALGRIND} --quiet --error-exitcode=9 --leak-check=full $<TARGET_FILE:c_engine>
                                   ${PROJECT_SOURCE_DIR}/examples/pocket/model ${ids} policy "lazyllm --stages 2:0.5" tokens 3 chunk 20 fork 25)
else()
  message(STATUS "c/valgrind is left out: it needs valgrind and a build without sanitizers")
endif()
# A library with sanitizers cannot be loaded by Python.
if(LAZYPRUNE_TEST_ALL)
  find_program(PYTHON3 python3)
  if(PYTHON3)
    add_test(NAME c/python_calls COMMAND ${PYTHON3} -B ${CMAKE_CURRENT_SOURCE_DIR}/c/python_calls.py $<TARGET_FILE:lazyprune.c>)
  else()
    message(STATUS "c/python_calls is left out: it needs python3")
  endif()
  foreach(python IN ITEMS python3 /usr/bin/python3)
    execute_process(COMMAND ${python} -c "import numpy" RESULT_VARIABLE without_numpy OUTPUT_QUIET ERROR_QUIET)
    if(NOT without_numpy)
      find_program(python_with_numpy ${python} NO_CACHE)
      target_compile_definitions(lazyprune.tests.c PRIVATE LAZYPRUNE_PYTHON="${python_with_numpy}"
                                                           LAZYPRUNE_C_LIBRARY="$<TARGET_FILE:lazyprune.c>")
      break()
    endif()
  endforeach()
endif()
