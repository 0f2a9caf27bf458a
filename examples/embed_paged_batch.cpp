// SPDX-License-Identifier: MIT
// LazyLLM in a serving engine. Many sequences run in one batch, each with its own plan (embed_raw_pointers.cpp has only one sequence). Keys
// and values lie in pages that sequences share. Heads are grouped, and attention yields no probabilities. The engine computes a common
// prefix once, and frees unused pages. It uses only the library's folders core/, policy/ and session/. At the end the program
// compares the batch with each sequence alone.

#include <lazyprune/lazyprune.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

namespace {

using lazyprune::position;
using origin = lazyprune::row_source::origin;

constexpr std::size_t layers = 6, heads = 4, kv_heads = 2, head_dim = 8, hidden = heads * head_dim, kv = kv_heads * head_dim;
constexpr std::size_t page_size = 8, pages = 64, slots = pages * page_size;

/// Returns a reproducible number in [-1, 1).
float number(std::size_t i) {
  const double x = std::sin(static_cast<double>(i) * 12.9898) * 43758.5453;
  return static_cast<float>(2.0 * (x - std::floor(x)) - 1.0);
}

/// The keys and values of all sequences. Slot s is entry s % page_size of page s / page_size, in each layer.
struct page_pool {
  std::vector<float> keys = std::vector<float>(layers * slots * kv), values = keys;  // (layers, slots, kv_heads, head_dim)
  std::vector<int> users = std::vector<int>(pages);                                  // for each page: how many sequences read it

  std::uint32_t take() {
    const auto page = std::ranges::find(users, 0);
    if (page == users.end()) {
      std::fputs("out of pages\n", stderr);
      std::exit(1);
    }
    *page = 1;
    return static_cast<std::uint32_t>(page - users.begin());
  }
  float* key(std::size_t layer, std::size_t slot) { return keys.data() + (layer * slots + slot) * kv; }
  float* value(std::size_t layer, std::size_t slot) { return values.data() + (layer * slots + slot) * kv; }
  void copy(std::uint32_t from, std::uint32_t to) {
    for (std::size_t layer = 0; layer < layers; ++layer) {
      std::copy_n(key(layer, from * page_size), page_size * kv, key(layer, to * page_size));
      std::copy_n(value(layer, from * page_size), page_size * kv, value(layer, to * page_size));
    }
  }
};

/// One conversation: its session, its pages, and the hidden states that were saved.
struct conversation {
  page_pool& pool;
  lazyprune::any_session session;
  std::vector<std::size_t> ids{};                    // (known)
  std::vector<std::uint32_t> table{};                // (known / page_size): the page of each block of positions
  std::vector<std::size_t> left{};                   // for each page of the table: how many of its positions later plans may contain
  std::vector<std::vector<float>> aux{}, waiting{};  // (slots, hidden)
  std::vector<float> last{};                         // (hidden): the last token's hidden state after all layers

  std::uint32_t slot(position t) const { return static_cast<std::uint32_t>(table[t / page_size] * page_size + t % page_size); }

  void make_room(std::size_t tokens) {
    for (std::size_t known = session.known() + tokens; table.size() * page_size < known; left.push_back(page_size))
      table.push_back(pool.take());
  }

  /// Positions that no later plan contains leave their pages. A page that all positions have left is freed.
  void free_pages() {
    for (const position t : session.losses())
      if (--left[t / page_size] == 0) --pool.users[table[t / page_size]];
  }

  /// Keeps the first `tokens` tokens and frees the pages after the cut. New tokens will be written into the page that is cut. If other
  /// conversations read this page, or if it was freed because all of its positions had left, this conversation gets a copy of it.
  void truncate(std::size_t tokens) {
    const std::size_t cut = tokens / page_size, kept = (tokens + page_size - 1) / page_size;
    for (std::size_t p = kept; p < table.size(); ++p)
      if (left[p] > 0) --pool.users[table[p]];
    table.resize(kept);
    left.resize(kept);
    if (cut < kept) {
      if (left[cut] == 0 || pool.users[table[cut]] > 1) {
        const std::uint32_t shared = std::exchange(table[cut], pool.take());
        pool.copy(shared, table[cut]);
        if (left[cut] > 0) --pool.users[shared];
      }
      const lazyprune::frontier_table& known = session.tokens();
      left[cut] = page_size;
      for (auto t = static_cast<position>(cut * page_size); t < tokens; ++t)
        left[cut] -= known.dropped_for_good(t) || (known.lost(t) && known.frontier(t) == 0);
    }
    session.truncate(tokens);
    ids.resize(tokens);
  }

