// SPDX-License-Identifier: MIT
// Tests attention with keys and values in bf16, on tensor cores and in float. The contract in cuda.test.cpp tests keys and values in float.
#include <lazyprune/backend/cuda/attention.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <regex>
#include <string>

#include <backend/on_rows.hpp>
#include <backend/samples.hpp>
#include <fault.hpp>
#include <lazyprune/backend/cuda/row_products.cuh>
#include <lazyprune/backend/cuda/selection.cuh>
#include <tested_device.hpp>

#include "../../test_data.hpp"
#include "attention_grid.hpp"
#include "hosted_cuda.hpp"
#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

std::vector<attention_grid_case> cases() {
  using enum attention_sample::layout;
  return {{{1, 1, 32}, 40, 40, run},
          {{2, 1, 64}, 130, 65, scattered},
          {{4, 4, 128}, 65, 33, late_run, {.window = 20}},
          {{2, 2, 256}, 70, 17, scattered, {.soft_cap = 20}},
          {{6, 2, 80}, 200, 64, scattered, {.scale = 0.2, .soft_cap = 50, .window = 100}},
          {{64, 8, 33}, 31, 18, run, {.window = 1}},
          {{8, 1, 24}, 300, 300, late_run, {.window = 256}},
          {{3, 3, 5}, 129, 128, scattered},
          // In the cases below, all rows of a warp see every key of some tiles. These tiles lie between the tiles at the two ends of the
          // rows' ranges.
          {{1, 1, 64}, 400, 130, run, {.window = 230}},
          {{2, 2, 96}, 330, 90, scattered, {.soft_cap = 20, .window = 700}, dtype::bf16, false, 40},
          {{2, 1, 40}, 300, 80, late_run, {.window = 200}},
          {{1, 1, 128}, 200, 70, scattered, {.scale = -0.1}}};
}

/// Returns the case with as many times its heads as tiles of 128 queries need.
attention_grid_case wide(attention_grid_case c) {
  const std::size_t tiles = (c.rows * c.shape.heads / c.shape.kv_heads + 127) / 128 * c.shape.kv_heads,
                    times = (device::attention_layer(false).wide_tiles() + tiles - 1) / tiles;
  c.shape.heads *= times;
  c.shape.kv_heads *= times;
  return c;
}

/// Cases for tiles of 128 queries. The last tile of each case is not full.
std::vector<attention_grid_case> wide_cases() {
  using enum attention_sample::layout;
  return {wide({{1, 1, 32}, 300, 300, run}), wide({{1, 1, 80}, 150, 140, late_run, {.window = 30}}),
          wide({{1, 1, 128}, 210, 130, scattered, {.window = 120}, dtype::bf16, false, 40}),
          wide({{2, 1, 33}, 170, 150, scattered, {.scale = 0.2, .soft_cap = 20}}), wide({{2, 1, 64}, 100, 70, run})};
}

/// Cases with several tiles of 128 keys.
std::vector<attention_grid_case> long_cases() {
  using enum attention_sample::layout;
  return {wide({{1, 1, 64}, 530, 18, run}), wide({{1, 1, 128}, 300, 20, scattered, {.window = 150}, dtype::bf16, false, 40}),
          wide({{1, 1, 40}, 700, 24, scattered, {.soft_cap = 20}}),
          wide({{2, 1, 100}, 400, 130, late_run, {.scale = -0.1, .window = 280}})};
}

void check_against_reference(const std::vector<attention_grid_case>& all, bool exact) {
  std::uint32_t seed = 0;
  double most = 0;
  for (attention_grid_case c : all)
    for (int draws = test_all ? 2 : 1; draws > 0; --draws) {  // each draws other numbers
      c.kv = dtype::bf16;
      c.exact = exact;
      most = std::max(most, off_by(c, ++seed));
    }
  CHECK(most > 0.01);  // if errors were far smaller, the allowed error would be too large
}

__global__ void powers_of_two(device::global<const float> x, device::global<float> to) {
  to[threadIdx.x] = device::exp2_fast(x[threadIdx.x]);
}

/// The budget that a kernel's comment states.
struct budget {
  std::size_t registers, shared_bytes, blocks, threads;
};
std::map<std::string, budget> budgets() {
  std::map<std::string, budget> all;
  const std::regex line("\n/// budget ([^:\n]+): (\\d+) registers, (\\d+) bytes of shared memory, (\\d+) blocks? of (\\d+) threads(?=\n)");
  for (const char* name : {"attention.cuh", "elementwise.cuh", "row_products.cuh", "selection.cuh"}) {
    const std::string text = read_text(source_dir() / "include/lazyprune/backend/cuda" / name);
    for (std::sregex_iterator m(text.begin(), text.end(), line), end; m != end; ++m) {
      const auto number = [&](std::size_t i) -> std::size_t { return std::stoull((*m)[i]); };
      all[(*m)[1]] = {number(2), number(3), number(4), number(5)};
    }
  }
  return all;
}

constexpr std::size_t most_on_9_0 = 227 * 1024;  // bytes of shared memory for a block

