// SPDX-License-Identifier: MIT
// Tests examples/c_library/engine.py.
#include <skip.hpp>

#include "engines.hpp"

using namespace engines;

TEST_CASE("the engine in Python keeps the same tokens as the program") {
#ifdef LAZYPRUNE_PYTHON
  const auto engine = [](const engine_run& run) {
    std::vector<std::string> arguments{"-B",
                                       LAZYPRUNE_SOURCE_DIR "/examples/c_library/engine.py",
                                       LAZYPRUNE_C_LIBRARY,
                                       bundled_model,
                                       run.ids_file,
                                       "--policy",
                                       run.policy,
                                       "--tokens",
                                       tokens};
    for (const std::string& word : run.read) arguments.push_back(word == "chunk" || word == "fork" ? "--" + word : word);
    return running_program(std::move(arguments), "", {}, LAZYPRUNE_PYTHON).wait();
  };
  same_kept_sets({pruned}, engine, [](std::size_t prompt, std::size_t) { return std::vector<way>{ways[prompt % 4]}; });
#else
  lazyprune_test::skip("python3 with numpy (python3-numpy)");
#endif
}
