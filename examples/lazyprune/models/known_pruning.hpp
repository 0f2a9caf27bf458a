// SPDX-License-Identifier: MIT
// The calibrations of well-known models, which are part of the program. `lazyprune calibrate` found their probes in a text, without labels,
// and the studies in bench/ chose their stages. CMake compiles the files in the folder known/ into the program.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace lazyprune {
inline namespace v0 {
struct pruning_file;
}  // namespace v0

namespace program {

/// Returns the calibration of the model with this fingerprint (model_fingerprint), or null if the program knows none. A fine-tuned model
/// has the fingerprint of the model that it was made from if its first norm was not trained. Its heads probably do the same work, but
/// nobody has tried.
std::shared_ptr<const pruning_file> known_pruning(std::string_view fingerprint);

}  // namespace program
}  // namespace lazyprune
