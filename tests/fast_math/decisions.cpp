// SPDX-License-Identifier: MIT
// Prints a hash of what policies and sessions decide, one line a case: the bits of scores and attention, the kept tokens and the margins.
// A build with -ffast-math must print the same lines as a build without it. The program uses integers wherever such a build may change a
// result, also to make numbers and to compare them.
#include <lazyprune/lazyprune.hpp>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace lazyprune;

constexpr std::uint32_t nan_bits = 0x7fc0'0000u, infinity_bits = 0x7f80'0000u, minus_infinity_bits = 0xff80'0000u;
float with_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Makes floats in [2^-15, 2), of either sign if `any_sign`. All bits of the mantissa are random.
struct random_floats {
  std::uint64_t seed;
  std::uint64_t count = 0;
  std::uint64_t next() { return mix(seed, count++); }
  float one(bool any_sign = false) {
    const std::uint64_t drawn = next();
    const auto exponent = 127u - static_cast<std::uint32_t>(drawn >> 32 & 15u);
    const std::uint32_t sign = any_sign ? static_cast<std::uint32_t>(drawn >> 40 & 1u) << 31 : 0u;
    return with_bits(sign | exponent << 23 | (static_cast<std::uint32_t>(drawn) & 0x007f'ffffu));
  }
  std::vector<float> many(std::size_t n, bool any_sign = false) {
    std::vector<float> numbers(n);
    for (float& x : numbers) x = one(any_sign);
    return numbers;
  }
};

class hash {
 public:
  void add(std::uint64_t number) { state_ = mix(state_ ^ number, 0); }
  void add(float number) { add(std::uint64_t{std::bit_cast<std::uint32_t>(number)}); }
  template <class T>
  void add(std::span<const T> all) {
    for (const auto x : all)
      if constexpr (std::is_integral_v<T>)
        add(std::uint64_t{x});
      else
        add(x);
  }
  void print(const std::string& name) const { std::printf("%016llx %s\n", static_cast<unsigned long long>(state_), name.c_str()); }

 private:
  std::uint64_t state_ = 0;
};

/// A scorer that returns NaN, infinities, both zeros and ties.
struct odd_scores {
  void score(const token_view& view, std::span<float> out) const {
    constexpr std::uint32_t bits[] = {nan_bits,     infinity_bits, minus_infinity_bits, 0,
                                      0x8000'0000u, 0x3f80'0000u,  0x3f00'0000u,        0xbf80'0000u};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = with_bits(bits[mix(view.done, view.positions[i]) % std::size(bits)]);
  }
  friend bool operator==(const odd_scores&, const odd_scores&) = default;
};

constexpr std::size_t heads = 7, kv_heads = 3, head_dim = 40;  // division by 7 rounds

/// Evidence of any kind with random numbers.
class shown_evidence {
 public:
  template <class Step>
  evidence operator()(random_floats& random, const Step& step, const layer_plan& plan) {
    const std::size_t n = plan.active.size();
    const std::size_t queries = step.window();
    switch (step.wants()) {
      case evidence_kind::attention:
        numbers_ = random.many(heads * n);
        return attention_view{numbers_.data(), heads, n, plan.active};
      case evidence_kind::window:
        numbers_ = random.many(queries * heads * n);
        return window_view{numbers_.data(), queries, heads, n, plan.active};
      case evidence_kind::keys:
        numbers_ = random.many(n * kv_heads * head_dim, true);
        return key_view{numbers_.data(), kv_heads, head_dim, kv_heads * head_dim, plan.active};
      case evidence_kind::values:
        numbers_ = random.many(n * (heads + kv_heads * head_dim), true);
        return value_view{{numbers_.data(), heads, n, plan.active}, numbers_.data() + heads * n, kv_heads, head_dim, kv_heads * head_dim};
      case evidence_kind::probes:
        numbers_ = random.many(step.probes().size() * n);
        return probe_view{numbers_.data(), step.probes().size(), n, plan.active};
      default:
        return {};
    }
  }

 private:
  std::vector<float> numbers_;
};

/// Runs a prompt and decode steps.
void run(const std::string& name, any_session session) {
  hash found;
  random_floats random{.seed = 5};
  shown_evidence shown;
  for (const std::size_t tokens : {250u, 1u, 1u, 60u, 1u, 1u, 1u}) {
    auto step = session.begin({tokens, tokens == 1 ? phase::decode : phase::prefill});
    for (layer_id l = 0; l < step.layers(); ++l) {
      const layer_plan& plan = step.enter(l);
      found.add<position>(plan.active);
      found.add<position>(plan.rows);
      if (step.wants_scores())
        step.leave(shown(random, step, plan));
      else
        step.leave();
      found.add(is_nan(step.margin()) ? with_bits(nan_bits) : step.margin());
      for (const spill& s : step.spills()) found.add(std::uint64_t{s.row} << 32 | s.slot);
    }
    step.finish();
  }
  found.print(name);
}

/// Runs each scorer with each schedule and each selector.
void run_all() {
  const any_scorer scorers[] = {odd_scores{},
                                last_query_attention{},
                                window_attention{.window = 4, .pool = pooling::mean},
                                prompt_window_attention{.window = 4},
                                accumulated_attention{},
                                key_norm{},
                                value_weighted_attention{},
                                calibrated_attention{.chosen = calibration::read("4.1.0.last.max@0.7/4.2.1.mean.sum@0.3"), .following = 2}};
  const any_schedule schedules[] = {stages{{4, 0.5}, {8, 0.37}}, adaptive{.from = 2, .every = 3, .mass = 0.7}, linear{.share = 0.4},
                                    cosine{.share = 0.3}, budget({.after = 3, .cost = 0.5})};
  const any_selector selectors[] = {top_k{}, top_p{.mass = 0.6}, blocks{.size = 8}, threshold{.score = 0.01f}};
  const any_store stores[] = {keep_all{}, bounded{.rows = 40}};
  for (std::size_t i = 0; i < std::size(scorers); ++i)
    for (std::size_t j = 0; j < std::size(schedules); ++j)
      for (std::size_t k = 0; k < std::size(selectors); ++k)
        run("scorer " + std::to_string(i) + ", schedule " + std::to_string(j) + ", selector " + std::to_string(k),
            {policy{scorers[i], schedules[j], protect(selectors[k], 3, 5), stores[(i + j + k) % 2]}, {.layers = 12, .max_tokens = 400}});
}

template <class Scorer>
void score(const char* name, Scorer scorer, const view_of<Scorer>& view, std::size_t n) {
  std::vector<float> out(n);
  scorer.score(view, out);
  hash found;
  found.add<float>(out);
  found.print(name);
}

/// The bits of each scorer's scores, over evidence of many tokens.
void scores() {
  constexpr std::size_t n = 997, queries = 5;
  std::vector<position> positions(n);
  for (position p = 0; p < n; ++p) positions[p] = p;
  random_floats random{.seed = 7};
  const auto rows = random.many(queries * heads * n), numbers = random.many(n * kv_heads * head_dim, true);
  const attention_view attention{rows.data(), heads, n, positions};
  const window_view window{rows.data(), queries, heads, n, positions};
  const value_view values{attention, numbers.data(), kv_heads, head_dim, kv_heads * head_dim};
  std::vector<float> memory(n);
  score("mean", last_query_attention{}, attention, n);
  score("max", last_query_attention{.over = head_reduction::max}, attention, n);
  score("window max", window_attention{.window = queries}, window, n);
  score("window mean", window_attention{.window = queries, .pool = pooling::mean}, window, n);
  score("key_norm", key_norm{}, key_view{numbers.data(), kv_heads, head_dim, kv_heads * head_dim, positions}, n);
  score("values l1", value_weighted_attention{.norm = vector_norm::l1}, values, n);
  score("values l2", value_weighted_attention{}, values, n);
  for (layer_id l = 0; l < 3; ++l) score("accumulated", accumulated_attention{}, {attention, l, memory}, n);
  memory.assign(n, 0.0f);
  for (layer_id l = 0; l < 3; ++l) score("prompt_window", prompt_window_attention{.window = queries}, {window, l, memory}, n);
  memory.assign(n, 0.0f);
  const calibrated_attention calibrated{.chosen = calibration::read("4.0.0.last.max@0.7/4.1.1.mean.mean@0.3.next/4.2.2.max.sum@-0.4")};
  for (layer_id l = 0; l < 3; ++l) score("calibrated", calibrated, {{rows.data(), 1, n, positions}, l, memory}, n);
  for (const auto over : {query_reduction::last, query_reduction::max, query_reduction::mean}) {
    std::vector<float> out(n);
    reduce_queries(rows.data(), heads, n, over, out);
    hash found;
    found.add<float>(out);
    found.print("reduce_queries");
  }
  std::vector<float> out(heads * n);
  query_attention(numbers.data() + 77, heads, key_rows<float>{numbers.data(), kv_heads, head_dim, kv_heads * head_dim, {}}, positions,
                  out.data(), n);
  hash found;
  found.add<float>(out);
  found.print("query_attention");
}

/// A number that is not finite must not go unnoticed.
void check_guard() {
  for (const std::uint32_t bits : {nan_bits, infinity_bits, minus_infinity_bits, 0xffff'ffffu}) {
    session<last_query_attention, stages, top_k, keep_all> session(lazyllm(stages{{1, 0.5}}), {.layers = 2});
    auto step = session.begin({40, phase::prefill});
    const layer_plan& plan = step.enter(0);
    std::vector<float> row(40, 0.025f);
    row[33] = with_bits(bits);
    step.leave(attention_view{row.data(), 1, row.size(), plan.active});
    (void)step.enter(1);
    step.leave();
    try {
      step.finish();
      std::puts("evidence that is not finite was accepted");
    } catch (const error& e) {
      std::puts(e.what());
    }
    std::vector<float> key(40 * 8, 0.5f), out(40);
    std::vector<position> positions(40);
    for (position p = 0; p < 40; ++p) positions[p] = p;
    key[12] = with_bits(bits);
    try {
      query_attention(key.data() + 80, 1, key_rows<float>{key.data(), 1, 8, 8, {}}, positions, out.data(), 40);
      std::puts("a key that is not finite was accepted");
    } catch (const error& e) {
      std::puts(e.what());
    }
  }
}

}  // namespace

int main() {
  run_all();
  scores();
  check_guard();
}
