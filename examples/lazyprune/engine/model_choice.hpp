// SPDX-License-Identifier: MIT
// Which model: the one named, or the one that comes with the program.
#pragma once

#include <filesystem>

#include "commands/flags.hpp"

#include <lazyprune/io/checkpoint.hpp>

namespace lazyprune {
namespace program {

/// The directory named; else that of the environment variable LAZYPRUNE_MODEL; else the bundled model.
std::filesystem::path model_directory(const model_flags& flags);

lazyprune::checkpoint open_model(const model_flags& flags);

}  // namespace program
}  // namespace lazyprune
