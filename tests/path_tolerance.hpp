// SPDX-License-Identifier: MIT
// How much a backend in float may differ from the reference in double, derived from the numbers that it rounds.
#pragma once

#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/model/config.hpp>

#include <cmath>

namespace lazyprune_test {

/// Rounding to p bits changes a number by at most the relative error u = 2^-p, the unit roundoff, up or down alike. Over numbers of all
/// sizes the root mean square is 0.42 u. This is the square root of 1/3 of the mean of 1/m^2 over mantissas m from 1 to 2, distributed as
/// 1/m.
inline constexpr double mean_rounding = 0.42;
inline constexpr double bf16_roundoff = 0x1p-8, float_roundoff = 0x1p-24;

/// The error of a matrix product is a vector with a certain share of the product's length. Each rounding of an input contributes 0.42 u. K
/// rounded additions contribute 0.42 u sqrt(K / 2), because partial sums grow as sqrt(k) (Higham and Mary, "A new approach to probabilistic
/// rounding error analysis", 2019). Each layer adds such errors to the residual stream and passes on the earlier ones. Independent errors
/// add up as squares. After some layers the stream is therefore off by
///
///   0.42 sqrt(u_bf16^2 * roundings in bf16 + u_float^2 * additions / 2)
///
/// of its length. Norms keep this share, and the head makes it the same share of the logits' root mean square. This is one standard
/// deviation. The largest error among some ten thousand logits is four of them. Seven leave room for the effect of attention on the errors
/// of its scores.
class path_tolerance {
 public:
  /// For a model with weights of type `weights` in the backend cpu made from `e`, and sequences of `tokens` tokens.
  path_tolerance(const lazyprune::execution& e, lazyprune::dtype weights, const lazyprune::model_config& model, std::size_t tokens)
      : path_tolerance(isa_of(e) >= lazyprune::isa::avx512_bf16, e.kv.value_or(weights), weights, model, tokens) {}

  /// The same for any backend with keys and values of type `kv`. `rounds` says whether it rounds numbers to bf16 before multiplying them by
  /// numbers in bf16.
  path_tolerance(bool rounds, lazyprune::dtype kv, lazyprune::dtype weights, const lazyprune::model_config& model, std::size_t tokens)
      : model_(model) {
    const bool kv_in_bf16 = kv == lazyprune::dtype::bf16;
    if (rounds && weights == lazyprune::dtype::bf16) {
      in_bf16_ += 4;  // the inputs of q, k and v; of o; of gate and up; of down
      head_in_bf16_ = 1;
    }
    if (kv_in_bf16) in_bf16_ += 2;            // keys, values
    if (kv_in_bf16 && rounds) in_bf16_ += 2;  // queries, attention weights
    additions_ = static_cast<double>(2 * model.hidden + model.n_heads * model.head_dim + model.ffn + model.head_dim + tokens);
  }

  /// How far a logit may be off, if the root mean square of the logits is `size`.
  double logits(double size) const {
    return deviations * share(static_cast<double>(model_.layers), head_in_bf16_, static_cast<double>(model_.hidden)) * size;
  }

  /// How far the logarithm of a score may be off after `layers` layers. Two scores whose relative difference is smaller may change places.
  /// A score is an average of probabilities. It is off by as much as the products of queries and keys, a share of their spread over the
  /// tokens. `spread` is the standard deviation of a head's log-probabilities, for the head with the largest one. It is 1 if scores are not
  /// probabilities.
  double scores(std::size_t layers, double spread) const { return deviations * share(static_cast<double>(layers), 0, 0) * spread; }

 private:
  static constexpr double deviations = 7;

  double share(double layers, double more_in_bf16, double more_additions) const {
    return mean_rounding * std::sqrt(bf16_roundoff * bf16_roundoff * (layers * in_bf16_ + more_in_bf16) +
                                     float_roundoff * float_roundoff * (layers * additions_ + more_additions) / 2);
  }

  const lazyprune::model_config& model_;
  double in_bf16_ = 0, head_in_bf16_ = 0;  // roundings in one layer, and in the head
  double additions_ = 0;                   // of a layer
};

}  // namespace lazyprune_test
