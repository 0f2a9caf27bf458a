// SPDX-License-Identifier: MIT
// Loads the bundled model, and makes the tokens of a prompt for it.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.hpp"
#include "models/model_choice.hpp"

namespace lazyprune_test {

struct pocket_prompt {
  lazyprune::program::opened_model files{{.path = LAZYPRUNE_SOURCE_DIR "/examples/pocket/model"}};
  std::unique_ptr<lazyprune::program::engine> model = lazyprune::program::load_engine({.threads = 1}, files);
  std::vector<lazyprune::token_id> tokens;

  pocket_prompt() {
    for (lazyprune::token_id i = 0; i < 90; ++i) tokens.push_back(3 + i * 37 % 200);
  }
};

}  // namespace lazyprune_test
