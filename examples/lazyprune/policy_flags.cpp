// SPDX-License-Identifier: MIT
#include "policy_flags.hpp"

#include <lazyprune/session/make_session.hpp>

#include "arguments.hpp"

void add_policy_flags(CLI::App& command, lazyprune::policy_spec& spec) {
  const std::string group = "Pruning";
  command
      .add_option("--policy", spec.preset,
                  "lazyllm, static, random, streaming or dense (default: lazyllm); the other flags override its parts")
      ->type_name("NAME")
      ->group(group);
  command
      .add_option("--stages", spec.stages,
                  "9:0.7,19:0.5: after 9 layers keep 70 % of the tokens then active, after 19 half of those; empty: never prune (default: "
                  "what the model's lazyprune.json says, else 0.7 after 3, 6 and 9 tenths of the layers)")
      ->type_name("LAYER:SHARE,...")
      ->group(group);
  command
      .add_option("--schedule", spec.schedule,
                  "In the place of --stages: every:n=,share= linear:from=,share= cosine:from=,share= budget:after=,tokens=|cost= "
                  "adaptive:from=,every=,mass=,least=")
      ->type_name("NAME:key=value,...")
      ->group(group);
  command
      .add_option("--scorer", spec.scorer,
                  "last_query_attention:over=mean|max accumulated_attention:over=sum|max,since=sequence|step "
                  "window_attention:window=,kernel=,pool=max|mean value_weighted_attention:norm=l2|l1 key_norm recency random:seed=")
      ->type_name("NAME[:key=value,...]")
      ->group(group);
  command.add_option("--selector", spec.selector, "top_k top_p:mass= threshold:score= blocks:size=")
      ->type_name("NAME[:key=value]")
      ->group(group);
  command.add_option("--store", spec.store, "keep_all bounded:rows= none")->type_name("NAME[:key=value]")->group(group);
  const auto tokens = [&](const char* name, std::optional<std::size_t>& to, const char* help) {
    const auto read = [&to, flag = std::string(name)](const std::string& text) { to = number_range<std::size_t>{0}.read(flag, text); };
    command.add_option_function<std::string>(name, read, help)->type_name("N")->group(group);
  };
  tokens("--keep-first", spec.keep_first, "Never prune the first N tokens");
  tokens("--keep-last", spec.keep_last, "Never prune the last N tokens");
  command.add_option("--decode", spec.decode, "same: prune generated tokens' steps too; dense: prune the prompt only")
      ->type_name("same|dense")
      ->group(group);
}

lazyprune::policy_spec with_recommended_stages(lazyprune::policy_spec spec, const lazyprune::checkpoint& model) {
  if (!spec.preset.empty() || spec.stages || spec.schedule || !model.stages()) return spec;
  lazyprune::policy_spec recommended;
  recommended.stages = model.stages();
  try {
    parts_of(recommended, static_cast<lazyprune::layer_id>(model.config().layers));
  } catch (const lazyprune::error& fault) {
    throw lazyprune::error((model.directory() / "lazyprune.json").string(), "stages", "stages for this model", fault.what());
  }
  spec.stages = model.stages();
  return spec;
}

lazyprune::any_session new_session(const lazyprune::policy_spec& spec, std::size_t layers) {
  return make_session(spec, {.layers = static_cast<lazyprune::layer_id>(layers)});
}
