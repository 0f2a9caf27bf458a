// SPDX-License-Identifier: MIT
// LazyLLM in an engine with raw float arrays and a toy attention layer. A pruning session plans which rows to compute. The engine computes
// and moves the data. The session never touches the engine's memory. The engine reads a document in chunks, forks a sequence for each of
// two questions, and takes back drafted tokens. It uses only the library's folders core/, policy/ and session/, and the standard library.

#include <lazyprune/lazyprune.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

constexpr std::size_t layers = 6, heads = 4, head_dim = 8, hidden = heads * head_dim, max_tokens = 64,
                      window = 8;  // the largest number of queries whose attention a preset wants

/// Returns a reproducible number in [-1, 1).
float number(std::size_t i) {
  const double x = std::sin(static_cast<double>(i) * 12.9898) * 43758.5453;
  return static_cast<float>(2.0 * (x - std::floor(x)) - 1.0);
}

struct toy_engine {
  std::vector<float> weights = std::vector<float>(layers * 4 * hidden * hidden);       // (layers, q k v o, hidden, hidden)
  std::vector<float> keys = std::vector<float>(layers * max_tokens * hidden);          // (layers, tokens, hidden): row t belongs to token t
  std::vector<float> values = std::vector<float>(layers * max_tokens * hidden);        // (layers, tokens, hidden)
  std::vector<float> aux = std::vector<float>(max_tokens * hidden);                    // (slots, hidden): the Aux Cache
  std::vector<float> waiting = std::vector<float>(max_tokens * hidden);                // (slots, hidden): the rows that chunks left
  std::vector<float> x = std::vector<float>(max_tokens * hidden);                      // (rows, hidden): the layer's input and output
  std::vector<float> gathered = std::vector<float>(max_tokens * hidden);               // (rows, hidden)
  std::vector<float> probabilities = std::vector<float>(window * heads * max_tokens);  // (queries, heads, active), of the last rows

  toy_engine() {
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = number(i) * 0.5f;
  }

  float* row(std::vector<float>& rows, std::size_t r) { return rows.data() + r * hidden; }
  float* cached(std::vector<float>& cache, std::size_t layer, std::size_t token) { return row(cache, layer * max_tokens + token); }

  void multiply(const float* in, std::size_t layer, std::size_t matrix, float* out) const {
    const float* w = weights.data() + (layer * 4 + matrix) * hidden * hidden;
    for (std::size_t o = 0; o < hidden; ++o) {
      out[o] = 0;
      for (std::size_t i = 0; i < hidden; ++i) out[o] += w[o * hidden + i] * in[i] / std::sqrt(static_cast<float>(hidden));
    }
  }

  /// One token attends to the active tokens up to itself. Writes the probabilities to `seen` (heads, active), and the attended values
  /// to `out` (hidden).
  void attend(const float* query, std::size_t layer, std::span<const lazyprune::position> active, lazyprune::position token, float* seen,
              float* out) {
    std::fill_n(out, hidden, 0.0f);
    for (std::size_t h = 0; h < heads; ++h) {
      float* p = seen + h * active.size();
      float sum = 0;
      for (std::size_t i = 0; i < active.size(); ++i) {
        const float* key = cached(keys, layer, active[i]) + h * head_dim;
        float dot = 0;
        for (std::size_t d = 0; d < head_dim; ++d) dot += query[h * head_dim + d] * key[d];
        p[i] = active[i] <= token ? std::exp(dot / std::sqrt(static_cast<float>(head_dim))) : 0.0f;
        sum += p[i];
      }
      for (std::size_t i = 0; i < active.size(); ++i) {
        p[i] /= sum;
        const float* value = cached(values, layer, active[i]) + h * head_dim;
        for (std::size_t d = 0; d < head_dim; ++d) out[h * head_dim + d] += p[i] * value[d];
      }
    }
  }

