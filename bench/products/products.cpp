// SPDX-License-Identifier: MIT
// Measures the products of the linear layers, by shape, rows, type and instruction set. Eigen also has a column, and so have OpenBLAS and
// oneDNN if they are installed. A benchmark's name is model/layer/rows/threads/column. With up to 16 rows the weights are read from memory
// and not from a cache, as in a decode step. Reading them takes most of the time, so the rate of reading is also reported.
#include <functional>
#include <optional>

#include "../eigen.hpp"
#include "../measure.hpp"
#include "product.hpp"

#if LAZYPRUNE_BENCH_OPENBLAS
#include <cblas.h>
#endif

namespace {

using lazyprune::cpu, lazyprune::dtype, lazyprune::isa, lazyprune::rows_view, lazyprune::tensor;

enum class use { store, add, gate };  // what happens to the sums: stored (q, k, v), added (o, down) or gated (gate and up)

struct layer {
  const char* name;
  std::size_t inputs, outputs;  // in a gated layer, `outputs` is the sum of the outputs of gate and up
  use what;
};

const layer layers[] = {
    {"tinyllama-1.1b/q", 2048, 2048, use::store},  {"tinyllama-1.1b/k,v", 2048, 256, use::store},
    {"tinyllama-1.1b/o", 2048, 2048, use::add},    {"tinyllama-1.1b/gate,up", 2048, 2 * 5632, use::gate},
    {"tinyllama-1.1b/down", 5632, 2048, use::add}, {"llama-2-7b/q,k,v", 4096, 4096, use::store},
    {"llama-2-7b/o", 4096, 4096, use::add},        {"llama-2-7b/gate,up", 4096, 2 * 11008, use::gate},
    {"llama-2-7b/down", 11008, 4096, use::add},
};

constexpr std::size_t few_rows = 16;  // up to this many rows, reading the weights takes most of the time

/// Packs the rows and computes the product. The results of a gated product are packed for another product with weights of the same type.
class our_product final : public bench::product {
 public:
  our_product(const bench::product_task& task, bool gated, isa instructions, dtype type)
      : backend_({.threads = task.threads, .instructions = instructions}), task_(task), x_(task.inputs), gated_(task.outputs / 2) {
    const auto* data = reinterpret_cast<const std::byte*>(task.w);
    const tensor whole{dtype::f32, task.outputs, task.inputs, data};
    const tensor gate{dtype::f32, task.outputs / 2, task.inputs, data};
    const tensor up{dtype::f32, task.outputs / 2, task.inputs, data + gate.bytes()};
    for (std::size_t copy = 0; copy < task.copies; ++copy)
      w_.push_back(gated ? backend_.pack_gated(gate, up, type) : backend_.pack(std::span(&whole, 1), type));
    const tensor next{dtype::f32, 1, task.outputs / 2, data};
    if (gated) next_ = backend_.pack(std::span(&next, 1), type);
  }

  void run(std::size_t copy) override {
    const cpu::matrix& w = w_[copy];
    backend_.prepare(x_, task_.rows, w);
    backend_.pack_rows({task_.x, task_.rows, task_.inputs, task_.inputs}, x_);
    if (next_) {
      backend_.prepare(gated_, task_.rows, *next_);
      return backend_.gated_multiply(x_, w, nullptr, lazyprune::gate_activation::silu, gated_);
    }
    const rows_view<float> out{task_.out, task_.rows, task_.outputs, task_.outputs};
    task_.add ? backend_.multiply_add(x_, w, nullptr, out) : backend_.multiply(x_, w, nullptr, out);
  }

  void show() override {
    if (next_) backend_.read(gated_, task_.out);
  }

 private:
  cpu backend_;
  bench::product_task task_;
  cpu::operand x_, gated_;
  std::vector<cpu::matrix> w_;
  std::optional<cpu::matrix> next_;  // the weight that multiplies the results of a gated product
};

/// A library that reads the weight as it is, row by row, without packing it first.
template <class Multiply>
class plain_product final : public bench::product {
 public:
  plain_product(const bench::product_task& task, Multiply multiply) : task_(task), multiply_(multiply) {
    for (std::size_t copy = 1; copy < task.copies; ++copy) {
      copies_.emplace_back(task.inputs * task.outputs);
      std::copy_n(task.w, task.inputs * task.outputs, copies_.back().data());
    }
  }

