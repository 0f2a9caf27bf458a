// SPDX-License-Identifier: MIT
// Tests that the emulated device's operations do what CUDA's manual says. For each kind of fault that the emulated device detects, one test
// has a kernel with this fault.
#include <lazyprune/backend/cuda/device.hpp>

#include <lazyprune/backend/cuda/launch.hpp>
#include <lazyprune/backend/cuda/wgmma.hpp>

#include <doctest/doctest.h>

#include <setjmp.h>
#include <signal.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

using namespace lazyprune;
using device::global;
using device::launch;
using device::shared;
using device::shared_memory;

namespace {

/// An array in device memory, with given numbers, or never written.
template <class T>
class array {
 public:
  explicit array(std::size_t size) : size_(size) { device::check(cudaMalloc(&data_, size * sizeof(T)), "test"); }
  explicit array(const std::vector<T>& numbers) : array(numbers.size()) {
    cudaMemcpyAsync(data_, numbers.data(), size_ * sizeof(T), cudaMemcpyHostToDevice, nullptr);
    cudaDeviceSynchronize();
  }
  array(const array&) = delete;
  array& operator=(const array&) = delete;
  ~array() { cudaFree(data_); }

  T* data() const { return data_; }
  std::vector<T> numbers() const {
    std::vector<T> read(size_);
    cudaMemcpyAsync(read.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost, nullptr);
    cudaDeviceSynchronize();
    return read;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

template <class... Parameters, class... Arguments>
void run(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, std::size_t shared_bytes, Arguments&&... arguments) {
  launch(kernel, {blocks}, {threads}, shared_bytes, nullptr, std::forward<Arguments>(arguments)...);
  cudaDeviceSynchronize();
}

/// Checks that `work` throws a fault that contains `says`. Each of five seeds gives another order of the threads. The fault must be
/// detected in every order, even if only some orders give wrong results.
template <class Work>
void check_fault(const std::string& says, Work work) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u}) {
    emulated::the_device().threads.seed = seed;
    std::string said = "nothing";
    try {
      work();
    } catch (const emulated::fault& f) {
      said = f.what();
    }
    CHECK_MESSAGE(said.find(says) != said.npos, said);
  }
}

__global__ void squares(global<const int> x, global<int> out, int n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (static_cast<int>(i) < n) out[i] = x[i] * x[i];
}

__global__ void indices(global<unsigned> out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}

