// SPDX-License-Identifier: MIT
// Every tile is computed once, and the prefetched lines are the lines that are read next. linear_layers.test.cpp tests the products.
#include <lazyprune/backend/cpu/product_plan.hpp>

#include <doctest/doctest.h>

#include <lazyprune/backend/cpu/kernels/kernels.hpp>

#include <backend/cpu/architecture.hpp>
#include <backend/samples.hpp>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

packed_matrix zeros(std::size_t outputs, std::size_t inputs, dtype as) {
  return {only(stored(std::vector<float>(outputs * inputs), outputs, inputs, dtype::f32)), as, 1};
}

/// Returns rows for products with w.
packed_rows rows_for(const packed_matrix& w, const kernels::product_kernel& kernel, std::size_t rows) {
  packed_rows x(w.inputs());
  x.prepare(kernel, rows, w.depth());
  return x;
}

strip_range all_strips(const packed_rows& x) { return {0, x.strips()}; }

/// Returns the tuning of a path on a processor with caches of these sizes, in bytes.
product_tuning tuning_with(isa path, const kernels::product_kernel& kernel, std::size_t l1, std::size_t l2) {
  detail::processor here = detail::this_processor();
  here.l1 = l1;
  here.l2 = l2;
  return tuning_of(path, kernel, here);
}
product_tuning tuning_with(isa path, dtype type, std::size_t l1, std::size_t l2) {
  return tuning_with(path, kernels::kernels_of(path).product(type), l1, l2);
}

/// Calls f(block, next) for all blocks, in the order of one thread.
template <class F>
void for_blocks(const product_plan& plan, F f) {
  for (std::size_t task = 0; task < plan.tasks(); ++task) plan.for_blocks(task, f);
}

/// A range of memory, and a mark for each of its cache lines.
class marked_lines {
 public:
  marked_lines(const std::byte* data, std::size_t bytes) : data_(data), marks_(bytes / kernels::cache_line + 1) {}

  void mark(const std::byte* at) {
    if (at >= data_ && at < data_ + (marks_.size() - 1) * kernels::cache_line) marks_[place(at)] = true;
  }

  /// Returns the share of marked lines among the lines of these `bytes` bytes.
  double share(const std::byte* at, std::size_t bytes) const {
    std::size_t all = 0, found = 0;
    for (std::size_t i = place(at); i < place(at + bytes - 1) + 1; ++i, ++all) found += marks_[i];
    return static_cast<double>(found) / static_cast<double>(all);
  }

 private:
  std::size_t place(const std::byte* at) const { return static_cast<std::size_t>(at - data_) / kernels::cache_line; }

  const std::byte* data_;
  std::vector<bool> marks_;
};

/// Calls f(line) for each line that a kernel prefetches: one line for each step over the inputs, or with AMX all lines of the run.
template <class F>
void for_lines(const kernels::product_kernel& kernel, const product_plan& plan, kernels::prefetch_run run, std::size_t depth, F f) {
  if (kernel.granule > 1) {
    for (std::size_t at = 0; at < run.step * depth; at += kernels::cache_line) f(run.from + at);
    return;
  }
  const std::size_t inputs = plan.widens() ? 1 : kernel.line_inputs;
  for (std::size_t k = 0; k < depth; k += inputs) f(run.from + k * run.step);
}

}  // namespace