  void run(std::size_t copy) override { multiply_(task_, copy == 0 ? task_.w : copies_[copy - 1].data()); }

 private:
  bench::product_task task_;
  Multiply multiply_;
  std::vector<lazyprune::aligned_array<float>> copies_;
};

void multiply_by_eigen(const bench::product_task& t, const float* w) {
  bench::eigen::multiply_transposed(t.x, t.inputs, w, t.inputs, t.out, t.outputs, t.rows, t.inputs, t.outputs, t.add, t.threads);
}

#if LAZYPRUNE_BENCH_OPENBLAS
void multiply_by_openblas(const bench::product_task& t, const float* w) {
  openblas_set_num_threads(t.threads);
  const auto rows = static_cast<int>(t.rows), inputs = static_cast<int>(t.inputs), outputs = static_cast<int>(t.outputs);
  if (t.rows == 1)
    cblas_sgemv(CblasRowMajor, CblasNoTrans, outputs, inputs, 1.0f, w, inputs, t.x, 1, t.add ? 1.0f : 0.0f, t.out, 1);
  else
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, outputs, inputs, 1.0f, t.x, inputs, w, inputs, t.add ? 1.0f : 0.0f, t.out,
                outputs);
}
#endif

struct library {
  std::string name;
  dtype type;
  isa ceiling;  // the library's rate is compared with the peak of this instruction set
  bool fused;   // true: writes silu(gate) * up; false: writes only the sums of gate and up, which is less work
  std::function<std::unique_ptr<bench::product>(const bench::product_task&, const layer&)> make;
  std::string absent = {};  // why the library cannot be measured here, or empty
};

std::vector<library> libraries() {
  std::vector<library> all;
  const auto absent = [&](std::string name, std::string why) {
    all.push_back({std::move(name), dtype::f32, isa::portable, false, {}, std::move(why)});
  };
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (const isa i : bench::kernels_for(type)) {
      if (has(i))
        all.push_back({bench::column(type, i), type, i, true, [=](const bench::product_task& task, const layer& l) {
                         return std::make_unique<our_product>(task, l.what == use::gate, i, type);
                       }});
      else
        absent(bench::column(type, i), "this processor lacks it");
    }
  const auto plain = [&](const char* name, auto multiply) {
    all.push_back({name, dtype::f32, bench::best_f32_isa(), false, [=](const bench::product_task& task, const layer&) {
                     return std::make_unique<plain_product<decltype(multiply)>>(task, multiply);
                   }});
  };
  plain("f32.eigen", multiply_by_eigen);
#if LAZYPRUNE_BENCH_OPENBLAS
  plain("f32.openblas", multiply_by_openblas);
#else
  absent("f32.openblas", "OpenBLAS was not found when this was built");
#endif
#if LAZYPRUNE_BENCH_ONEDNN
  for (const dtype type : {dtype::f32, dtype::bf16})
    all.push_back({std::string(name_of(type)) + ".onednn", type, type == dtype::f32 ? bench::best_f32_isa() : lazyprune::best_isa(), false,
                   [=](const bench::product_task& task, const layer&) { return bench::make_onednn_product(task, type == dtype::bf16); }});
#else
  absent("f32.onednn", "oneDNN was not found when this was built");
  absent("bf16.onednn", "oneDNN was not found when this was built");
#endif
  return all;
}

struct sum_of_products {
  double sum = 0, squares = 0;  // sums over the products
};

sum_of_products dot(const float* x, const float* w, std::size_t count, dtype type) {
  sum_of_products s;
  for (std::size_t i = 0; i < count; ++i) {
    const float weight = type == dtype::bf16 ? lazyprune::float_of_bf16(lazyprune::bf16_of_float(w[i])) : w[i];
    const double p = static_cast<double>(x[i]) * static_cast<double>(weight);
    s.sum += p;
    s.squares += p * p;
  }
  return s;
}