/// Adds up a block's numbers, by shuffles within a warp and by shared memory between warps.
template <bool Barrier>
__global__ void block_sum(global<const int> x, global<int> out) {
  int sum = x[threadIdx.x];
  for (unsigned by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
  const shared<int> sums = shared_memory<int>(0);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  if (Barrier) __syncthreads();
  if (threadIdx.x != 0) return;
  sum = 0;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += sums[warp];
  out[0] = sum;
}

__global__ void warp_words(global<int> out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = __shfl_sync(0xffffffffu, lane * 10, 7u);
  out[32 + threadIdx.x] = __shfl_down_sync(0xffffffffu, lane, 4u);
  out[64 + threadIdx.x] = static_cast<int>(__ballot_sync(0xffffffffu, lane % 3 == 0));
  out[96 + threadIdx.x] = __any_sync(0xffffffffu, lane == 31) * 2 + __all_sync(0xffffffffu, lane < 31);
}

/// Writes the numbers of the threads, in the order in which they pass a barrier.
__global__ void order(global<unsigned> counter, global<unsigned> out) {
  __syncthreads();
  out[atomicAdd(counter, 1u)] = threadIdx.x;
}

template <bool Ordered>
__global__ void warp_exchange(global<int> out) {
  const shared<int> numbers = shared_memory<int>(0);
  numbers[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (Ordered)
    __syncwarp();
  else
    __shfl_sync(0xffffffffu, 0, 0u);  // the lanes meet, but no memory access is ordered
  out[threadIdx.x] = numbers[threadIdx.x ^ 1u];
}

/// Each block writes its two numbers to `parts`. The last block to finish adds up all of `parts`.
template <bool Releases, bool Acquires>
__global__ void last_block_sums(global<int> parts, global<unsigned> finished, global<int> out) {
  const shared<unsigned> mine = shared_memory<unsigned>(0);
  if (threadIdx.x < 2) parts[blockIdx.x * 2 + threadIdx.x] = static_cast<int>(blockIdx.x + threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) {
    if (Releases) __threadfence();
    mine[0] = atomicAdd(finished, 1u);
    if (Acquires) __threadfence();
  }
  __syncthreads();
  if (mine[0] + 1 != gridDim.x || threadIdx.x != 0) return;
  int sum = 0;
  for (unsigned i = 0; i < 2 * gridDim.x; ++i) sum += parts[i];
  out[0] = sum;
}

/// Each lane of two blocks reads its block's number. Lane `teller` of each block publishes reads by a fence and an atomic. With `All`, a
/// barrier comes first, so the lane publishes the reads of all lanes. Otherwise it publishes only its own read. The block that publishes
/// last writes the other block's number.
template <bool All>
__global__ void last_block_writes(global<int> x, global<unsigned> finished, unsigned teller) {
  const int read = x[blockIdx.x];
  if (All) __syncthreads();
  if (threadIdx.x != teller) return;
  __threadfence();
  const bool last = atomicAdd(finished, 1u) + 1 == gridDim.x;
  __threadfence();
  if (last) x[1 - blockIdx.x] = read + 1;
}

__global__ void write_after_read(global<int> x) {
  const int next = x[(threadIdx.x + 1) % blockDim.x];
  x[threadIdx.x] = next;
}

__global__ void diverging(bool second) {
  if (threadIdx.x < 32)
    __syncthreads();
  else if (second)
    __syncthreads();
}

__global__ void diverging_warp(global<int> out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0u);
}

__global__ void follow(global<const int> from, global<int> to) { to[0] = from[0]; }
__global__ void read_wide(global<const float> from, global<float> to) { to[0] = device::load<float4>(from).x; }
__global__ void read_shared(global<int> out) { out[0] = shared_memory<int>(0)[threadIdx.x]; }
__global__ void write_shared() { shared_memory<int>(0)[threadIdx.x] = 1; }

/// The mistakes that a kernel can make in the layout of a fragment.
enum class mistake { none, a_registers, a_halves, b_registers, b_rows, sum_registers };

template <mistake Made>
__global__ void product(global<const std::uint16_t> a, global<const std::uint16_t> b, global<float> out) {
  const unsigned group = threadIdx.x / 4, pair = threadIdx.x % 4 * 2;
  const auto two = [](global<const std::uint16_t> m, unsigned at) { return m[at] | static_cast<std::uint32_t>(m[at + 1]) << 16; };
  std::uint32_t left[4] = {two(a, group * 16 + pair), two(a, (group + 8) * 16 + pair), two(a, group * 16 + pair + 8),
                           two(a, (group + 8) * 16 + pair + 8)};
  const unsigned column = Made == mistake::b_rows ? threadIdx.x % 8 : group;
  std::uint32_t right[2] = {two(b, column * 16 + pair), two(b, column * 16 + pair + 8)};  // row i of b (8, 16) is column i of mma's b
  if (Made == mistake::a_registers) std::swap(left[1], left[2]);
  if (Made == mistake::a_halves) left[0] = left[0] << 16 | left[0] >> 16;
  if (Made == mistake::b_registers) std::swap(right[0], right[1]);
  float sum[4] = {};
  device::mma(sum, left, right);
  if (Made == mistake::sum_registers) std::swap(sum[1], sum[2]);
  for (unsigned r = 0; r < 4; ++r) out[(group + r / 2 * 8) * 8 + pair + r % 2] = sum[r];
}

/// Multiplies the given fragments, and writes each lane's results.
__global__ void product_of_fragments(global<const std::uint32_t> a, global<const std::uint32_t> b, global<float> out) {
  std::uint32_t left[4], right[2];
  for (unsigned r = 0; r < 4; ++r) left[r] = a[threadIdx.x * 4 + r];
  for (unsigned r = 0; r < 2; ++r) right[r] = b[threadIdx.x * 2 + r];
  float sum[4] = {1, 1, 1, 1};
  device::mma(sum, left, right);
  for (unsigned r = 0; r < 4; ++r) out[threadIdx.x * 4 + r] = sum[r];
}

template <bool Transposed>
__global__ void matrices(global<const std::uint16_t> x, global<std::uint32_t> out, unsigned pitch) {
  const shared<std::uint16_t> rows = shared_memory<std::uint16_t>(0);
  for (unsigned i = 0; i < 8; ++i) rows[threadIdx.x * pitch + i] = x[threadIdx.x * 8 + i];
  __syncwarp();
  std::uint32_t got[4];
  Transposed ? device::ldmatrix_transposed(got, rows + threadIdx.x * pitch) : device::ldmatrix(got, rows + threadIdx.x * pitch);
  for (unsigned r = 0; r < 4; ++r) out[threadIdx.x * 4 + r] = got[r];
}

/// Copies numbers into shared memory in two groups, and reads numbers that another thread has copied.
template <bool Waits, bool Barrier>
__global__ void copied(global<const int> x, global<int> out) {
  const shared<int> there = shared_memory<int>(0);
  const unsigned other = (threadIdx.x + 32) % 64;
  device::copy_async(there + threadIdx.x * 4, x + threadIdx.x * 4, true);
  device::commit_copies();
  device::copy_async(there + 256 + threadIdx.x * 4, x, false);
  device::commit_copies();
  device::wait_for_copies<1>();
  const int own = there[threadIdx.x * 4];
  if (Waits) device::wait_for_copies<0>();
  if (Barrier) __syncthreads();
  out[threadIdx.x] = own + there[other * 4] + there[256 + other * 4 + 3];
}

__global__ void matrix_from_global(global<const std::uint16_t> x) {
  std::uint32_t got[4];
  device::ldmatrix(got, x);
}

/// The mistakes that a kernel can make with the products of a warpgroup.
enum class group_mistake { none, no_fence, no_publication, no_wait, early_write, odd_place, half_a_warpgroup, a_warp_alone };

/// Multiplies a matrix of ones by itself, with one mistake. Writes the sums of the first column.
template <group_mistake Made>
__global__ void group_product(global<float> out) {
  constexpr unsigned rows = 128;
  const shared<std::uint16_t> x = shared_memory<std::uint16_t>(0);
  for (unsigned i = threadIdx.x; i < rows * 64; i += blockDim.x) x[i] = device::round_to_bf16(1);
  if (Made != group_mistake::no_publication) device::wgmma_publish();
  __syncthreads();
  const device::wgmma_operand all(Made == group_mistake::odd_place ? x + 64 : x, rows);
  float d[16][4];
  if (Made != group_mistake::no_fence) device::wgmma_fence();
  device::wgmma(d, all, all, false);
  device::wgmma_commit();
  if (Made == group_mistake::early_write) x[threadIdx.x] = 0;
  if (Made == group_mistake::a_warp_alone && threadIdx.x < 32)
    device::wgmma_wait<0>(d);
  else if (Made != group_mistake::no_wait)
    device::wgmma_wait<0>(d);
  if (threadIdx.x % 4 == 0) out[threadIdx.x / 4] = d[0][0];
}

std::vector<int> counted(std::size_t n) {
  std::vector<int> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// The place of an element in a matrix.
struct place {
  unsigned row, column;
};
// These functions return the place in the matrix a, b or c of element i of a lane's fragment. They are from the PTX manual, "Matrix
// Fragments for mma.m16n8k16 with floating point type", for .bf16.
place a_place(unsigned lane, unsigned i) {
  const unsigned group = lane >> 2, in_group = lane % 4;
  return {i < 2 || (4 <= i && i < 6) ? group : group + 8, i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8};
}
place b_place(unsigned lane, unsigned i) {
  const unsigned group = lane >> 2, in_group = lane % 4;
  return {i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8, group};
}
place c_place(unsigned lane, unsigned i) {
  const unsigned group = lane >> 2, in_group = lane % 4;
  return {i < 2 ? group : group + 8, in_group * 2 + (i & 1)};
}

sigjmp_buf after_fault;
const void* followed = nullptr;

}  // namespace

TEST_CASE("every thread of a grid runs once, with its own indices") {
  const array<int> x(counted(100)), out(100);
  run(squares, 4, 32, 0, x.data(), out.data(), 100);
  const auto numbers = out.numbers();
  for (int i = 0; i < 100; ++i) CHECK(numbers[static_cast<std::size_t>(i)] == i * i);

  const array<unsigned> where(2 * 3 * 2 * 64);
  launch(indices, {2, 3, 2}, {8, 4, 2}, 0, nullptr, where.data());
  cudaDeviceSynchronize();
  const auto places = where.numbers();
  for (unsigned i = 0; i < places.size(); ++i) REQUIRE(places[i] == i / 64 * 1000 + i % 64);
}

TEST_CASE("threads of a block share memory, lanes of a warp shuffle and vote") {
  const array<int> x(counted(256)), out(1), pairs(32), words(128);
  run(block_sum<true>, 1, 256, 8 * sizeof(int), x.data(), out.data());
  CHECK(out.numbers()[0] == 255 * 128);
  run(warp_exchange<true>, 1, 32, 128, pairs.data());
  for (unsigned i = 0; i < 32; ++i) CHECK(pairs.numbers()[i] == static_cast<int>(i ^ 1));
  run(warp_words, 1, 32, 0, words.data());
  const auto got = words.numbers();
  for (unsigned i = 0; i < 32; ++i) {
    CHECK(got[i] == 70);
    CHECK(got[32 + i] == static_cast<int>(i < 28 ? i + 4 : i));
    CHECK(static_cast<unsigned>(got[64 + i]) == 0x49249249u);
    CHECK(got[96 + i] == 2);
  }
}

TEST_CASE("the order of threads follows from a seed") {
  const auto order_of = [](std::uint64_t seed) {
    emulated::the_device().threads.seed = seed;
    const array<unsigned> counter(std::vector<unsigned>{0}), out(64);
    run(order, 1, 64, 0, counter.data(), out.data());
    return out.numbers();
  };
  std::set<std::vector<unsigned>> orders;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    orders.insert(order_of(seed));
    CHECK(order_of(seed) == order_of(seed));
  }
  CHECK(orders.size() == 20);
}

