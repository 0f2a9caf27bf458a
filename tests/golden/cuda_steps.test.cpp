// SPDX-License-Identifier: MIT
// Counts what steps of the bundled model cost the cuda backend beside its kernels: copies between host and device, and allocations. Runs on
// the emulated device.
#include <lazyprune/backend/cuda.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/transformer.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <fault.hpp>
#include <tested_device.hpp>

#include "../model/tiny_model.hpp"
#include "../test_data.hpp"

namespace {

using namespace lazyprune;
using lazyprune_test::begin, lazyprune_test::unchecked;

struct traffic {
  std::size_t to_device, to_host, bytes_to_host;
  friend bool operator==(const traffic&, const traffic&) = default;
};

/// Counts the copies from the beginning of each layer to the beginning of the next. The last layer's count includes the logits.
class traffic_by_layer final : public step_observer {
 public:
  std::vector<traffic> layers;

  void layer_begins(const layer_plan& plan) override {
    if (plan.layer > 0) note();
    before_ = now();
  }
  void step_ends(const any_session&) override { note(); }

 private:
  static traffic now() {
    device::synchronize();
    const auto& d = emulated::the_device();
    return {d.to_device.copies, d.to_host.copies, d.to_host.bytes};
  }
  void note() {
    const traffic all = now();
    layers.push_back({all.to_device - before_.to_device, all.to_host - before_.to_host, all.bytes_to_host - before_.bytes_to_host});
  }
  traffic before_{};
};

std::vector<token_id> some_tokens(std::size_t n, std::size_t vocabulary) {
  std::vector<token_id> tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<token_id>(100 + mix(3, i) % (vocabulary - 100));
  return tokens;
}

std::vector<traffic> crossed(workspace<cuda_backend>& work, sequence<cuda_backend>& text, std::span<const token_id> tokens, phase when) {
  traffic_by_layer seen;
  REQUIRE(!forward(work, text, tokens, when, &seen).empty());
  return seen.layers;
}

}  // namespace