/// Returns how many blocks with this budget fit on a multiprocessor with this many bytes of shared memory. Each warp gets its registers in
/// units of 256, from one of four files of 16,384 registers. Each block gets shared memory in units of 128 bytes. (CUDA's occupancy
/// calculator, compute capabilities 8.0 and 9.0.)
std::size_t blocks_on_multiprocessor(const budget& b, std::size_t shared_bytes) {
  const std::size_t warps = b.threads / 32, of_warp = (b.registers * 32 + 255) / 256 * 256;
  const std::size_t by_registers = 16384 / of_warp * 4 / warps, by_shared = shared_bytes / ((b.shared_bytes + 127) / 128 * 128 + 1024);
  return std::min({by_registers, by_shared, 2048 / b.threads, std::size_t{32}});
}

template <unsigned D>
void check_budgets(const std::map<std::string, budget>& all) {
  const auto check = [&](const std::string& name, std::size_t shared_bytes, std::size_t threads) {
    CAPTURE(name);
    REQUIRE(all.contains(name));
    CHECK(all.at(name).shared_bytes == shared_bytes);
    CHECK(all.at(name).threads == threads);
    // The lowest limit of a block is that of compute capability 8.6, 8.9 and 12.0.
    CHECK(shared_bytes <= (name.starts_with("attend_warpgroups") ? most_on_9_0 : 99 * 1024));
  };
  const std::string d = std::to_string(D);
  check("attend_tensor<" + d + ", 64>", device::tensor_attention<D, 64>::shared_bytes, device::tensor_attention<D, 64>::threads);
  if constexpr (D <= 128)
    check("attend_tensor<" + d + ", 128>", device::tensor_attention<D, 128>::shared_bytes, device::tensor_attention<D, 128>::threads);
  if constexpr (D == 64 || D == 128)
    check("attend_warpgroups<" + d + ">", device::warpgroup_attention<D>::shared_bytes, device::warpgroup_attention<D>::threads);
  check("attend_exact<" + d + ", 1>", device::exact_attention<float, D, 1>::shared_bytes, device::exact_attention<float, D, 1>::threads);
  check("attend_exact<" + d + ", 4>", device::exact_attention<float, D, 4>::shared_bytes, device::exact_attention<float, D, 4>::threads);
}

}  // namespace

TEST_CASE("launches ask for the shared memory that the budgets state, and as many blocks fit as the budgets state") {
  const auto all = budgets();
  check_budgets<32>(all);
  check_budgets<64>(all);
  check_budgets<128>(all);
  check_budgets<256>(all);
  CHECK(all.size() == 31);
  CHECK(all.at("choose_tokens").shared_bytes == device::selection_block::shared_bytes);
  CHECK(all.at("choose_tokens").threads == device::selection_block::most_threads);
  CHECK(all.at("join_splits").shared_bytes == device::split_join::shared_bytes);
  CHECK(all.at("join_splits").threads == device::split_join::threads);
  for (const std::string rows : {"1", "2", "4"})
    for (const std::string parts : {"1", "2"}) {
      const budget& b = all.at("multiply_rows<" + rows + ", " + parts + ">");
      CHECK(b.shared_bytes == device::row_product_block::shared_bytes(std::stoul(rows), 4096));
      CHECK(b.threads == device::row_product_block::threads);
    }
  for (const auto& of_kernel : all) {
    CAPTURE(of_kernel.first);
    CHECK(of_kernel.second.blocks ==
          blocks_on_multiprocessor(of_kernel.second, of_kernel.first.starts_with("attend_warpgroups") ? 228 * 1024 : 164 * 1024));
  }
  const budget& others = all.at("of every other kernel");  // these kernels have one float of shared memory for each warp
  CHECK(others.threads == device::threads_for(1 << 20));
  CHECK(others.shared_bytes == others.threads / device::warp_lanes * sizeof(float));
}

TEST_CASE("tensor cores: attention differs from the reference only by the rounding of attention weights") {
  check_against_reference(cases(), false);
}

TEST_CASE("tensor cores: attention in tiles of 128 queries agrees with the reference") {
  const few_multiprocessors small;
  const without_wgmma slower;
  check_against_reference(wide_cases(), false);
}

TEST_CASE("tensor cores: attention by warpgroups agrees with the reference") {
  if (!device::kernels_have_wgmma()) {
    MESSAGE("skipped: the kernels are compiled without wgmma");
    return;
  }
  const few_multiprocessors small;
  check_against_reference(long_cases(), false);
  check_against_reference(wide_cases(), false);
}

TEST_CASE("attention with queries in float and keys and values in bf16 agrees with the reference") {
  check_against_reference(cases(), true);
}

TEST_CASE("attention of few rows over many keys, which are split, agrees with the reference") {
  using enum attention_sample::layout;
  const std::vector<attention_grid_case> all{{{8, 2, 128}, 2100, 2, scattered},
                                             {{2, 2, 32}, 5000, 1, run},
                                             {{2, 1, 64}, 1500, 3, late_run, {.window = 300}},
                                             {{3, 3, 96}, 200, 16, scattered, {.soft_cap = 20}},
                                             {{5, 1, 224}, 330, 1, run},
                                             {{2, 2, 256}, 129, 2, scattered, {.scale = 0.2}}};
  std::uint32_t seed = 0;
  for (attention_grid_case c : all)
    for (const dtype type : {dtype::f32, dtype::bf16}) {
      c.kv = type;
      c.exact = true;  // few rows are always computed in float
      off_by(c, ++seed);
    }
}