TEST_CASE("a launch without blocks does nothing, and a launch that no device allows is a fault") {
  run(diverging, 0, 32, 0, true);
  check_fault("a launch of blocks of 2048 threads", [] { run(diverging, 1, 2048, 0, true); });
  check_fault("a launch of blocks of 33 threads", [] { run(diverging, 1, 33, 0, true); });
}

TEST_CASE("streams do their work in order, when the host waits for it") {
  const array<int> x(1), out(1);
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  int number = 1, read = 0;
  cudaMemcpyAsync(x.data(), &number, sizeof number, cudaMemcpyHostToDevice, stream);
  launch(squares, {1}, {32}, 0, stream, x.data(), out.data(), 1);
  cudaMemcpyAsync(&read, out.data(), sizeof read, cudaMemcpyDeviceToHost, stream);
  number = 7;  // the copy has not read it yet
  CHECK(read == 0);
  cudaStreamSynchronize(stream);
  CHECK(read == 49);
  cudaStreamDestroy(stream);
}

TEST_CASE("device memory is allocated until none is left, and freed memory can be allocated again") {
  emulated::memory& m = emulated::the_device().store;
  const std::size_t held = m.held();
  m.capacity = held + 1000;
  void *a = nullptr, *b = nullptr;
  CHECK(cudaMalloc(&a, 600) == cudaSuccess);
  CHECK(cudaMalloc(&b, 600) == cudaErrorMemoryAllocation);
  CHECK(cudaFree(a) == cudaSuccess);
  CHECK(cudaMalloc(&b, 600) == cudaSuccess);
  CHECK(m.held() == held + 600);
  cudaFree(b);
  m.capacity = std::size_t{32} << 30;
}

