// SPDX-License-Identifier: MIT
// Contexts with streams, devices and allocators of the caller's.
#include <lazyprune/backend/cuda/work_order.hpp>

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <thread>
#include <vector>

#include <backend/samples.hpp>
#include <fault.hpp>
#include <lazyprune/backend/cuda.hpp>
#include <tested_device.hpp>

#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

/// A stream of the caller's.
class own_stream {
 public:
  own_stream() { device::check(cudaStreamCreateWithFlags(&made_, cudaStreamNonBlocking), "stream"); }
  own_stream(const own_stream&) = delete;
  own_stream& operator=(const own_stream&) = delete;
  ~own_stream() { cudaStreamDestroy(made_); }
  cudaStream_t get() const { return made_; }

 private:
  cudaStream_t made_ = nullptr;
};

execution on(const own_stream& stream) {
  execution e;
  e.cuda.stream = stream.get();
  return e;
}

/// Counts what an allocator gives and takes.
struct counted_memory {
  std::map<void*, std::size_t> held;
  std::size_t given = 0, most = SIZE_MAX;

  execution settings() {
    execution e;
    e.cuda.allocator = {[](void* user, std::size_t bytes, void* stream) -> void* {
                          auto& all = *static_cast<counted_memory*>(user);
                          void* memory = nullptr;
                          if (bytes > all.most || cudaMallocAsync(&memory, bytes, static_cast<cudaStream_t>(stream)) != cudaSuccess)
                            return nullptr;
                          all.held[memory] = bytes;
                          ++all.given;
                          return memory;
                        },
                        [](void* user, void* memory, std::size_t bytes, void* stream) {
                          auto& all = *static_cast<counted_memory*>(user);
                          CHECK(all.held.at(memory) == bytes);
                          all.held.erase(memory);
                          cudaFreeAsync(memory, static_cast<cudaStream_t>(stream));
                        },
                        this};
    return e;
  }
};

constexpr std::size_t rows = 3, columns = 40;

/// Doubles rows on the device: out += x.
void twice(cuda_backend& backend, on_device<float>& x, on_device<float>& out) {
  backend.add({x.data(), rows, columns, columns}, {out.data(), rows, columns, columns});
}

}  // namespace

TEST_CASE("contexts with streams of their own see each other's work, in the order in which it was queued") {
  const own_stream first, second;
  cuda_backend one(on(first)), two(on(second)), other;
  const auto numbers = normal_floats(rows * columns, 1);
  on_device<float> a(numbers), b(numbers);
  std::vector<float> expected = numbers, sums = numbers;
  cuda_backend* const all[] = {&one, &two, &other};
  for (int i = 0; i < 12; ++i) {  // a += b, b += a: each needs the result of the one before it
    twice(*all[i % 3], i % 2 ? a : b, i % 2 ? b : a);
    for (std::size_t n = 0; n < expected.size(); ++n) (i % 2 ? sums : expected)[n] += (i % 2 ? expected : sums)[n];
  }
  CHECK(a.numbers() == expected);
  CHECK(b.numbers() == sums);
}

TEST_CASE("an operation waits for one that began before the operation's stream was used last") {
  const own_stream first, second;
  cuda_backend one(on(first)), two(on(second));
  const auto numbers = normal_floats(rows * columns, 1);
  for (int again = 0; again < 20; ++again) {
    on_device<float> a(numbers), b(rows * columns), c(numbers), other(numbers);
    one.in_one_team([&] {
      const cudaStream_t stream = device::stream();
      std::thread([&] { twice(two, other, other); }).join();
      cudaMemcpyAsync(b.data(), a.data(), numbers.size() * sizeof(float), cudaMemcpyDeviceToDevice, stream);
    });
    twice(two, b, c);
    const auto found = c.numbers();
    for (std::size_t n = 0; n < found.size(); ++n) REQUIRE(found[n] == numbers[n] + numbers[n]);
  }
}

TEST_CASE("a context's work is in its stream, where work that the caller queues comes after it") {
  const own_stream mine;
  cuda_backend backend(on(mine));
  const auto numbers = normal_floats(rows * columns, 1);
  on_device<float> x(numbers), out(numbers);
  twice(backend, x, out);
  std::vector<float> found(numbers.size());
  cudaMemcpyAsync(found.data(), out.data(), found.size() * sizeof(float), cudaMemcpyDeviceToHost, mine.get());
  cudaStreamSynchronize(mine.get());
  for (std::size_t n = 0; n < found.size(); ++n) REQUIRE(found[n] == numbers[n] + numbers[n]);
}