TEST_CASE("cuda: only new data is copied between host and device, unless a layer prunes") {
  const unchecked fast;
  const checkpoint files(pocket_model());
  cuda_backend backend({.kv = dtype::f32});
  const auto net = load_model(backend, files);
  REQUIRE(net.config.layers == 6);
  const auto tokens = some_tokens(62, net.config.vocabulary);
  const auto prompt = std::span(tokens).first(60);
  const std::size_t logits = net.config.vocabulary * sizeof(float);
  workspace<cuda_backend> work(net, backend);

  SUBCASE("dense") {
    auto text = begin(net, dense());
    // Copies of the first layer: token ids, then positions, which are also the slots, with the address of the new block of keys and values,
    // then the ranges that the rows attend to. Every other layer: the address of its new block. The last layer computes one row to the
    // end: its index, then its position and its range.
    std::vector<traffic> expected{{3, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {3, 1, logits}};
    CHECK(crossed(work, text, prompt, phase::prefill) == expected);
    // Copies for a token: its id, its position (also the slot), and its range.
    expected = {{3, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 1, logits}};
    CHECK(crossed(work, text, std::span(tokens).subspan(60, 1), phase::decode) == expected);
    CHECK(crossed(work, text, std::span(tokens).subspan(61, 1), phase::decode) == expected);
    text.clear();
    expected.front() = {0, 0, 0};
    CHECK(crossed(work, text, prompt, phase::prefill) == expected);  // all lists are on the device already
  }
  SUBCASE("half of the tokens leave after two layers") {
    auto text = begin(net, lazyllm(stages{{2, 0.5}}));
    // The device chooses, so the session enters the later layers after the work of all layers is queued. The copies of the layer that
    // prunes: the tokens' positions and standing, where dropped rows are stored, and the lists of all later layers. To the host: 30
    // indices, 60 scores and three numbers.
    const std::vector<traffic> found = crossed(work, text, prompt, phase::prefill);
    CHECK(found[0] == traffic{3, 0, 0});
    CHECK(found[1] == traffic{10, 1, (30 + 60 + 3) * sizeof(float)});
    for (const std::size_t l : {2u, 3u, 4u}) CHECK(found[l] == traffic{0, 0, 0});
    CHECK(found[5] == traffic{0, 1, logits});
    for (const std::size_t t : {60u, 61u}) {
      const auto then = crossed(work, text, std::span(tokens).subspan(t, 1), phase::decode);
      CHECK(then[0] == traffic{3, 0, 0});
      CHECK(then[1].to_host == 1);
      CHECK(then[1].bytes_to_host == (t + 1) * sizeof(float));
      CHECK(then[1].to_device <= 1);  // the slot where a dropped row is stored
      CHECK(then[2].to_device <= 5);  // rows that move, revived rows, positions, slots to write, ranges and slots to read
      CHECK(then[2].to_host == 0);
      CHECK(then[3] == traffic{0, 0, 0});
      CHECK(then[4] == traffic{0, 0, 0});
      CHECK(then[5].to_device <= 3);  // the last row's index, position and range, if there are other rows
    }
  }
}

namespace {

/// Checks that the steps of a sequence of up to most.tokens tokens allocate nothing after the reservations.
template <class Backend = cuda_backend, class Policy>
void check_allocations(const execution& how, const Policy& policy, const step_sizes& most) {
  const checkpoint files(pocket_model());
  Backend backend(how);
  const auto net = load_model(backend, files);
  workspace<Backend> work(net, backend);
  auto text = begin(net, policy);
  const auto tokens = some_tokens(most.tokens, net.config.vocabulary);
  const auto next = [&](std::size_t n) { return std::span(tokens).subspan(text.known(), n); };
  const auto step = [&](std::size_t n, phase when, std::size_t outputs) {
    REQUIRE(forward(work, {text, next(n), when, outputs}));
    if (outputs > 0) REQUIRE(read_logits(work, 0, outputs).size() == outputs * net.config.vocabulary);
  };
  work.reserve(most);
  text.reserve(backend, most.tokens, most.tokens, most.tokens);
  const std::size_t& now = emulated::the_device().allocations;
  const std::size_t before = now, scratch = backend.bytes(), cache = text.kv().bytes(), stored = text.aux_cache().bytes();

  step(most.tokens - 8, phase::prefill, 1);
  for (int i = 0; i < 3; ++i) step(1, phase::decode, 1);
  step(5, phase::decode, most.outputs);
  CHECK(now == before);

  text.clear();  // the next prompt comes in chunks
  const std::size_t chunk = most.tokens / 4;
  step(chunk, phase::prefill, 0);
  step(chunk, phase::prefill, 0);
  step(chunk, phase::prefill, 1);
  text.truncate(chunk);
  step(chunk, phase::prefill, 0);
  step(2 * chunk, phase::prefill, 1);
  CHECK(now == before);
  CHECK(backend.bytes() == scratch);
  CHECK(text.kv().bytes() == cache);
  CHECK(text.aux_cache().bytes() == stored);
}

struct in_small_blocks : cuda_backend {
  using cuda_backend::cuda_backend;
  static constexpr std::size_t block_rows = 64;
};

}  // namespace

TEST_CASE("cuda: steps allocate nothing after a reservation: prefill, decode, chunks, and tokens that leave and come back") {
  const unchecked fast;
  const stages early{{2, 0.6}, {4, 0.5}};
  SUBCASE("dense") { check_allocations({.kv = dtype::f32}, dense(), {.tokens = 120, .queries = 0}); }
  SUBCASE("attention, several blocks of rows") {
    check_allocations<in_small_blocks>({.kv = dtype::f32}, lazyllm(early), {.tokens = 160, .outputs = 3, .selections = 2});
  }
  SUBCASE("on tensor cores") { check_allocations({.kv = dtype::bf16}, lazyllm(early), {.tokens = 300, .outputs = 3, .selections = 2}); }
  SUBCASE("a window of queries") {
    check_allocations({.exact = true}, policy{window_attention{.window = 20}, early, top_k{}, keep_all{}}, {.tokens = 100, .queries = 20});
  }
  SUBCASE("values") {
    check_allocations({.kv = dtype::f32}, policy{value_weighted_attention{}, early, top_k{}, keep_all{}},
                      {.tokens = 100, .keys_or_values = true});
  }
}

TEST_CASE("cuda: a reservation for steps without selections has no memory for them") {
  const checkpoint files(pocket_model());
  const auto reserved = [&](std::size_t selections) {
    cuda_backend backend({.kv = dtype::f32});
    const auto net = load_model(backend, files);
    workspace<cuda_backend> work(net, backend);
    work.reserve({.tokens = 100, .selections = selections});
    return backend.bytes();
  };
  const std::size_t dense = reserved(0), one = reserved(1), two = reserved(2);
  CHECK(two - one == (2 * 100 + 3) * sizeof(float));  // the chosen tokens and the scores
  CHECK(one > dense + two - one);                     // lists, which all selections share
}

TEST_CASE("cuda: the error for a reservation that does not fit names its purpose and size, and the sequence can go on") {
  const checkpoint files(pocket_model());
  cuda_backend backend({.kv = dtype::f32});
  const auto net = load_model(backend, files);
  workspace<cuda_backend> work(net, backend);
  auto text = begin(net, lazyllm(stages{{2, 0.5}}));
  const auto tokens = some_tokens(12, net.config.vocabulary);
  emulated::memory& m = emulated::the_device().store;
  device::synchronize();
  const std::size_t capacity = m.capacity;
  m.capacity = m.held() + (std::size_t{1} << 20);
  const lazyprune_test::fault said = lazyprune_test::error_of([&] { text.reserve(backend, 4000, 0, 0); });
  m.capacity = capacity;
  CHECK(said == lazyprune_test::at("cuda: keys and values", {"131072", "cudaErrorMemoryAllocation"}, error_code::no_memory));
  CHECK(!forward(work, text, tokens, phase::prefill).empty());
}