TEST_CASE("mma multiplies by the manual's fragments") {
  std::vector<std::uint32_t> a(32 * 4), b(32 * 2);
  float left[16][16], right[16][8];
  const auto number = [](unsigned i) { return static_cast<float>(static_cast<int>(i * 37 % 61) - 30); };  // exact in bf16
  for (unsigned i = 0; i < 256; ++i) left[i / 16][i % 16] = number(i);
  for (unsigned i = 0; i < 128; ++i) right[i / 8][i % 8] = number(i + 1000);
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned i = 0; i < 8; ++i)
      a[lane * 4 + i / 2] |= static_cast<std::uint32_t>(bf16_of_float(left[a_place(lane, i).row][a_place(lane, i).column])) << i % 2 * 16;
    for (unsigned i = 0; i < 4; ++i)
      b[lane * 2 + i / 2] |= static_cast<std::uint32_t>(bf16_of_float(right[b_place(lane, i).row][b_place(lane, i).column])) << i % 2 * 16;
  }
  const array<std::uint32_t> a_there(a), b_there(b);
  const array<float> out(128);
  run(product_of_fragments, 1, 32, 0, a_there.data(), b_there.data(), out.data());
  const auto got = out.numbers();
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 4; ++i) {
      const auto [row, column] = c_place(lane, i);
      float exact = 1;
      for (unsigned k = 0; k < 16; ++k) exact += left[row][k] * right[k][column];
      CHECK(got[lane * 4 + i] == exact);
    }
  // Compare with the corners of the figures in the manual.
  CHECK(a_place(31, 7).row == 15);
  CHECK(a_place(31, 7).column == 15);
  CHECK(a_place(4, 2).row == 9);
  CHECK(a_place(1, 4).column == 10);
  CHECK(b_place(31, 3).row == 15);
  CHECK(b_place(5, 0).column == 1);
  CHECK(c_place(31, 3).column == 7);
}