  /// Shares the first `tokens` tokens of another conversation and computes nothing. Their keys and values must fill whole pages at every
  /// layer.
  void share_prefix(const conversation& other, std::size_t tokens) {
    table.assign(other.table.begin(), other.table.begin() + static_cast<std::ptrdiff_t>(tokens / page_size));
    left.assign(table.size(), page_size);
    for (const std::uint32_t page : table) ++pool.users[page];
    ids.assign(other.ids.begin(), other.ids.begin() + static_cast<std::ptrdiff_t>(tokens));
    session.adopt(tokens);
  }
};

/// The next step of one conversation. Its new tokens have the ids `first_id`, `first_id` + 1 and so on.
struct request {
  conversation* chat;
  lazyprune::step_request step;
  std::size_t first_id = 100;
};

std::vector<float> weights() {
  std::vector<float> w(layers * 4 * hidden * hidden);  // (layers, q k v o, out, in); k and v use only the first kv rows
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = number(i) * 0.5f;
  return w;
}

void multiply(const std::vector<float>& w, const float* in, std::size_t layer, std::size_t matrix, std::size_t outputs, float* out) {
  const float* rows = w.data() + (layer * 4 + matrix) * hidden * hidden;
  for (std::size_t o = 0; o < outputs; ++o) {
    out[o] = 0;
    for (std::size_t i = 0; i < hidden; ++i) out[o] += rows[o * hidden + i] * in[i] / std::sqrt(static_cast<float>(hidden));
  }
}

/// The rows of one conversation in the batch.
struct batch_entry {
  request asked;
  lazyprune::step<lazyprune::any_session> step;
  lazyprune::layer_plan plan{};
  std::size_t first = 0, first_before = 0;  // the index of the conversation's first row: in this layer's batch, and in the previous layer's
};

/// Computes one step of all requests. Returns the number of rows in the batch, summed over the layers.
std::size_t forward(page_pool& pool, const std::vector<float>& w, const std::vector<request>& requests) {
  std::deque<batch_entry> entries;
  for (const request& r : requests) {
    conversation& chat = *r.chat;
    chat.make_room(r.step.tokens);
    for (std::size_t i = 0; i < r.step.tokens; ++i) chat.ids.push_back(r.first_id + i);
    entries.push_back({r, chat.session.begin(r.step)});
  }

  std::size_t rows_in_all = 0;
  std::vector<float> x, before, query(hidden), attended(hidden), out(hidden), p, last_queries, shown;
  std::vector<std::uint32_t> active_slots;
  for (lazyprune::layer_id layer = 0; layer < layers; ++layer) {
    // Gather the rows of all conversations, one conversation after the other. Each has its own plan. A chunk has fewer layers than the
    // model, so it leaves the batch earlier.
    std::swap(x, before);
    x.clear();
    for (batch_entry& q : entries) {
      if (layer >= q.step.layers()) continue;
      q.plan = q.step.enter(layer);
      q.first_before = q.first;
      q.first = x.size() / hidden;
      conversation& chat = *q.asked.chat;
      for (const auto [from, index] : q.plan.sources)
        for (std::size_t i = 0; i < hidden; ++i)
          x.push_back(from == origin::embedding ? number(1'000'000 + chat.ids[index] * hidden + i)
                      : from == origin::carried ? before[(q.first_before + index) * hidden + i]
                      : from == origin::stored  ? chat.aux[index][i]
                                                : chat.waiting[index][i]);
    }
    rows_in_all += x.size() / hidden;

    // Write the keys and values of all rows of the batch to the slots of their positions.
    for (batch_entry& q : entries)
      if (layer < q.step.layers())
        for (std::size_t r = 0; r < q.plan.rows.size(); ++r) {
          const std::uint32_t slot = q.asked.chat->slot(q.plan.rows[r]);
          multiply(w, x.data() + (q.first + r) * hidden, layer, 1, kv, pool.key(layer, slot));
          multiply(w, x.data() + (q.first + r) * hidden, layer, 2, kv, pool.value(layer, slot));
        }

    for (batch_entry& q : entries) {
      if (layer >= q.step.layers()) continue;
      conversation& chat = *q.asked.chat;
      const std::span<const position> active = q.plan.active;
      active_slots.clear();
      for (const position t : active) active_slots.push_back(chat.slot(t));
      p.resize(heads * active.size());
      const std::size_t queries = q.step.wants() == lazyprune::evidence_kind::window ? q.step.window() : q.step.wants_scores() ? 1 : 0;
      last_queries.clear();
      for (std::size_t r = q.plan.rows.size() - q.plan.output_rows; r < q.plan.rows.size(); ++r) {
        // This stands for a fused kernel. It reads the slots of the active tokens up to the row's own position, and yields only the
        // attended values.
        multiply(w, x.data() + (q.first + r) * hidden, layer, 0, hidden, query.data());
        if (q.plan.rows.size() - r <= queries) last_queries.insert(last_queries.end(), query.begin(), query.end());
        const auto seen = static_cast<std::size_t>(std::ranges::upper_bound(active, q.plan.rows[r]) - active.begin());
        const lazyprune::key_rows<float> keys{pool.key(layer, 0), kv_heads, head_dim, kv, std::span(active_slots).first(seen)};
        const auto weights_of = lazyprune::query_attention(query.data(), heads, keys, active.first(seen), p.data(), active.size());
        for (std::size_t h = 0; h < heads; ++h)
          for (std::size_t d = 0; d < head_dim; ++d) {
            float sum = 0;
            for (std::size_t i = 0; i < seen; ++i)
              sum += weights_of(h, i) * pool.value(layer, active_slots[i])[h * kv_heads / heads * head_dim + d];
            attended[h * head_dim + d] = sum;
          }
        multiply(w, attended.data(), layer, 3, hidden, out.data());
        for (std::size_t i = 0; i < hidden; ++i) x[(q.first + r) * hidden + i] += out[i];
      }

      // If the policy wants to see attention, compute it by one more product of the last queries with the active keys.
      const lazyprune::key_rows<float> keys{pool.key(layer, 0), kv_heads, head_dim, kv, active_slots};
      const std::span<const position> last = q.plan.rows.last(queries);
      shown.resize(queries * heads * active.size());
      const lazyprune::window_view seen = lazyprune::query_attention(last_queries.data(), hidden, heads, keys, active, last, shown.data());
      if (q.step.wants() == lazyprune::evidence_kind::window)
        q.step.leave(lazyprune::evidence(seen));
      else if (q.step.wants() == lazyprune::evidence_kind::attention)
        q.step.leave(lazyprune::evidence(seen.query(0)));
      else
        q.step.leave();
      for (const auto& [row, slot, from, to] : q.step.spills()) {
        auto& memory = to == origin::waiting ? chat.waiting : chat.aux;
        if (memory.size() <= slot) memory.resize(slot + 1);
        const auto first = x.begin() + static_cast<std::ptrdiff_t>((q.first + row) * hidden);
        memory[slot] = from == origin::waiting ? chat.waiting[row] : std::vector<float>(first, first + hidden);
      }
      const auto end = x.begin() + static_cast<std::ptrdiff_t>((q.first + q.plan.rows.size()) * hidden);
      if (layer + 1 == layers && q.plan.output_rows > 0) chat.last.assign(end - hidden, end);  // a chunk has no output
    }
  }
  for (batch_entry& q : entries) {
    q.step.finish();
    q.asked.chat->free_pages();
  }
  return rows_in_all;
}

lazyprune::any_session by_window() { return {lazyprune::pyramid_kv(0.5), {.layers = layers}}; }

lazyprune::any_session pruned() { return {lazyprune::lazyllm(lazyprune::stages{{2, 0.5}, {4, 0.5}}), {.layers = layers}}; }

const char* told(const conversation& together, const conversation& alone) {
  return together.last == alone.last && together.session.stats() == alone.session.stats() ? "as it is alone" : "NOT as it is alone";
}

}  // namespace

