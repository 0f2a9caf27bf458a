// SPDX-License-Identifier: MIT
// How far a backend in float may be from the reference in double, as it follows from what it rounds.
#pragma once

#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/model/config.hpp>

#include <cmath>

namespace lazyprune_test {

/// A rounding to p bits moves a number by at most 2^-p of it, the unit roundoff u, and as often up as down. Over numbers of every size the
/// root of the mean square is 0.42 u: sqrt(1/3 of the mean of 1/m^2 over mantissas m from 1 to 2, which are distributed as 1/m).
inline constexpr double mean_rounding = 0.42;
inline constexpr double bf16_roundoff = 0x1p-8, float_roundoff = 0x1p-24;

/// A product with rounded inputs, or with a rounded sum in each of K additions, is off by a vector of the same share of its length: by
/// 0.42 u for each rounding that its inputs met, and by 0.42 u sqrt(K / 2) for its sums, whose partial sums grow as sqrt(k) (Higham and
/// Mary, "A new approach to probabilistic rounding error analysis", 2019). Layers add to the residual stream what is off by such shares,
/// and pass on what it had before; independent errors add up as squares. So after some layers the stream is off by
///   0.42 sqrt(u_bf16^2 * roundings in bf16 + u_float^2 * additions / 2)
/// of its length, a share that norms keep and that the head makes one of the logits' root mean square. That is one standard deviation: the
/// largest of some ten thousand logits is four of them off, and seven leave something for what attention makes of errors in its scores.
class path_tolerance {
 public:
  /// For a model with weights of this type in the backend cpu that is made from `e`, and sequences of so many tokens.
  path_tolerance(const lazyprune::execution& e, lazyprune::dtype weights, const lazyprune::model_config& model, std::size_t tokens)
      : path_tolerance(isa_of(e) >= lazyprune::isa::avx512_bf16, e.kv.value_or(weights), weights, model, tokens) {}

  /// The same of any backend with keys and values of this type, that `rounds` what meets numbers in bf16 to bf16, or does not.
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

  /// How far a logit may be off, where the root of their mean square is `size`.
  double logits(double size) const {
    return deviations * share(static_cast<double>(model_.layers), head_in_bf16_, static_cast<double>(model_.hidden)) * size;
  }

  /// How far a score's logarithm may be off after so many layers; two scores that are nearer, as a share of one, may change places. A score
  /// is an average of probabilities, and so off by as much as the scores of attention, a share of their spread over the tokens: `spread` is
  /// the standard deviation of a head's log-probabilities, of the head where it is largest, and 1 where scores are no probabilities.
  double scores(std::size_t layers, double spread) const { return deviations * share(static_cast<double>(layers), 0, 0) * spread; }

 private:
  static constexpr double deviations = 7;

  double share(double layers, double more_in_bf16, double more_additions) const {
    return mean_rounding * std::sqrt(bf16_roundoff * bf16_roundoff * (layers * in_bf16_ + more_in_bf16) +
                                     float_roundoff * float_roundoff * (layers * additions_ + more_additions) / 2);
  }

  const lazyprune::model_config& model_;
  double in_bf16_ = 0, head_in_bf16_ = 0;  // roundings of a layer, and of the head
  double additions_ = 0;                   // of a layer
};

}  // namespace lazyprune_test
