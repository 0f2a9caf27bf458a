// SPDX-License-Identifier: MIT
#include <lazyprune/text/model_chat.hpp>
#include <lazyprune/text/model_tokenizer.hpp>

#include <cstddef>

std::size_t text(const lazyprune::tokenizer& tokens) { return tokens.size(); }
