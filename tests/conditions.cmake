# SPDX-License-Identifier: MIT
# Runs tests under other conditions than an ordinary process has (main.cpp): in a locale whose decimal point is no point, and on a thread
# with a small stack.

# Makes the locales, if the sources of locales are installed. In ps_AF the decimal point has two bytes.
set(lazyprune_locales "")
find_program(LOCALEDEF localedef)
mark_as_advanced(LOCALEDEF)
if(LOCALEDEF AND NOT CMAKE_CROSSCOMPILING)
  set(lazyprune_locales ${CMAKE_CURRENT_BINARY_DIR}/locales)
  file(MAKE_DIRECTORY ${lazyprune_locales})
  foreach(locale IN ITEMS de_DE ps_AF)
    if(NOT EXISTS ${lazyprune_locales}/${locale}.UTF-8)
      execute_process(COMMAND ${LOCALEDEF} -i ${locale} -f UTF-8 ${lazyprune_locales}/${locale}.UTF-8 OUTPUT_QUIET ERROR_QUIET)
    endif()
  endforeach()
endif()

# lazyprune_test_condition(floor condition environment files...): runs the tests of these files of a floor with this environment, as the
# entry <floor>@<condition>.
function(lazyprune_test_condition floor condition environment)
  if(NOT TARGET lazyprune.tests.${floor} OR NOT LAZYPRUNE_TEST_ALL) # code with sanitizers needs more stack, and finds nothing new here
    return()
  endif()
  list(TRANSFORM ARGN PREPEND */tests/${floor}/)
  list(TRANSFORM ARGN APPEND .test.cpp)
  list(JOIN ARGN "," files)
  add_test(NAME ${floor}@${condition} COMMAND lazyprune.tests.${floor} "--source-file=${files}" "--test-suite-exclude=every path*,needs *")
  if(lazyprune_locales)
    list(APPEND environment LOCPATH=${lazyprune_locales})
  endif()
  set_tests_properties(${floor}@${condition} PROPERTIES ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77
                                                        FAIL_REGULAR_EXPRESSION "test cases: +0 ")
endfunction()