int main() {
  using lazyprune::phase;
  const std::vector<float> w = weights();
  page_pool pool;

  // The common prefix of the conversations is computed once, in a session that prunes nothing.
  conversation instructions{pool, {lazyprune::dense(), {.layers = layers}}};
  forward(pool, w, {{&instructions, {.tokens = 2 * page_size}}});

  // Three conversations in one batch: the first continues the instructions, the second is longer and has another policy, and the third
  // reads its prompt in two chunks.
  const auto three = [&] { return std::array<conversation, 3>{{{pool, pruned()}, {pool, by_window()}, {pool, pruned()}}}; };
  const auto steps_of = [](std::array<conversation, 3>& c) {
    return std::vector<std::vector<request>>{
        {{&c[0], {.tokens = 9}}, {&c[1], {.tokens = 30}}, {&c[2], {.tokens = 12, .outputs = 0}}},
        {{&c[0], {.tokens = 1, .phase = phase::decode}}, {&c[1], {.tokens = 1, .phase = phase::decode}}, {&c[2], {.tokens = 5}}},
        {{&c[0], {.tokens = 4, .phase = phase::decode, .outputs = 4}}, {&c[2], {.tokens = 1, .phase = phase::decode}}}};
  };
  std::array<conversation, 3> together = three(), alone = three();
  together[0].share_prefix(instructions, 2 * page_size);
  alone[0].share_prefix(instructions, 2 * page_size);
  for (const auto& batch : steps_of(together))
    std::printf("a batch of %zu conversations, %zu rows\n", batch.size(), forward(pool, w, batch));
  for (const auto& batch : steps_of(alone))
    for (const request& one : batch) forward(pool, w, {one});
  for (std::size_t i = 0; i < together.size(); ++i) {
    const lazyprune::statistics& cost = together[i].session.stats();
    std::printf("conversation %zu: %zu rows, %zu revived, %s\n", i, cost.rows, cost.revived, told(together[i], alone[i]));
  }

  // A rollback: four tokens are drafted, two of them are taken back, and another token follows. The result is as if those two tokens had
  // never been there.
  conversation drafted{pool, {lazyprune::dense(), {.layers = layers}}}, straight{pool, {lazyprune::dense(), {.layers = layers}}};
  for (conversation* c : {&drafted, &straight}) {
    c->share_prefix(instructions, 2 * page_size);
    forward(pool, w, {{c, {.tokens = 9}}});
  }
  const auto used = [&] { return std::accumulate(pool.users.begin(), pool.users.end(), 0); };
  forward(pool, w, {{&drafted, {.tokens = 4, .phase = phase::decode, .outputs = 4}, 200}});
  forward(pool, w, {{&straight, {.tokens = 2, .phase = phase::decode, .outputs = 2}, 200}});
  drafted.truncate(drafted.session.known() - 2);
  for (conversation* c : {&drafted, &straight}) forward(pool, w, {{c, {.tokens = 1, .phase = phase::decode}, 300}});
  std::printf("after a rollback: %s\n", drafted.last == straight.last ? "as it would have been" : "NOT as it would have been");

  // A cut within the shared prefix: the page that is cut is copied, and the instructions stay as they were.
  const std::vector<float> keys = pool.keys, values = pool.values;
  const int before = used();
  drafted.truncate(3);
  std::printf("pages given back: %d\n", before - used());
  forward(pool, w, {{&drafted, {.tokens = 7}, 400}});
  bool same = true;
  for (std::size_t layer = 0; layer < layers; ++layer)
    for (position t = 0; t < 2 * page_size; ++t) {
      const std::size_t at = (layer * slots + instructions.slot(t)) * kv;
      same &=
          std::equal(&pool.keys[at], &pool.keys[at] + kv, &keys[at]) && std::equal(&pool.values[at], &pool.values[at] + kv, &values[at]);
    }
  std::printf("the shared pages are %s\n", same ? "as they were" : "NOT as they were");

  // A window over an endless text. If a position leaves the window, it leaves its page too. So the pool does not run out of pages.
  conversation stream{pool, {lazyprune::streaming_llm(4, 20), {.layers = layers}}};
  std::size_t most = 0;
  for (int step = 0; step < 200; ++step) {
    forward(pool, w, {{&stream, {.tokens = 5}}});
    most = std::max(most, static_cast<std::size_t>(std::ranges::count_if(stream.left, [](std::size_t n) { return n > 0; })));
  }
  std::printf("a stream of %zu tokens had at most %zu pages\n", stream.session.known(), most);
}
