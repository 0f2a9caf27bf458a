# SPDX-License-Identifier: MIT
# lazyprune_skipped(name what): adds an entry to ctest for a test that cannot be built because `what` is missing. The entry prints what is
# missing, and ctest counts the entry as skipped.
function(lazyprune_skipped name what)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: needs ${what}")
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped: needs ")
endfunction()