  /// One forward pass, layer by layer, as the session plans it.
  template <class Session>
  void forward(Session& session, const lazyprune::step_request& request) {
    auto step = session.begin(request);
    for (lazyprune::layer_id layer = 0; layer < step.layers(); ++layer) {
      const lazyprune::layer_plan& plan = step.enter(layer);

      // 1. Gather the rows: new tokens, rows of the previous layer, rows from the Aux Cache, and rows that a chunk left.
      for (std::size_t r = 0; r < plan.rows.size(); ++r) {
        const auto [from, index] = plan.sources[r];
        for (std::size_t i = 0; i < hidden; ++i) {
          if (from == lazyprune::row_source::origin::embedding) row(gathered, r)[i] = number(1'000'000 + index * hidden + i);
          if (from == lazyprune::row_source::origin::carried) row(gathered, r)[i] = row(x, index)[i];
          if (from == lazyprune::row_source::origin::stored) row(gathered, r)[i] = row(aux, index)[i];
          if (from == lazyprune::row_source::origin::waiting) row(gathered, r)[i] = row(waiting, index)[i];
        }
      }
      std::swap(x, gathered);

      // 2. Compute the keys and values of the rows, then the attention of each row over the active tokens. The last row is the query token.
      for (std::size_t r = 0; r < plan.rows.size(); ++r) {
        multiply(row(x, r), layer, 1, cached(keys, layer, plan.rows[r]));
        multiply(row(x, r), layer, 2, cached(values, layer, plan.rows[r]));
      }
      const std::size_t heads_of_a_query = heads * plan.active.size(), queries = std::max<std::size_t>(step.window(), 1);
      for (std::size_t r = plan.rows.size() - plan.output_rows; r < plan.rows.size(); ++r) {
        float query[hidden], attended[hidden], out[hidden];
        multiply(row(x, r), layer, 0, query);
        const std::size_t q = queries - std::min(queries, plan.rows.size() - r);  // earlier rows use place 0, and are overwritten there
        attend(query, layer, plan.active, plan.rows[r], probabilities.data() + q * heads_of_a_query, attended);
        multiply(attended, layer, 3, out);
        for (std::size_t i = 0; i < hidden; ++i) row(x, r)[i] += out[i];
      }

      // 3. Show the attention that the policy wants: the attention of the query token, or of the last queries. Then save the rows that the
      // session asks for.
      std::printf(" %3zu/%-3zu", plan.rows.size(), plan.active.size());
      lazyprune::evidence shown;
      if (step.wants() == lazyprune::evidence_kind::window)
        shown = lazyprune::window_view{probabilities.data(), queries, heads, plan.active.size(), plan.active};
      else if (step.wants_scores())
        shown = lazyprune::attention_view{probabilities.data(), heads, plan.active.size(), plan.active};
      step.leave(shown);
      for (const auto& [from_row, slot, from, to] : step.spills()) {
        const float* saved = row(from == lazyprune::row_source::origin::waiting ? waiting : x, from_row);
        std::copy_n(saved, hidden, row(to == lazyprune::row_source::origin::waiting ? waiting : aux, slot));
      }
    }
    step.finish();
    std::puts("");
  }
};

}  // namespace

int main() {
  using lazyprune::phase;
  lazyprune::policy policy{lazyprune::last_query_attention{}, lazyprune::stages{{2, 0.5}, {4, 0.5}}, lazyprune::top_k{},
                           lazyprune::keep_all{}};
  lazyprune::session document{policy, {.layers = layers, .max_tokens = max_tokens}};
  toy_engine engine;

  // A chunk has no query token. It computes the layers below the first one that prunes, and its rows wait there.
  std::puts("rows computed / tokens active, layer by layer");
  for (const std::size_t tokens : {16u, 20u}) {
    std::printf("chunk     ");
    engine.forward(document, {.tokens = tokens, .outputs = 0});
  }

  // Each question continues a fork of the document. This engine copies the memory. A real engine shares the memory until it is written.
  for (const std::size_t question : {4u, 6u}) {
    lazyprune::session session = document;
    toy_engine fork = engine;
    std::printf("question  ");
    fork.forward(session, {.tokens = question});
    for (int token = 1; token <= 3; ++token) {
      std::printf("decode %d  ", token);
      fork.forward(session, {.tokens = 1, .phase = phase::decode});
    }

    // Four drafted tokens in one step, all with an output. The last two are rejected.
    std::printf("draft     ");
    const std::size_t known = session.known();
    fork.forward(session, {.tokens = 4, .phase = phase::decode, .outputs = 4});
    session.truncate(known + 2);
    const lazyprune::statistics& cost = session.stats();
    std::printf("%zu rows computed, %zu of them revived; the dense model computes %zu\n", cost.rows, cost.revived, cost.dense_rows);
  }

  // The same loop works for every policy.
  lazyprune::visit_presets([](const char* name, const char*, auto preset) {
    lazyprune::session session{preset(layers), {.layers = layers, .max_tokens = max_tokens}};
    std::printf("%-14s", name);
    toy_engine{}.forward(session, {.tokens = 40});
  });
}
