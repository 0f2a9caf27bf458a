// SPDX-License-Identifier: MIT
#include "traces/replay.hpp"

#include <utility>

#include "models/loading.hpp"
#include "terminal/progress.hpp"
#include "traces/trace_replay.hpp"

#include <lazyprune/files/trace_file.hpp>
#include <lazyprune/model/layers_of.hpp>

namespace lazyprune {
namespace program {

replay_answer replay_against(const std::string& file, const opened_model& model, const policy_spec& policy, const policy_registry& policies,
                             bool force_plan, double tolerance) {
  const std::vector<step_trace> trace = read_trace(file);
  const policy_parts parts = parts_of(policy, layers_of(model.config()), policies);
  progress_bar bar("loading");
  load_options options{.as = dtype::f32, .progress = [&](std::size_t done, std::size_t of) { bar.show(done, of); }};
  faulty_reference backend;
  const auto net = load_weights(backend, {.files = &model.files()}, options);
  try {
    const trace_verdict verdict = check_trace(net, trace, parts, force_plan, tolerance);
    return {verdict.alike(), "policy: " + parts.text + "\n" + verdict.text()};
  } catch (const error& fault) {
    throw error(file, fault);
  }
}

}  // namespace program
}  // namespace lazyprune