TEST_CASE("planted: a wrong fragment layout") {
  std::vector<std::uint16_t> a(256), b(128);
  for (unsigned i = 0; i < 256; ++i) a[i] = bf16_of_float(static_cast<float>(i % 19));
  for (unsigned i = 0; i < 128; ++i) b[i] = bf16_of_float(static_cast<float>(i % 23));
  const array<std::uint16_t> a_there(a), b_there(b);
  const array<float> out(128);
  const auto wrong = [&] {
    std::size_t count = 0;
    const auto got = out.numbers();
    for (unsigned i = 0; i < 128; ++i) {
      float exact = 0;
      for (unsigned k = 0; k < 16; ++k) exact += float_of_bf16(a[i / 8 * 16 + k]) * float_of_bf16(b[i % 8 * 16 + k]);
      count += got[i] != exact;
    }
    return count;
  };
  const auto count_wrong = [&](auto kernel) {
    run(kernel, 1, 32, 0, a_there.data(), b_there.data(), out.data());
    return wrong();
  };
  CHECK(count_wrong(product<mistake::none>) == 0);
  CHECK(count_wrong(product<mistake::a_registers>) > 0);
  CHECK(count_wrong(product<mistake::a_halves>) > 0);
  CHECK(count_wrong(product<mistake::b_registers>) > 0);
  CHECK(count_wrong(product<mistake::b_rows>) > 0);
  CHECK(count_wrong(product<mistake::sum_registers>) > 0);
}

