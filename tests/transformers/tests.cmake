# SPDX-License-Identifier: MIT
# Tests of the package for transformers (examples/transformers). They are skipped if Python has no torch or transformers.

find_program(python_of_transformers ${LAZYPRUNE_PYTHON} NO_CACHE)
if(NOT python_of_transformers)
  lazyprune_skipped(transformers "python3 with torch and transformers")
  return()
endif()

# Copies the package into the layout of an installation.
set(package ${CMAKE_CURRENT_BINARY_DIR}/transformers)
set(sources ${PROJECT_SOURCE_DIR}/examples/transformers/src/lazyprune)
add_custom_target(lazyprune.tests.transformers ALL
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${sources} ${package}/lazyprune
  COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_SOURCE_DIR}/examples/c_library/lazyprune.py ${package}/lazyprune/c.py
  COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:lazyprune.c> ${package}/lazyprune/$<TARGET_FILE_PREFIX:lazyprune.c>lazyprune$<TARGET_FILE_SUFFIX:lazyprune.c>)
add_dependencies(lazyprune.tests.transformers lazyprune.c)

foreach(name prune ranks devices press)
  add_test(NAME transformers/${name} COMMAND ${python_of_transformers} -B ${CMAKE_CURRENT_SOURCE_DIR}/transformers/${name}.py ${package})
  set_tests_properties(transformers/${name} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()
add_test(NAME transformers/traces COMMAND ${python_of_transformers} -B ${CMAKE_CURRENT_SOURCE_DIR}/transformers/traces.py ${package}
                                          $<TARGET_FILE:lazyprune.program> ${PROJECT_SOURCE_DIR} 120)
add_test(NAME transformers/build_backend COMMAND ${python_of_transformers} -B ${CMAKE_CURRENT_SOURCE_DIR}/transformers/build_backend.py
                                                 ${PROJECT_SOURCE_DIR})
set_tests_properties(transformers/traces PROPERTIES SKIP_RETURN_CODE 77)
set_tests_properties(transformers/ranks PROPERTIES PROCESSORS 2)
