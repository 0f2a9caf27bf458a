# SPDX-License-Identifier: MIT
# Tests of the C library: its header, its functions, its symbols, and engines in C and Python that use it.

set(engines FALSE) # with sanitizers no engine is run: the tests of the library's functions already run with them
if(TARGET c_engine AND TARGET lazyprune::program AND LAZYPRUNE_TEST_ALL)
  set(engines TRUE)
endif()
if(NOT engines)
  string(JOIN "|" left_out "^c/(c_engine|planted_faults|python_engine)" ${left_out})
endif()
lazyprune_tests(c lazyprune::c lazyprune::eval)
if(CMAKE_C_COMPILER)
  add_library(lazyprune.tests.abi OBJECT c/abi.c)
  target_link_libraries(lazyprune.tests.abi PRIVATE lazyprune::c)
  set_target_properties(lazyprune.tests.abi PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
endif()
if(engines)
  add_dependencies(lazyprune.tests.c lazyprune.program c_engine)
  target_compile_definitions(lazyprune.tests.c PRIVATE LAZYPRUNE_PROGRAM="$<TARGET_FILE:lazyprune.program>"
                                                       LAZYPRUNE_C_ENGINE="$<TARGET_FILE:c_engine>")
  include(c/planted_faults.cmake)
endif()

# Builds a newer library, whose structs have members that callers of ABI 1 do not have. Programs that are already compiled must also work
# with the newer library.
if(LAZYPRUNE_TEST_ALL AND LAZYPRUNE_TEST_IN_FULL AND CMAKE_SYSTEM_NAME STREQUAL Linux)
  set(grown ${CMAKE_CURRENT_BINARY_DIR}/grown)
  file(READ ${PROJECT_SOURCE_DIR}/include/lazyprune/c/lazyprune.h header)
  foreach(struct IN ITEMS evidence shown scorer layer schedule session_options session_state token statistics request plan spills)
    string(REPLACE "} lazyprune_${struct};" "  void* later[2];\n} lazyprune_${struct};" header "${header}")
  endforeach()
  file(CONFIGURE OUTPUT ${grown}/lazyprune/c/lazyprune.h CONTENT "@header@" @ONLY)
  add_library(lazyprune.tests.grown SHARED ${PROJECT_SOURCE_DIR}/examples/c_library/lazyprune.cpp)
  target_include_directories(lazyprune.tests.grown BEFORE PRIVATE ${grown})
  target_link_libraries(lazyprune.tests.grown PRIVATE lazyprune::lazyprune)
  target_compile_options(lazyprune.tests.grown PRIVATE -Wno-missing-field-initializers)
  get_target_property(abi lazyprune.c SOVERSION)
  set_target_properties(lazyprune.tests.grown PROPERTIES OUTPUT_NAME lazyprune VERSION ${PROJECT_VERSION} SOVERSION ${abi}
                                                         LIBRARY_OUTPUT_DIRECTORY ${grown})
  target_link_options(lazyprune.tests.grown PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/examples/c_library/lazyprune.map)
  add_test(NAME c/older_caller COMMAND lazyprune.tests.c --source-file=*/tests/c/lazyprune.test.cpp "--test-case-exclude=structs of callers*")
  set_tests_properties(c/older_caller PROPERTIES ENVIRONMENT "LD_LIBRARY_PATH=${grown};LAZYPRUNE_GROWN=1"
                                                 FAIL_REGULAR_EXPRESSION "test cases: +0 ")
  add_dependencies(lazyprune.tests.c lazyprune.tests.grown)
endif()
if(CMAKE_NM AND CMAKE_SYSTEM_NAME STREQUAL Linux AND LAZYPRUNE_TEST_ALL) # sanitizers add symbols
  add_test(NAME c/symbols COMMAND ${CMAKE_COMMAND} -D NM=${CMAKE_NM} -D LIBRARY=$<TARGET_FILE:lazyprune.c>
                                  -D EXPECTED=${CMAKE_CURRENT_SOURCE_DIR}/c/symbols.txt -P ${CMAKE_CURRENT_SOURCE_DIR}/c/check_symbols.cmake)
endif()
find_program(VALGRIND valgrind)
mark_as_advanced(VALGRIND)
if(VALGRIND AND TARGET c_engine AND LAZYPRUNE_TEST_ALL) # sanitizers do not run under Valgrind
  set(ids ${CMAKE_CURRENT_BINARY_DIR}/ids.txt)
  foreach(i RANGE 59)
    math(EXPR id "3 + ${i} * 7919 % 2300")
    list(APPEND ids_of_prompt ${id})
  endforeach()
  list(JOIN ids_of_prompt " " ids_of_prompt)
  file(WRITE ${ids} "${ids_of_prompt}\n")
  add_test(NAME c/valgrind COMMAND ${VALGRIND} --quiet --error-exitcode=9 --leak-check=full $<TARGET_FILE:c_engine>
                                   ${PROJECT_SOURCE_DIR}/examples/pocket/model ${ids} policy "lazyllm --stages 2:0.5" tokens 3 chunk 20 fork 25)
elseif(LAZYPRUNE_TEST_ALL)
  lazyprune_skipped(c/valgrind "valgrind and a C compiler")
endif()
# Python cannot load a library with sanitizers.
if(LAZYPRUNE_TEST_ALL)
  set(python_with_numpy "")
  foreach(python IN ITEMS python3 /usr/bin/python3)
    execute_process(COMMAND ${python} -c "import numpy" RESULT_VARIABLE without_numpy OUTPUT_QUIET ERROR_QUIET)
    if(NOT without_numpy)
      find_program(python_path ${python} NO_CACHE)
      set(python_with_numpy ${python_path})
      break()
    endif()
  endforeach()
  if(python_with_numpy)
    target_compile_definitions(lazyprune.tests.c PRIVATE LAZYPRUNE_PYTHON="${python_with_numpy}"
                                                         LAZYPRUNE_C_LIBRARY="$<TARGET_FILE:lazyprune.c>")
    add_test(NAME c/python_calls COMMAND ${python_with_numpy} -B ${CMAKE_CURRENT_SOURCE_DIR}/c/python_calls.py $<TARGET_FILE:lazyprune.c>)
    if(TARGET lazyprune::program)
      add_test(NAME c/embed_in_python
               COMMAND ${python_with_numpy} -B ${CMAKE_CURRENT_SOURCE_DIR}/c/embed_in_python.py $<TARGET_FILE:lazyprune.c>
                       $<TARGET_FILE:lazyprune.program> ${PROJECT_SOURCE_DIR})
    endif()
  else()
    foreach(test IN ITEMS c/python_calls c/embed_in_python)
      lazyprune_skipped(${test} "python3 with numpy (python3-numpy)")
    endforeach()
  endif()
endif()
