// SPDX-License-Identifier: MIT
// The input changes the bytes of a saved sequence. Its first byte chooses the sequence. Each further three bytes are an offset and the byte
// that is written there; at the end the checksum is corrected. Loading reports an error, or gives a sequence that can take further steps,
// and can be saved and loaded.
#include <lazyprune/model/sequence.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/backend/reference.hpp>
#include <lazyprune/model/transformer.hpp>
#include <lazyprune/registry/make_session.hpp>
#include <lazyprune/registry/shipped_policies.hpp>

#include "../model/saved_bytes.hpp"
#include "../model/tiny_model.hpp"
#include "fuzzed.hpp"

namespace {

using namespace lazyprune;
using namespace lazyprune_test;

struct saved_sequences {
  reference<float> backend{};
  model<reference<float>> net = tiny_model(backend);
  workspace<reference<float>> work{net, backend};
  std::vector<token_id> tokens = some_tokens(20);
  policy_registry policies = shipped_policies();
  std::array<std::string_view, 4> flags{"dense", "--stages 1:0.5,3:0.5", "--stages 2:0.5 --scorer window_attention:window=3",
                                        "lazyllm --stages 2:0.5 --scorer prompt_window_attention:window=5"};

  any_session session(std::string_view policy) const { return make_session(parse_policy(policy), 4, {.layers = 4}, policies); }

  std::string bytes_of(const sequence<reference<float>>& seq) {
    std::string bytes;
    byte_writer to = writer_to(bytes);
    seq.save(backend, to);
    return bytes;
  }
  sequence<reference<float>> loaded(std::string_view policy, std::string bytes) {
    byte_reader from = reader_of(std::move(bytes));
    return sequence<reference<float>>::load(backend, net, session(policy), from);
  }

  /// Returns a sequence that has read a chunk, and with `queried` also the end of a prompt.
  std::string saved(std::string_view policy, bool queried) {
    sequence<reference<float>> seq(net, session(policy));
    (void)forward(work, sequence_step<reference<float>>{seq, std::span(tokens).first(9), phase::prefill, 0, nullptr});
    if (queried) forward(work, seq, std::span(tokens).subspan(9, 6), phase::prefill);
    return bytes_of(seq);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static saved_sequences all;
  static const auto originals = [] {
    std::vector<std::string> bytes;
    for (const std::string_view policy : all.flags)
      for (const bool queried : {false, true}) bytes.push_back(all.saved(policy, queried));
    return bytes;
  }();
  if (size == 0) return 0;
  const std::size_t which = data[0] % originals.size();
  const std::string_view policy = all.flags[which / 2];
  std::string bytes = originals[which];
  for (std::size_t i = 1; i + 3 <= size; i += 3) bytes[(data[i] + 256u * data[i + 1]) % bytes.size()] = static_cast<char>(data[i + 2]);
  const bounded_work bounds(bytes.size());
  unless_refused([&] {
    sequence<reference<float>> seq = all.loaded(policy, resealed(bytes));
    never_refused([&] {
      const std::string again = all.bytes_of(seq);
      must(all.bytes_of(all.loaded(policy, again)) == again, "a loaded sequence can be saved and loaded");
      forward(all.work, seq, std::span(all.tokens).last(3), phase::prefill);
      forward(all.work, seq, std::span(all.tokens).last(1), phase::decode);
    });
  });
  return 0;
}