/// Checks some results of every row against sums in double. Rounding activations to bf16 changes each product by up to 2^-8 of its size.
/// These errors are independent, so the error of the sum is a share of sqrt(sum of product^2). The tolerance is 2^-7 times this root: five
/// standard deviations. In a gated layer the tolerance also allows for the slope of SiLU, which is at most 1.1, and for the rounding of the
/// result.
bool right(const bench::product_task& t, const layer& l, const library& from) {
  const bool gated = l.what == use::gate && from.fused;
  const std::size_t columns = gated ? t.outputs / 2 : t.outputs;
  for (std::size_t r = 0; r < t.rows; ++r)
    for (const std::size_t c : {r % columns, columns - 1}) {
      const auto of = [&](std::size_t output) { return dot(t.x + r * t.inputs, t.w + output * t.inputs, t.inputs, from.type); };
      const sum_of_products sum = of(c);
      double expected = sum.sum, tolerance = std::sqrt(sum.squares) * 0x1p-7;
      if (gated) {
        const sum_of_products up = of(columns + c);
        const double silu = sum.sum / (1.0 + std::exp(-sum.sum)), up_tolerance = std::sqrt(up.squares) * 0x1p-7;
        expected = silu * up.sum;
        tolerance = 1.1 * tolerance * (std::abs(up.sum) + up_tolerance) + std::abs(silu) * up_tolerance + 0x1p-8 * std::abs(expected);
      }
      if (!(std::abs(static_cast<double>(t.out[r * columns + c]) - expected) <= tolerance)) return false;
    }
  return true;
}

void measure(benchmark::State& state, const layer& l, std::size_t rows, int threads, const library& from) {
  const double weight_bytes = static_cast<double>(l.inputs * l.outputs * size_of(from.type));
  const bool few = rows <= few_rows;
  const auto x = bench::random_numbers(rows * l.inputs, 1.0f, 1), w = bench::random_numbers(l.inputs * l.outputs, 0.035f, 2);
  lazyprune::aligned_array<float> out(rows * l.outputs);
  std::fill_n(out.data(), out.size(), 0.0f);
  const bench::product_task task{.x = x.data(),
                                 .w = w.data(),
                                 .out = out.data(),
                                 .rows = rows,
                                 .inputs = l.inputs,
                                 .outputs = l.outputs,
                                 .add = l.what == use::add,
                                 .threads = threads,
                                 .copies = few ? bench::copies_beyond_caches(static_cast<std::size_t>(weight_bytes)) : 1};
  std::unique_ptr<bench::product> product;
  try {
    product = from.make(task, l);
  } catch (const std::exception& e) {  // oneDNN lacks bf16 on some processors
    return state.SkipWithError(e.what());
  }
  product->run(0);
  product->show();
  if (!right(task, l, from)) return state.SkipWithError("wrong result");

  std::size_t copy = 0;
  const double seconds = bench::time_of(state, [&] {
    product->run(copy);
    copy = (copy + 1) % task.copies;
  });
  const double rate = 2.0 * static_cast<double>(rows * l.inputs * l.outputs) / seconds;
  state.counters["GFLOP/s"] = rate / 1e9;
  state.counters["of_peak"] = rate / bench::arithmetic_ceiling(from.ceiling, from.type, threads);
  if (!few) return;
  state.counters["GB/s"] = weight_bytes / seconds / 1e9;
  state.counters["of_DRAM"] = weight_bytes / seconds / bench::reading_ceiling(threads);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<library> all = libraries();
  for (const layer& l : layers)
    for (const std::size_t rows : {1u, 8u, 16u, 512u, 2048u})
      for (const int threads : bench::thread_counts())
        for (const library& from : all) {
          const std::string name =
              std::string(l.name) + "/rows:" + std::to_string(rows) + "/threads:" + std::to_string(threads) + "/" + from.name;
          if (from.absent.empty())
            benchmark::RegisterBenchmark(name.c_str(), [=, &l, &from](benchmark::State& state) { measure(state, l, rows, threads, from); })
                ->UseRealTime()
                ->Unit(benchmark::kMillisecond);
          else
            bench::register_absent(name, from.absent);
        }
  return bench::run(argc, argv);
}
