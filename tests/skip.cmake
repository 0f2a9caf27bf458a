# SPDX-License-Identifier: MIT
# lazyprune_skipped(name what): the entry of a test that cannot be made here, because `what` is not here. It says so, and ctest counts it as
# skipped.
function(lazyprune_skipped name what)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: needs ${what}")
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped: needs ")
endfunction()
