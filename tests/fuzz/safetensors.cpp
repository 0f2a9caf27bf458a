// SPDX-License-Identifier: MIT
// The input is a safetensors file. Reading it reports an error, or gives tensors that lie in the file and fill it.
#include <lazyprune/files/safetensors.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include "fuzzed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lazyprune_test;
  const std::string path = file_of(text_of({data, size}));
  const bounded_work bounds(size);
  unless_refused([&] {
    const lazyprune::safetensors_file file{lazyprune::mapped_file(path)};
    std::size_t bytes = 0;
    volatile int sum = 0;
    for (const lazyprune::stored_tensor& t : file.tensors()) {
      must(file.find(t.name) == &t, "a tensor is found by its name");
      bytes += t.data.size();
      if (!t.data.empty()) sum = sum + std::to_integer<int>(t.data.front()) + std::to_integer<int>(t.data.back());
    }
    must(bytes < size, "the tensors lie in the file, after the header");
  });
  return 0;
}