TEST_CASE("the blocks contain every input of every tile once, and nearly all prefetches stay inside the data") {
  const rows_of_blocks blocks({256, 32, 4, 0, true}, true);
  const tensor quantized = blocks.matrix(700, 9 * 256);
  const packed_matrix weights[] = {zeros(700, 2100, dtype::f32), zeros(700, 2100, dtype::bf16),
                                   packed_matrix(std::span(&quantized, 1), dtype::bf16, 1)};
  for (const packed_matrix& w : weights) {
    const dtype as = w.type();
    for (const isa path : paths_here())
      for (const std::size_t rows : {1u, 5u, 40u, 500u})
        for (const int threads : {1, 3, 50}) {
          CAPTURE(name_of(as));
          CAPTURE(w.bytes());
          CAPTURE(name_of(path));
          CAPTURE(rows);
          CAPTURE(threads);
          const kernels::product_kernel* const int8 = w.panels() ? kernels::int8_kernel_of(path) : nullptr;
          const kernels::product_kernel& kernel = int8 ? *int8 : kernels::kernels_of(path).product(as);
          const packed_rows x = rows_for(w, kernel, rows);
          const product_tuning tuning = tuning_with(path, kernel, 48 << 10, 2 << 20);
          const product_plan plan(x, all_strips(x), w, threads, tuning);
          CHECK(plan.unpacks() == (w.panels() && x.strip() > kernel.panel_rows));
          CHECK(plan.prefetches() == (x.strips() > 1));
          const auto inside = [](const std::byte* at, const std::byte* data, std::size_t bytes) { return at >= data && at < data + bytes; };
          const std::size_t parts = (w.depth() + 31) / 32;  // blocks begin at multiples of 32 inputs
          std::vector<int> times(w.tiles() * parts * x.strips());
          std::size_t lines = 0, outside = 0;
          for_blocks(plan, [&](const product_block& p, const product_block& next) {
            const block_prefetch prefetch(plan, p, next);
            for (std::size_t t = p.first; t < p.last; ++t) {
              for (std::size_t s = p.strips.first; s < p.strips.first + p.strips.count; ++s) {
                for (std::size_t k = p.k; k < p.k + p.count; k += 32) ++times[(t * parts + k / 32) * x.strips() + s];
                for_lines(kernel, plan, prefetch.of(s, t - p.first), p.count, [&](const std::byte* line) {
                  ++lines;
                  outside += !inside(line, x.strip_data(0), x.strips() * x.strip_bytes()) && !inside(line, w.tile(0), w.bytes());
                });
              }
            }
          });
          CHECK(std::ranges::all_of(times, [](int n) { return n == 1; }));
          CHECK(outside * 100 <= lines);  // a few may be outside, because shares are rounded up to whole bytes for each input
        }
  }
}

TEST_CASE("if L2 is small, groups are small, so that a block and the next one fit") {
  for (const dtype as : {dtype::f32, dtype::bf16}) {
    const packed_matrix w = zeros(4096, 1024, as);
    for (const isa path : paths_here())
      for (const std::size_t rows : {40u, 500u}) {
        CAPTURE(name_of(as));
        CAPTURE(name_of(path));
        CAPTURE(rows);
        const kernels::product_kernel& kernel = kernels::kernels_of(path).product(as);
        const packed_rows x = rows_for(w, kernel, rows);
        const product_tuning of_small = tuning_with(path, as, 48 << 10, 1 << 20), of_large = tuning_with(path, as, 48 << 10, 16 << 20);
        const product_plan small(x, all_strips(x), w, 1, of_small), large(x, all_strips(x), w, 1, of_large);
        CHECK(small.prefetches());
        CHECK(small.group() % 2 == 0);
        CHECK(small.group() <= large.group());
        CHECK(large.group() == of_large.group);
      }
  }
}

TEST_CASE("nothing is prefetched if L2 has no room for it") {
  const packed_matrix w = zeros(700, 2100, dtype::f32);
  for (const isa path : paths_here()) {
    const packed_rows x = rows_for(w, kernels::kernels_of(path).product(dtype::f32), 40);
    const product_tuning tuning = tuning_with(path, dtype::f32, 32 << 10, 128 << 10);
    const product_plan plan(x, all_strips(x), w, 1, tuning);
    CHECK_FALSE(plan.prefetches());
    for_blocks(plan, [&](const product_block& p, const product_block& next) { CHECK(block_prefetch(plan, p, next).of(0, 0).step == 0); });
  }
}