TEST_CASE("keys and values are stored from rows at any address, and change only by rounding to their type") {
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (const std::size_t head_dim : {64u, 8u, 36u, 5u})
      for (const std::size_t gap : {5u, 8u}) {
        CAPTURE(head_dim);
        CAPTURE(gap);
        const std::size_t rows = 5, width = 40 * head_dim;
        const auto k = normal_floats(rows * width, 1), v = normal_floats(rows * width, 2);
        hosted_cuda backend({.kv = type});
        device::stored_kv kv(40, head_dim);
        const std::vector<std::uint32_t> slots{0, 3, 2, 255, 256};
        const guarded<float> keys(rows, width, k, gap), values(rows, width, v, gap);
        backend.put(kv, slots, keys.view(), values.view());
        std::vector<float> got_k(k.size()), got_v(v.size());
        backend.read_keys(kv, slots, got_k.data());
        backend.read_values(kv, slots, got_v.data());
        const auto kept = [&](float x) { return type == dtype::bf16 ? float_of_bf16(bf16_of_float(x)) : x; };
        for (std::size_t i = 0; i < k.size(); ++i) {
          REQUIRE(got_k[i] == kept(k[i]));
          REQUIRE(got_v[i] == kept(v[i]));
        }
      }
}

TEST_CASE("exp2_fast has the documented error, and is 0 for -infinity and the lowest float") {
  std::vector<float> x{-3.4028234663852886e38f, -std::numeric_limits<float>::infinity(), -127, -150};
  while (x.size() < 512) x.push_back(static_cast<float>(x.size()) * -0.2451f);
  on_device<float> from(x), to(x.size());
  device::launch(powers_of_two, {1}, {512}, 0, device::stream(), from.data(), to.data());
  const auto got = to.numbers();
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    const double exact = std::exp2(static_cast<double>(x[i]));
    CHECK(std::abs(got[i] - exact) <= (x[i] < -126 ? exact : exact * 0x1p-22));
  }
  CHECK(got[0] == 0);
  CHECK(got[1] == 0);
}

TEST_CASE("a row gets nearly the same numbers among few rows, whose keys are split, and among many rows") {
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    hosted_cuda backend({.kv = type, .exact = true});
    const double apart = few_against_many(backend, attention_sample({6, 2, 24}, 700, 40, attention_sample::layout::late_run, 2), 10);
    CHECK(apart <= together_or_not);
    CHECK(apart > 0);
  }
}

TEST_CASE("attention gives the same bits for any order of threads") {
  const attention_sample s({4, 2, 64}, 300, 40, attention_sample::layout::scattered, 3);
  const auto attended = [&](std::uint64_t seed, std::size_t rows) {
    shuffle_threads(seed);
    hosted_cuda backend({.kv = dtype::bf16});
    const auto kv = s.cache(backend);
    attention_rows what = s.what();
    what.rows = what.rows.last(rows);
    const guarded<float> q(rows, s.q_width(), std::span(s.q).last(rows * s.q_width()));
    guarded<float> out(rows, s.q_width());
    attend(backend, q.view(), kv, what, out.view(), {});
    return out;
  };
  for (const std::size_t rows : {3u, 40u}) CHECK(attended(1, rows) == attended(77, rows));
}

TEST_CASE("attention allocates nothing the second time, and heads that are too wide are refused") {
  hosted_cuda backend({.kv = dtype::bf16});
  const attention_sample s({4, 2, 64}, 300, 40, attention_sample::layout::run, 3);
  const auto kv = s.cache(backend);
  on_device<float> q(s.q), out(s.q.size());
  device::attention_layer layer(false);
  device::lists lists;
  device::read_back back;
  std::vector<float> probe(4 * 300);
  const auto attend = [&](std::size_t rows) {
    attention_rows what = s.what();
    what.rows = what.rows.last(rows);
    layer.attend({{q.data(), s.q_width()}, {}, {}}, {}, kv, what, {{out.data(), s.q_width()}, {}}, {probe.data(), 1, 300}, lists, back);
  };
  attend(40), attend(3);
  device::synchronize();
  const allocation_watch allocations;
  const std::size_t bytes = layer.bytes();
  attend(40), attend(3), attend(20);
  device::synchronize();
  CHECK(!allocations.saw_any());
  CHECK(layer.bytes() == bytes);

  attention_rows wide = s.what();
  wide.shape.head_dim = 257;
  CHECK(error_of([&] {
          layer.attend({{q.data(), 1028}, {}, {}}, {}, kv, wide, {{out.data(), 1028}, {}}, {}, lists, back);
        }) == unsupported("cuda: attention", {"256", ", found 257"}));
}
