// SPDX-License-Identifier: MIT
// The allowed difference between a backend in float and the reference in double, derived from the numbers that the backend rounds.
#pragma once

#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/model/config.hpp>

#include <cmath>

namespace lazyprune_test {

/// Rounding to p bits changes a number up or down, by a relative error of at most u = 2^-p (the unit roundoff). For numbers of all sizes
/// the root mean square of this error is 0.42 u. The factor 0.42 is the square root of 1/3 of the mean of 1/m^2, where the mantissas m from
/// 1 to 2 are distributed as 1/m.
inline constexpr double mean_rounding = 0.42;
inline constexpr double bf16_roundoff = 0x1p-8, float_roundoff = 0x1p-24;

/// The error of a matrix product is a vector. Its length is a certain share of the product's length. Each rounding of an input contributes
/// 0.42 u to this share. K rounded additions contribute 0.42 u sqrt(K / 2), because partial sums grow as sqrt(k) (Higham and Mary, "A new
/// approach to probabilistic rounding error analysis", 2019). Each layer adds such errors to the residual stream and passes on the earlier
/// ones. Independent errors add up as squares. So after some layers the error of the stream, divided by its length, is
///
///   0.42 sqrt(u_bf16^2 * roundings in bf16 + u_float^2 * additions / 2)
///
/// Norms keep this share, and so does the head: the error of a logit is this share of the logits' root mean square. This is one standard
/// deviation of the error. The largest error among some ten thousand logits is four standard deviations. We allow seven, because attention
/// also depends on the errors of its scores.
class path_tolerance {
 public:
  /// The tolerance for a model with weights of type `weights` and sequences of `tokens` tokens, in the backend cpu made from `e`.
  path_tolerance(const lazyprune::execution& e, lazyprune::dtype weights, const lazyprune::model_config& model, std::size_t tokens)
      : path_tolerance(isa_of(e) >= lazyprune::isa::avx512_bf16, e.kv.value_or(weights), weights, model, tokens) {}

  /// The tolerance for any backend with keys and values of type `kv`. `rounds`: whether the backend rounds numbers to bf16 before it
  /// multiplies them by numbers in bf16.
  ///
  /// `rounds_results`: whether the products with such weights also round their results, except in the residual stream and the logits.
  path_tolerance(bool rounds, lazyprune::dtype kv, lazyprune::dtype weights, const lazyprune::model_config& model, std::size_t tokens,
                 bool rounds_results = false)
      : model_(model) {
    // A rounding to f16 has 1/8 of the error of a rounding to bf16.
    using enum lazyprune::dtype;
    const double of_kv = kv == bf16 ? 1 : kv == f16 ? 1.0 / 64 : kv == q8_0 ? in_8_bits + (rounds ? 1 : 0) : 0;
    if (rounds && weights == lazyprune::dtype::bf16) {
      in_bf16_ += 4;  // the inputs of q, k and v; of o; of gate and up; of down
      head_in_bf16_ = 1;
      // Queries and keys before RoPE, and both inputs of a gate. If values are stored in bf16, they are rounded only once, see below.
      if (rounds_results) in_bf16_ += kv == bf16 ? 4 : 5;
    }
    in_bf16_ += 2 * of_kv;                                    // keys, values
    if (rounds && (kv == bf16 || kv == q8_0)) in_bf16_ += 2;  // queries, attention weights
    additions_ = static_cast<double>(2 * model.hidden + model.n_heads * model.head_dim + model.ffn + model.head_dim + tokens);
  }

  /// The tolerance for a model with quantized weights, in the backend cpu made from `e`, which is not exact. The reference has the numbers
  /// that the quantized weights mean.
  static path_tolerance of_quantized(const lazyprune::execution& e, const lazyprune::model_config& model, std::size_t tokens) {
    using enum lazyprune::dtype;
    const lazyprune::isa path = isa_of(e);
    path_tolerance result(path >= lazyprune::isa::avx512_bf16, e.kv.value_or(bf16), f32, model, tokens);
    // The inputs of q, k and v; of o; of gate and up; of down. They are rounded to 8 bits. On amx, both the inputs and the weights are
    // rounded to bf16.
    const double of_product = path == lazyprune::isa::amx ? 2 : in_8_bits;
    result.in_bf16_ += 4 * of_product;
    result.head_in_bf16_ = of_product;
    result.embedding_in_bf16_ = 1;
    return result;
  }

  /// The allowed error of a logit. `size`: the root mean square of the logits.
  double logits(double size) const {
    return deviations * share(static_cast<double>(model_.layers), head_in_bf16_, static_cast<double>(model_.hidden)) * size;
  }

  /// The allowed error of the logarithm of a score after `layers` layers. Two scores whose relative difference is smaller may change
  /// places. A score is an average of probabilities. The score's error comes from the products of queries and keys. It is a share of the
  /// spread of these products over the tokens. `spread` is the standard deviation of a head's log-probabilities, the largest of all heads.
  /// It is 1 if scores are not probabilities.
  double scores(std::size_t layers, double spread) const { return deviations * share(static_cast<double>(layers), 0, 0) * spread; }

 private:
  static constexpr double deviations = 7;
  /// A rounding to blocks of 8 bits, counted in roundings to bf16. An error is up to half a code, which is 1/254 of the largest of 32
  /// numbers. If they are normal, the largest is 2.4 times their root mean square. The variance of such errors is that of 11 roundings to
  /// bf16.
  static constexpr double in_8_bits = 11;

  double share(double layers, double more_in_bf16, double more_additions) const {
    return mean_rounding * std::sqrt(bf16_roundoff * bf16_roundoff * (embedding_in_bf16_ + layers * in_bf16_ + more_in_bf16) +
                                     float_roundoff * float_roundoff * (layers * additions_ + more_additions) / 2);
  }

  const lazyprune::model_config& model_;
  double embedding_in_bf16_ = 0, in_bf16_ = 0, head_in_bf16_ = 0;  // roundings in the embedding, in one layer, and in the head
  double additions_ = 0;                                           // rounded additions in one layer
};

}  // namespace lazyprune_test