TEST_CASE("selections are in their context's stream and use its allocator's memory, though another context computes between them") {
  const own_stream mine;
  counted_memory memory;
  execution e = memory.settings();
  e.cuda.stream = mine.get();
  cuda_backend backend(e), other;
  const std::vector<position> tokens{0, 1, 2, 3, 4, 5, 6, 7}, last{7};
  const std::vector<float> scores{3, 9, 1, 8, 0, 2, 7, 4};
  on_device<float> k(scores), q(std::vector<float>{1}), x(scores), a(normal_floats(rows * columns, 1));
  cuda_backend::kv_layer kv(1, 1);
  cuda_backend::operand out(1);
  out.prepare(1, dtype::f32);
  const rows_view<float> keys{k.data(), 8, 1, 1}, carried{x.data(), 8, 1, 1};
  const std::vector<candidacy> standing(8, candidacy::open);
  const std::vector<selection_size> sizes{{8, 3}};
  backend.put(kv, tokens, keys, keys);
  const attention_probe probe{.queries = 1, .stride = 8, .over_heads = head_reduction::mean};
  backend.attend(rows_view<const float>{q.data(), 1, 1, 1}, kv, {{1, 1, 1}, last, tokens, tokens}, out, 0, probe);
  twice(other, a, a);
  backend.begin_choices(tokens, standing, 1, sizes);
  twice(other, a, a);
  backend.choose();
  twice(other, a, a);
  cuda_backend::row_store store(1);
  const std::vector<std::uint32_t> slots{0, 1, 2, 3, 4};
  backend.store_dropped(carried, store, slots);
  twice(other, a, a);
  backend.take_chosen(carried);
  std::vector<float> found(3);
  cudaMemcpyAsync(found.data(), x.data(), found.size() * sizeof(float), cudaMemcpyDeviceToHost, mine.get());
  cudaStreamSynchronize(mine.get());
  CHECK(found == std::vector<float>{9, 8, 7});
  CHECK(numbers_at(static_cast<const float*>(store.row(4)), 1) == std::vector<float>{4});
  twice(other, a, a);
  std::vector<made_choice> made;
  backend.read_choices(made);
  REQUIRE(made.size() == 1);
  CHECK(std::vector(made[0].chosen.begin(), made[0].chosen.end()) == std::vector<std::uint32_t>{1, 3, 6});
  std::size_t bytes = 0;
  for (const auto& block : memory.held) bytes += block.second;
  CHECK(bytes == backend.bytes() + kv.bytes() + store.bytes());
}

TEST_CASE("a stream may end after its context, and memory of the context after the stream") {
  std::optional<own_stream> mine(std::in_place);
  std::optional<cuda_backend> backend(std::in_place, on(*mine));
  cuda_backend::kv_layer kv(2, 20);
  const std::vector<std::uint32_t> slots{0, 1, 2};
  on_device<float> k(normal_floats(rows * columns, 1));
  const rows_view<const float> keys{k.data(), rows, columns, columns};
  backend->put(kv, slots, keys, keys);
  backend.reset();
  mine.reset();
  cuda_backend other;
  std::vector<float> found(rows * columns);
  other.read_keys(kv, slots, found.data());
  CHECK(found == k.numbers());
}

TEST_CASE("a context that was used before waits for the work of one that has ended") {
  const auto numbers = normal_floats(rows * columns, 1);
  for (int again = 0; again < 20; ++again) {
    const own_stream first, second;
    std::optional<cuda_backend> one(std::in_place, on(first));
    cuda_backend two(on(second));
    on_device<float> x(numbers), doubled(numbers), sum(numbers), other(numbers);
    twice(two, other, other);
    for (int more = 0; more < 6; ++more) twice(*one, other, other);
    twice(*one, x, doubled);
    one.reset();
    twice(two, doubled, sum);
    std::vector<float> found(numbers.size());
    two.read({sum.data(), rows, columns, columns}, found.data());
    for (std::size_t n = 0; n < found.size(); ++n) REQUIRE(found[n] == numbers[n] + (numbers[n] + numbers[n]));
  }
}

