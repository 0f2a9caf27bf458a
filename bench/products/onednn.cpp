// SPDX-License-Identifier: MIT
// Implements the column of oneDNN, version 2 or 3. oneDNN chooses the layout of the weights. The activations are converted beforehand to
// the type in which oneDNN computes.
#if LAZYPRUNE_BENCH_ONEDNN

#include <omp.h>
#include <dnnl.hpp>

#include <cstring>
#include <vector>

#include "product.hpp"

namespace bench {

namespace {

using dnnl::memory;

class onednn_product final : public product {
 public:
  onednn_product(const product_task& task, bool bf16) : threads_(task.threads) {
    omp_set_num_threads(threads_);
    const auto rows = static_cast<memory::dim>(task.rows), inputs = static_cast<memory::dim>(task.inputs);
    const auto outputs = static_cast<memory::dim>(task.outputs);
    const auto type = bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const memory::desc x({rows, inputs}, type, memory::format_tag::ab), w({inputs, outputs}, type, memory::format_tag::any);
    const memory::desc out({rows, outputs}, memory::data_type::f32, memory::format_tag::ab);
    dnnl::primitive_attr attributes;
    if (task.add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc chosen(engine_, x, w, out, attributes);
#else
    const dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(x, w, out), attributes, engine_);
#endif
    multiply_ = dnnl::matmul(chosen);
    out_ = memory(out, engine_, task.out);
    x_ = convert(task.x, {x.dims(), memory::data_type::f32, memory::format_tag::ab}, x);
    for (std::size_t copy = 0; copy < task.copies; ++copy)
      w_.push_back(convert(task.w, {w.dims(), memory::data_type::f32, memory::format_tag::ba}, chosen.weights_desc()));
  }

  void run(std::size_t copy) override {
    omp_set_num_threads(threads_);
    multiply_.execute(stream_, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, w_[copy]}, {DNNL_ARG_DST, out_}});
    stream_.wait();
  }

 private:
  memory convert(const float* data, const memory::desc& from, const memory::desc& to) {
    memory given(from, engine_, const_cast<float*>(data)), result(to, engine_);
    dnnl::reorder(given, result).execute(stream_, given, result);
    stream_.wait();
    return result;
  }

  int threads_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul multiply_;
  memory x_, out_;
  std::vector<memory> w_;
};

}  // namespace

std::unique_ptr<product> make_onednn_product(const product_task& task, bool bf16) { return std::make_unique<onednn_product>(task, bf16); }

}  // namespace bench

#endif
