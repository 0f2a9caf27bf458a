// SPDX-License-Identifier: MIT
#include "engine/sessions.hpp"

#include <lazyprune/registry/make_session.hpp>
#include <lazyprune/registry/shipped_policies.hpp>

namespace lazyprune {
namespace program {

const lazyprune::policy_registry& policies() {
  static const lazyprune::policy_registry all = lazyprune::shipped_policies();
  return all;
}

lazyprune::policy_spec with_recommended_stages(lazyprune::policy_spec spec, const lazyprune::checkpoint& model) {
  if (!spec.preset.empty() || spec.stages || spec.schedule || !model.stages()) return spec;
  lazyprune::policy_spec recommended;
  recommended.stages = model.stages();
  try {
    parts_of(recommended, static_cast<lazyprune::layer_id>(model.config().layers), policies());
  } catch (const lazyprune::error& fault) {
    throw lazyprune::error((model.directory() / "lazyprune.json").string(), fault);
  }
  spec.stages = model.stages();
  return spec;
}

lazyprune::any_session new_session(const lazyprune::policy_spec& spec, std::size_t layers) {
  return make_session(spec, {.layers = static_cast<lazyprune::layer_id>(layers)}, policies());
}

}  // namespace program
}  // namespace lazyprune