TEST_CASE("a stream that gets the address of an earlier one is waited for, too") {
  const auto numbers = normal_floats(rows * columns, 1);
  cuda_backend other;
  on_device<float> x(numbers), out(numbers);
  std::vector<float> a = numbers, b = numbers;
  for (int again = 0; again < 20; ++again) {
    const own_stream mine;
    cuda_backend backend(on(mine));
    twice(backend, x, out);
    twice(backend, x, out);
    twice(other, out, x);
    for (std::size_t n = 0; n < a.size(); ++n) {
      b[n] += a[n];
      b[n] += a[n];
      a[n] += b[n];
    }
  }
  CHECK(x.numbers() == a);
}

TEST_CASE("a device that does not exist, and a second device of a process, are refused") {
  const several_devices devices;
  cuda_backend backend;
  execution e;
  e.cuda.device = 1000;
  CHECK(error_of([&] { cuda_backend{e}; }) == at("cuda: device", {"below ", ", found 1000"}));
  e.cuda.device = -1;
  CHECK(error_of([&] { cuda_backend{e}; }) == at("cuda: device", {", found -1"}));
  if (!devices.exist()) return;
  e.cuda.device = 1;
  CHECK(error_of([&] { cuda_backend{e}; }) == unsupported("cuda: device", {"device 0, on which this process computes", ", found 1"}));
}

TEST_CASE("a thread whose current device is another one computes on the context's device, and keeps its current device") {
  const several_devices devices;
  if (!devices.exist()) {
    MESSAGE("skipped: the machine has one device");
    return;
  }
  cuda_backend backend;
  const auto numbers = normal_floats(rows * columns, 1);
  on_device<float> x(numbers), out(numbers);
  fault said{};
  int after = -1;
  std::vector<float> found(numbers.size());
  std::thread([&] {
    cudaSetDevice(1);
    twice(backend, x, out);
    backend.read({out.data(), rows, columns, columns}, found.data());
    cudaGetDevice(&after);
    said = error_of([] { cuda_backend{}; });  // its device would be this thread's
    execution e;
    e.cuda.device = 0;
    cuda_backend explicit_device(e);
    twice(explicit_device, x, out);
    device::synchronize();
  }).join();
  CHECK(after == 1);
  CHECK(said == unsupported("cuda: device", {"device 0", ", found 1"}));
  for (std::size_t n = 0; n < found.size(); ++n) REQUIRE(found[n] == numbers[n] + numbers[n]);
  CHECK(out.numbers()[0] == numbers[0] + numbers[0] + numbers[0]);
}

TEST_CASE("an allocator gets back all memory that it gave, and gives all memory of its context") {
  counted_memory memory;
  {
    cuda_backend backend(memory.settings());
    cuda_backend::buffer buffer(columns);
    buffer.reserve(rows);
    CHECK(memory.held.size() == 1);
    const auto w = backend.pack(only(stored(normal_floats(columns * columns, 1), columns, columns, dtype::f32)), dtype::bf16);
    cuda_backend::operand x(columns);
    backend.prepare(x, rows, w);
    backend.write(normal_floats(rows * columns, 2).data(), buffer.view());
    backend.pack_rows(buffer.view(), x);
    backend.multiply(x, w, nullptr, buffer.view());
    cuda_backend::kv_layer kv(2, 20);
    const std::vector<std::uint32_t> slots{0, 1, 2};
    const rows_view<float> numbers = buffer.view();
    backend.put(kv, slots, numbers, numbers);
    auto copy = kv;
    backend.put(copy, slots, numbers, numbers);
    std::size_t bytes = 0;
    for (const auto& block : memory.held) bytes += block.second;
    CHECK(bytes == backend.bytes() + buffer.bytes() + w.bytes() + x.bytes() + kv.bytes() + copy.bytes());
    memory.most = 1000;
    CHECK(error_of([&] { buffer.reserve(1000); }) == at("cuda: activations", {"160000 bytes", "allocator"}, error_code::no_memory));
    cuda_backend::buffer moved(std::move(buffer));
  }
  device::synchronize();
  CHECK(memory.held.empty());
  CHECK(memory.given > 5);
  const std::size_t given = memory.given;
  cuda_backend other;
  on_device<float> elsewhere(normal_floats(10, 1));
  CHECK(memory.given == given);
}