TEST_CASE("ldmatrix distributes the rows of four matrices, or their columns") {
  std::vector<std::uint16_t> x(256);
  std::iota(x.begin(), x.end(), std::uint16_t{0});  // matrix m, row r, column c holds 64 m + 8 r + c
  const array<std::uint16_t> x_there(x);
  const array<std::uint32_t> out(128);
  run(matrices<false>, 1, 32, 32 * 16, x_there.data(), out.data(), 8u);
  auto got = out.numbers();
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned m = 0; m < 4; ++m) {
      const unsigned first = 64 * m + 8 * (lane / 4) + 2 * (lane % 4);
      CHECK(got[lane * 4 + m] == (first | (first + 1) << 16));
    }
  run(matrices<true>, 1, 32, 32 * 16, x_there.data(), out.data(), 8u);
  got = out.numbers();
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned m = 0; m < 4; ++m) {
      const unsigned row = 2 * (lane % 4), column = lane / 4;
      CHECK(got[lane * 4 + m] == ((64 * m + 8 * row + column) | (64 * m + 8 * (row + 1) + column) << 16));
    }
  check_fault("no multiple", [&] { run(matrices<false>, 1, 32, 32 * 24, x_there.data(), out.data(), 12u); });
  check_fault("not in shared memory", [&] { run(matrix_from_global, 1, 32, 0, x_there.data()); });
}

TEST_CASE("a thread sees its copies into shared memory after a wait, and other threads' copies after a barrier") {
  const array<int> x(counted(256)), out(64);
  run(copied<true, true>, 1, 64, 2048, x.data(), out.data());
  const auto got = out.numbers();
  for (int i = 0; i < 64; ++i) CHECK(got[static_cast<std::size_t>(i)] == i * 4 + (i + 32) % 64 * 4);
  check_fault("never written", [&] { run(copied<false, true>, 1, 64, 2048, x.data(), out.data()); });
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {  // the fault is a read of unwritten numbers, or a race
    emulated::the_device().threads.seed = seed;
    CHECK_THROWS_AS(run(copied<true, false>, 1, 64, 2048, x.data(), out.data()), emulated::fault);
  }
}

TEST_CASE("blocks exchange numbers by fences and atomics") {
  const array<int> parts(16), out(1);
  const array<unsigned> finished(std::vector<unsigned>{0});
  run(last_block_sums<true, true>, 8, 32, 4, parts.data(), finished.data(), out.data());
  CHECK(out.numbers()[0] == 28 * 2 + 8);
}

TEST_CASE("planted: an atomic without a fence before or after it") {
  const auto races = [](auto kernel) {
    check_fault("a race with the write", [kernel] {
      const array<int> parts(16), out(1);
      const array<unsigned> finished(std::vector<unsigned>{0});
      run(kernel, 8, 32, 4, parts.data(), finished.data(), out.data());
    });
  };
  races(last_block_sums<false, true>);
  races(last_block_sums<true, false>);
  races(last_block_sums<false, false>);
}

TEST_CASE("planted: one thread's fence, which does not cover the reads of other threads without a barrier") {
  const auto written = [](auto kernel, unsigned teller) {
    const array<int> x(std::vector<int>(2, 7));
    const array<unsigned> finished(std::vector<unsigned>{0});
    run(kernel, 2, 32, 0, x.data(), finished.data(), teller);
    return x.numbers()[0] + x.numbers()[1];
  };
  for (unsigned teller = 0; teller < 32; ++teller) {  // one of these lanes is the last to read
    CHECK(written(last_block_writes<true>, teller) == 7 + 8);
    check_fault("a race with the read", [&] { written(last_block_writes<false>, teller); });
  }
}

TEST_CASE("planted: a missing barrier") {
  const array<int> x(counted(256)), out(32);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {  // the order of warps decides whether thread 0 reads unwritten numbers or has a race
    emulated::the_device().threads.seed = seed;
    CHECK_THROWS_AS(run(block_sum<false>, 1, 256, 8 * sizeof(int), x.data(), out.data()), emulated::fault);
  }
  check_fault("a race with the", [&] { run(warp_exchange<false>, 1, 32, 128, out.data()); });
  check_fault("a race with the", [&] { run(write_after_read, 1, 64, 0, x.data()); });
}

TEST_CASE("planted: an index past the end, and freed memory") {
  const array<int> x(counted(100)), out(100);
  check_fault("of 400: out of bounds", [&] { run(squares, 4, 32, 0, x.data(), out.data(), 101); });
  int* gone = nullptr;
  cudaMalloc(&gone, 128);
  cudaFree(gone);
  check_fault("out of bounds", [&] { run(follow, 1, 32, 0, gone, out.data()); });
  run(write_shared, 1, 64, 256);
  check_fault("out of bounds", [&] { run(write_shared, 1, 64, 252); });
  check_fault("out of bounds", [&] {
    int numbers[101];
    cudaMemcpyAsync(numbers, x.data(), sizeof numbers, cudaMemcpyDeviceToHost, nullptr);
    cudaDeviceSynchronize();
  });
}