TEST_CASE("if a plan has one strip of many rows, each tile prefetches lines that are far ahead in the same stream") {
  const stored half(std::vector<float>(160 * 2048), 160, 2048, dtype::bf16);
  const packed_matrix gated(half, half, dtype::bf16, 1), plain = zeros(320, 2048, dtype::bf16);
  for (const packed_matrix* w : {&gated, &plain})
    for (const isa path : paths_here()) {
      const kernels::product_kernel& kernel = kernels::kernels_of(path).bf16;
      product_tuning tuning = tuning_with(path, dtype::bf16, 48 << 10, 2 << 20);
      tuning.many_rows = 2;
      tuning.stream_ahead = 5;
      tuning.far = 3 * kernels::line_bytes;
      for (std::size_t rows = 1; rows <= 2 * kernel.strip; ++rows) {
        const packed_rows x = rows_for(*w, kernel, rows);
        const product_plan plan(x, all_strips(x), *w, 1, tuning);
        CHECK(plan.ahead(x.strips()) == (x.strips() == 1 ? 5 : tuning.ahead));
        const bool far = rows >= 2 && x.strips() == 1;
        CHECK(plan.far() == (far ? tuning.far : 0));
        for_blocks(plan, [&](const product_block& p, const product_block& next) {
          for (std::size_t i = 0; i < p.last - p.first && x.strips() == 1; ++i) {
            const kernels::prefetch_run run = block_prefetch(plan, p, next).of(0, i);
            CHECK((run.from == w->tile(p.first + i, p.k) + tuning.far) == far);
            CHECK(run.step * kernel.line_inputs == (far ? kernels::line_bytes : 0));
          }
        });
      }
    }
}

TEST_CASE("without prefetches into L1, weights that were not prefetched into L2 are still prefetched into L1") {
  const packed_matrix w = zeros(1024, 2048, dtype::bf16);
  for (const isa path : paths_here()) {
    const kernels::product_kernel& kernel = kernels::kernels_of(path).bf16;
    const packed_rows x = rows_for(w, kernel, 5 * kernel.strip);
    product_tuning tuning = tuning_with(path, dtype::bf16, 48 << 10, 2 << 20);
    tuning.ahead = 0;
    tuning.stream_ahead = 7;
    const product_plan plan(x, all_strips(x), w, 1, tuning);
    CHECK(plan.prefetches());
    CHECK(plan.ahead(5) == 0);
    CHECK(plan.ahead(1) == 7);  // a block of one strip prefetches no weights of the next block
    tuning.weight_bytes = 1;
    CHECK(product_plan(x, all_strips(x), w, 1, tuning).ahead(5) == 7);
    tuning.ahead = 3;
    CHECK(product_plan(x, all_strips(x), w, 1, tuning).ahead(1) == 3);
  }
}

TEST_CASE("a block prefetches the lines of the next block and, with many strips, each strip prefetches the lines of the next strip") {
  for (const dtype as : {dtype::f32, dtype::bf16}) {
    const packed_matrix w = zeros(1024, 2048, as);
    for (const isa path : paths_here())
      for (const int threads : {1, 8})
        for (const std::size_t strips : {2u, 3u, 5u, 9u, 20u}) {
          CAPTURE(name_of(as));
          CAPTURE(name_of(path));
          CAPTURE(threads);
          CAPTURE(strips);
          const kernels::product_kernel& kernel = kernels::kernels_of(path).product(as);
          const packed_rows x = rows_for(w, kernel, strips * kernel.strip);
          const product_tuning tuning = tuning_with(path, as, 48 << 10, 2 << 20);
          const product_plan plan(x, all_strips(x), w, threads, tuning);
          REQUIRE(x.strips() == strips);
          for_blocks(plan, [&](const product_block& p, const product_block& next) {
            if (next.last <= next.first || p.strips.count < 2) return;  // the last block, or one with too few strips to share the work
            const block_prefetch prefetch(plan, p, next);
            marked_lines weights(w.tile(0), w.bytes()), rows(x.strip_data(0), strips * x.strip_bytes());
            const std::size_t end = p.strips.first + p.strips.count;
            for (std::size_t s = p.strips.first; s < end; ++s)
              for (std::size_t i = 0; i < p.last - p.first; ++i)
                for_lines(kernel, plan, prefetch.of(s, i), p.count, [&](const std::byte* line) {
                  weights.mark(line);
                  rows.mark(line);
                });
            double found = 0;
            for (std::size_t t = next.first; t < next.last; ++t)
              found += weights.share(w.tile(t, next.k), next.count / kernel.line_inputs * kernels::line_bytes);
            // A tile prefetches one line for each of its inputs. If the next block has more inputs, only a part of its lines is
            // prefetched.
            const double most = std::min(1.0, static_cast<double>(p.count) / static_cast<double>(next.count));
            CHECK(found >= 0.95 * most * static_cast<double>(next.last - next.first));
            if (p.strips.count < 8 || plan.group() == 1) return;
            for (std::size_t s = p.strips.first + 1; s < end; ++s)
              CHECK(rows.share(x.strip_data(s, p.k), static_cast<std::size_t>(x.strip_data(s, p.k + p.count) - x.strip_data(s, p.k))) >=
                    0.95);
          });
        }
  }
}

