# SPDX-License-Identifier: MIT
# Tests what the program's folders include (units.py), and that this check can fail.

add_test(NAME tree.units COMMAND ${PYTHON3} -B ${CMAKE_CURRENT_LIST_DIR}/units.py)

# bad_unit(folder header): units.py must complain if a file of the folder includes the header through another header.
function(bad_unit folder header)
  set(root ${CMAKE_CURRENT_BINARY_DIR}/units/${folder})
  file(REMOVE_RECURSE ${root})
  file(WRITE ${root}/include/lazyprune/${header} "")
  file(WRITE ${root}/examples/lazyprune/${folder}/between.hpp "#include <lazyprune/${header}>\n")
  file(WRITE ${root}/examples/lazyprune/${folder}/source.cpp "#include \"${folder}/between.hpp\"\n")
  add_test(NAME tree.units.${folder} COMMAND ${PYTHON3} -B ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/units.py ${root})
  set_tests_properties(tree.units.${folder} PROPERTIES PASS_REGULAR_EXPRESSION "${folder}/source.cpp > ${folder}/between.hpp > ${header}")
endfunction()
bad_unit(words model/transformer.hpp)
bad_unit(engine text/tokenizer.hpp)
bad_unit(commands files/ggml_type.hpp)
