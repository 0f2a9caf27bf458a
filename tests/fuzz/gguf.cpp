// SPDX-License-Identifier: MIT
// The input is a GGUF file. Reading it reports an error, or gives values and tensors that lie in the file. If the file has a model config
// and a vocabulary, these are read, too.
#include <lazyprune/files/gguf.hpp>
#include <lazyprune/files/gguf_config.hpp>
#include <lazyprune/text/gguf_tokenizer.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzzed.hpp"

namespace {

using namespace lazyprune_test;

/// Reads each value as every type, and the first and last byte of each tensor.
void read_all(const lazyprune::gguf_file& file) {
  for (const lazyprune::gguf_value& value : file.values_under("")) {
    unless_refused([&] { value.string(); });
    unless_refused([&] { value.whole_number(); });
    unless_refused([&] { value.number(); });
    unless_refused([&] { value.boolean(); });
    unless_refused([&] { value.strings(1 << 20); });
    unless_refused([&] { value.numbers(value.size()); });
  }
  volatile int sum = 0;
  for (const lazyprune::stored_tensor& t : file.tensors())
    if (!t.data.empty()) sum = sum + std::to_integer<int>(t.data.front()) + std::to_integer<int>(t.data.back());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = file_of(text_of({data, size}));
  const bounded_work bounds(size);
  unless_refused([&] {
    std::vector<lazyprune::gguf_file> parts;
    parts.emplace_back(lazyprune::mapped_file(path));
    read_all(parts[0]);
    unless_refused([&] { lazyprune::model_config_of(parts); });
    unless_refused([&] {
      const auto tokens = lazyprune::gguf_tokenizer_of(parts[0], characters);
      if (tokens) never_refused([&] { tokens->decode(tokens->encode("It's a <s>test</s> of 123  words\n\xc3\xa9\xff")); });
    });
  });
  return 0;
}