namespace {

/// Returns the largest share of a thread over the mean, if all threads take tasks as a team does, and the time of a task is the number of
/// its strips times tiles.
double largest_share(const product_plan& plan, std::size_t threads) {
  detail::task_ranges ranges;
  ranges.set(plan.tasks(), threads);
  std::vector<std::pair<std::size_t, std::size_t>> busy;  // (time, thread), the earliest last
  for (std::size_t thread = threads; thread-- > 0;) busy.emplace_back(0, thread);
  std::size_t all = 0, most = 0;
  while (!busy.empty()) {
    const auto [time, thread] = busy.back();
    busy.pop_back();
    const std::size_t task = ranges.take(thread);
    if (task == detail::task_ranges::none) continue;
    std::size_t work = 0;
    plan.for_blocks(task, [&](const product_block& p, const product_block&) {
      if (p.k == 0) work += (p.last - p.first) * p.strips.count;
    });
    all += work;
    most = std::max(most, time + work);
    const std::pair next(time + work, thread);
    busy.insert(std::upper_bound(busy.begin(), busy.end(), next, std::greater()), next);
  }
  return static_cast<double>(most * threads) / static_cast<double>(all);
}

}  // namespace

TEST_CASE("threads get nearly equal shares of a product, for 1 to 128 threads") {
  struct shape {
    std::size_t outputs, inputs;
    bool gated;
  };
  // The products of TinyLlama-1.1B, Llama-2-7B and Llama-3-8B. The number of inputs does not change the shares.
  const shape shapes[] = {{256, 64, false},   {1024, 64, false},    {2048, 64, false},     {4096, 64, false},
                          {32000, 64, false}, {2 * 5632, 64, true}, {2 * 11008, 64, true}, {2 * 14336, 64, true}};
  for (const shape& s : shapes) {
    const std::size_t outputs = s.outputs, inputs = s.inputs;
    const bool gated = s.gated;
    const stored half(std::vector<float>(gated ? outputs / 2 * inputs : 0), gated ? outputs / 2 : 0, inputs, dtype::f32);
    const packed_matrix w = gated ? packed_matrix(half, half, dtype::bf16, 1) : zeros(outputs, inputs, dtype::bf16);
    for (const isa path : paths_here())
      for (const std::size_t rows : {1u, 24u, 200u, 512u}) {
        const packed_rows x = rows_for(w, kernels::kernels_of(path).bf16, rows);
        const product_tuning tuning = tuning_with(path, dtype::bf16, 48 << 10, 2 << 20);
        for (std::size_t threads = 1; threads <= 128; ++threads) {
          const product_plan plan(x, all_strips(x), w, static_cast<int>(threads), tuning);
          CAPTURE(outputs);
          CAPTURE(name_of(path));
          CAPTURE(rows);
          CAPTURE(threads);
          // A piece that is not cut further is a strip of the fewest tiles.
          const std::size_t pieces = w.tiles() / (gated ? 2 : 1) * x.strips();
          const double of_one = static_cast<double>((pieces + threads - 1) / threads * threads) / static_cast<double>(pieces);
          CHECK(largest_share(plan, threads) <= std::max(1.05, of_one) + 1e-9);
        }
      }
  }
}