TEST_CASE("planted: divergent barriers") {
  check_fault("divergent barriers", [] { run(diverging, 1, 64, 0, true); });
  check_fault("threads wait for others that never come", [] { run(diverging, 1, 64, 0, false); });
  const array<int> out(32);
  check_fault("threads wait for others that never come", [&] { run(diverging_warp, 1, 32, 0, out.data()); });
}

TEST_CASE("planted: memory that was never written") {
  const array<int> nothing(1), out(1);
  check_fault("never written", [&] { run(follow, 1, 32, 0, nothing.data(), out.data()); });
  check_fault("never written", [&] { run(read_shared, 1, 32, 128, out.data()); });
  check_fault("never written", [&] { nothing.numbers(); });
}

TEST_CASE("the emulated device has wgmma unless a test says otherwise") {
  CHECK(device::kernels_have_wgmma());
  emulated::the_device().wgmma = false;
  CHECK(!device::kernels_have_wgmma());
  emulated::the_device().wgmma = true;
}

TEST_CASE("planted: products of a warpgroup without a fence, a publication or a wait, at a wrong place, or not by the whole warpgroup") {
  const array<float> out(32);
  const auto run_product = [&](auto kernel, unsigned threads = 128) { run(kernel, 1, threads, 128 * 128, out.data()); };
  run_product(group_product<group_mistake::none>);
  for (const float sum : out.numbers()) CHECK(sum == 16);
  check_fault("wgmma without a fence", [&] { run_product(group_product<group_mistake::no_fence>); });
  check_fault("not published to products", [&] { run_product(group_product<group_mistake::no_publication>); });
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {  // the fault is a read of what is not published, or a race
    emulated::the_device().threads.seed = seed;
    CHECK_THROWS_AS(run_product(group_product<group_mistake::early_write>), emulated::fault);
  }
  check_fault("ends before its products", [&] { run_product(group_product<group_mistake::no_wait>); });
  check_fault("a multiple of 1024 bytes", [&] { run_product(group_product<group_mistake::odd_place>); });
  check_fault("a divergent warpgroup", [&] { run_product(group_product<group_mistake::a_warp_alone>); });
  check_fault("not whole warpgroups", [&] { run_product(group_product<group_mistake::half_a_warpgroup>, 64); });
}

TEST_CASE("planted: a misaligned address") {
  const array<float> x(std::vector<float>(8)), out(8);
  check_fault("no multiple", [&] { run(read_wide, 1, 32, 0, x.data() + 1, out.data()); });
}

TEST_CASE("planted: a host pointer in a kernel") {
  const array<int> out(1);
  const int here = 1;
  check_fault("an address of the host", [&] { run(follow, 1, 32, 0, &here, out.data()); });
  check_fault("a pointer of the host", [&] {
    cudaMemcpyAsync(out.data(), &here, 4, cudaMemcpyDeviceToDevice, nullptr);
    cudaDeviceSynchronize();
  });
}

TEST_CASE("planted: a device pointer on the host") {
  const array<int> x(counted(8));
  check_fault("on the host", [&] { static_cast<void>(static_cast<int>(global<int>(x.data())[0])); });

  struct sigaction action {
  }, old_segv, old_bus;
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    followed = info->si_addr;
    siglongjmp(after_fault, 1);
  };
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &old_segv);
  sigaction(SIGBUS, &action, &old_bus);
  volatile bool read = false;
  if (sigsetjmp(after_fault, 1) == 0) {
    const volatile int* there = x.data() + 3;
    static_cast<void>(*there);
    read = true;
  }
  sigaction(SIGSEGV, &old_segv, nullptr);
  sigaction(SIGBUS, &old_bus, nullptr);
  CHECK(!read);
  CHECK(followed == x.data() + 3);
}
