// SPDX-License-Identifier: MIT
// The part of the emulated device that runs kernels. Blocks run one after another, in a random order. The threads of a block are fibers.
// Between two points at which threads wait for each other, they run in a random order.
#pragma once

#include <array>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <new>

#include "fiber.hpp"
#include "memory.hpp"

namespace emulated {

struct index3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr unsigned long long count() const { return static_cast<unsigned long long>(x) * y * z; }
};

inline constexpr unsigned lanes = 32, most_threads = 1024;

/// The place in the source at which a thread waits.
struct site {
  const char* file;
  int line;
  friend bool operator==(const site& a, const site& b) {
    return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
  }
};

/// An operation that all lanes of a warp do together. It computes each lane's result from the operands of all lanes.
template <class Operand, class Result>
using meeting = void (*)(const std::array<Operand, lanes>&, std::array<Result, lanes>&);

struct thread;

/// A warp, with the operands and the results of two meetings. A lane may reach the next meeting before another lane has read its result of
/// the current one. But no lane can be two meetings ahead, so two copies are enough.
struct warp {
  static constexpr std::size_t most_bytes = 256;  // the largest operand or result of a lane

  moment since = 0;  // when the last __syncwarp was
  unsigned arrived = 0;
  unsigned parity = 0;
  void (*about)() = nullptr;
  site where{};
  alignas(16) std::byte brought[2][lanes * most_bytes];
  alignas(16) std::byte got[2][lanes * most_bytes];
  std::array<thread*, lanes> ready{};
  unsigned ready_count = 0;
};

struct thread {
  enum class state { ready, at_barrier, at_meeting, done };

  std::unique_ptr<fiber> runs;
  index3 index{};
  unsigned number = 0;
  emulated::warp* warp = nullptr;
  state is = state::done;
  site where{};
  knowledge knows{};
  release fenced{};            // the accesses that its last fence covers; all members are 0 before the first fence
  std::vector<release> met{};  // the releases that its atomics have found; the next fence acquires them

  /// An asynchronous copy of 16 bytes into shared memory.
  struct copy {
    std::uintptr_t to;
    std::array<std::uint64_t, 2> bytes;
  };
  std::vector<copy> copies{};                   // started, but not yet in a group
  std::deque<std::vector<copy>> copy_groups{};  // the oldest group is first

  /// An asynchronous product. It is computed only when the thread waits for it.
  using product = std::function<void()>;
  std::vector<product> products{};
  std::deque<std::vector<product>> product_groups{};
  bool may_multiply = false;   // wgmma_fence was called since the last wait
  std::size_t calls = 0;       // of the functions that a warpgroup calls together
  moment published_until = 0;  // products see what this thread wrote to shared memory before
};

/// Runs the grids of the device, one block at a time.
class grid {
 public:
  explicit grid(memory& of) : memory_(of) {}

  static constexpr std::size_t most_shared = 227 * 1024;  // bytes: the most for a block on compute capability 9.0

  std::uint64_t seed = 1;

  /// Runs `kernel` in this grid. If a thread throws an exception, the grid ends and this function throws the exception.
  void run(index3 blocks, index3 threads, std::size_t shared_bytes, std::function<void()> kernel) {
    const auto count = static_cast<unsigned>(threads.count());
    if (blocks.count() == 0 || blocks.count() >= 1u << 20 || blocks.y > 65535 || blocks.z > 65535)
      throw fault("a launch of " + std::to_string(blocks.count()) + " blocks");
    if (count == 0 || count > most_threads || count % lanes != 0)
      throw fault("a launch of blocks of " + std::to_string(count) + " threads");
    if (shared_bytes > most_shared) throw fault("a launch with " + std::to_string(shared_bytes) + " bytes of shared memory");
    kernel_ = std::move(kernel);
    blocks_ = blocks;
    block_threads_ = threads;
    if (!shared_) {
      shared_ = memory_.allocate(most_shared);
      shared_bytes_ = most_shared;
    }
    if (shared_bytes < shared_bytes_) memory_.fence_off(shared_ + shared_bytes, shared_bytes_ - shared_bytes);
    shared_bytes_ = shared_bytes;
    memory_.belongs_to_block(shared_, shared_bytes_);
    launch_since_ = memory_.tick();
    releases_.clear();
    std::vector<std::uint32_t> order(blocks.count());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    for (std::uint32_t i = static_cast<std::uint32_t>(order.size()); i > 1; --i) std::swap(order[i - 1], order[random(i)]);
    for (const std::uint32_t block : order) run_block(block, count);
  }

  // The following functions are the operations of a running thread.

  inline static thread* running = nullptr;

  index3 block_index() const { return block_index_; }
  index3 block_threads() const { return block_threads_; }
  index3 blocks() const { return blocks_; }
  memory& of() const { return memory_; }
  std::size_t shared_bytes() const { return shared_bytes_; }
  std::uintptr_t shared_at(std::size_t offset) const { return shared_ + offset; }
  bool is_shared(std::uintptr_t at) const { return at - shared_ < shared_bytes_; }

  void barrier(site where) {
    thread& me = *running;
    if (arrived_ > 0 && !(barrier_ == where))
      throw fault("divergent barriers: " + place(me.number, where) + ", while others wait at " + text(barrier_));
    barrier_ = where;
    if (++arrived_ < count_) return wait(thread::state::at_barrier, where);
    arrived_ = 0;
    block_since_ = memory_.tick();
    for (unsigned i = 0; i < count_; ++i) {
      thread& t = threads_[i];
      acquired_.insert(acquired_.end(), t.knows.own.begin(), t.knows.own.end());
      t.knows.own.clear();
      if (&t != &me) wake(t);
    }
  }

  /// Lets the running lane wait for the other lanes of its warp. The last lane that arrives computes the results of all lanes. All lanes
  /// must arrive at the same place in the source, for the same operation.
  template <class Operand, class Result>
  Result meet(meeting<Operand, Result> about, const Operand& mine, site where) {
    static_assert(sizeof(Operand) <= warp::most_bytes && sizeof(Result) <= warp::most_bytes);
    thread& me = *running;
    emulated::warp& all = *me.warp;
    if (all.arrived > 0 && (all.about != reinterpret_cast<void (*)()>(about) || !(all.where == where)))
      throw fault("a divergent warp: " + place(me.number, where) + ", while others of its lanes wait at " + text(all.where));
    all.about = reinterpret_cast<void (*)()>(about);
    all.where = where;
    const unsigned lane = me.number % lanes, parity = all.parity;
    std::memcpy(all.brought[parity] + lane * sizeof(Operand), &mine, sizeof(Operand));
    if (++all.arrived < lanes) {
      wait(thread::state::at_meeting, where);
    } else {
      about(*std::launder(reinterpret_cast<const std::array<Operand, lanes>*>(all.brought[parity])),
            *std::launder(reinterpret_cast<std::array<Result, lanes>*>(all.got[parity])));
      all.arrived = 0;
      all.parity ^= 1;
      const unsigned first = me.number - lane;
      for (unsigned i = first; i < first + lanes; ++i)
        if (i != me.number) wake(threads_[i]);
    }
    Result result;
    std::memcpy(&result, all.got[parity] + lane * sizeof(Result), sizeof result);
    return result;
  }

  /// Makes the accesses of the running thread's warp visible to all its lanes.
  void warp_is_ordered() { running->warp->since = memory_.tick(); }

  void fence() {
    thread& me = *running;
    me.knows.own.insert(me.knows.own.end(), me.met.begin(), me.met.end());
    me.met.clear();
    me.fenced = {me.knows.who, block_since_, memory_.tick()};
  }

  void copy_async(std::uintptr_t to, std::uintptr_t from, bool there) {
    thread& me = *running;
    if (!is_shared(to)) throw fault("a copy into shared memory: its destination is other memory");
    me.copies.push_back({to, {}});
    if (there) me.copies.back().bytes = memory_.read<sixteen>(from, me.knows).words;
    memory_.begin_write<sizeof(sixteen)>(to, me.knows);
  }
  void commit_copies() {
    running->copy_groups.push_back(std::move(running->copies));
    running->copies.clear();
  }
  void wait_for_copies(std::size_t but) {
    auto& groups = running->copy_groups;
    for (; groups.size() > but; groups.pop_front())
      for (const thread::copy& c : groups.front()) memory_.write(c.to, sixteen{c.bytes}, running->knows);
  }

  /// Checks that all threads of the running warpgroup make the same calls. A later thread is compared with the first one that came so far.
  void call_together(site where) {
    thread& me = *running;
    std::vector<site>& calls = calls_of_groups_[me.number / (4 * lanes)];
    if (me.calls == calls.size()) calls.push_back(where);
    const site first = calls[me.calls++];
    if (!(first == where)) throw fault("a divergent warpgroup: " + place(me.number, where) + ", while others have come to " + text(first));
  }
  void fence_products() { running->may_multiply = true; }
  void publish_to_products() { running->published_until = memory_.tick(); }
  void begin_product(thread::product compute) {
    if (block_threads_.count() % (4 * lanes) != 0) throw fault("wgmma in a block that is not whole warpgroups");
    if (!running->may_multiply) throw fault("wgmma without a fence before it");
    running->products.push_back(std::move(compute));
  }
  void commit_products() {
    running->product_groups.push_back(std::move(running->products));
    running->products.clear();
  }
  void wait_for_products(std::size_t but) {
    running->may_multiply = false;  // the thread may change the registers of the products that have ended
    auto& groups = running->product_groups;
    for (; groups.size() > but; groups.pop_front())
      for (const thread::product& compute : groups.front()) compute();
  }

  /// Reads 16 bytes of shared memory for a product. Throws `fault` if the thread that wrote them has not published them to products.
  template <class Sixteen>
  Sixteen read_for_product(std::uintptr_t at) {
    static_assert(sizeof(Sixteen) == sizeof(sixteen));
    if (!is_shared(at)) throw fault("wgmma: an operand that is not in shared memory");
    if (memory_.checks)
      for (std::uintptr_t number = at; number < at + sizeof(Sixteen); number += 2) {
        const access wrote = memory_.writer(number);
        if (wrote.when >= launch_since_ && threads_[thread_of(wrote.who)].published_until <= wrote.when)
          throw fault("wgmma reads what thread " + std::to_string(thread_of(wrote.who)) + " wrote and has not published to products");
      }
    return memory_.read<Sixteen>(at, running->knows);
  }

  template <class T, class Change>
  T atomic(std::uintptr_t at, Change change) {
    thread& me = *running;
    const T old = memory_.atomic<T>(at, me.knows, change);
    std::vector<release>& at_this = releases_[at];
    me.met.insert(me.met.end(), at_this.begin(), at_this.end());
    if (me.fenced.own_until == 0) return old;
    at_this.push_back(me.fenced);
    at_this.insert(at_this.end(), acquired_.begin(), acquired_.end());
    return old;
  }

 private:
  struct alignas(16) sixteen {
    std::array<std::uint64_t, 2> words;
  };

  std::uint32_t random(std::size_t below) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return static_cast<std::uint32_t>((seed >> 32) * below >> 32);
  }

  void run_block(std::uint32_t block, unsigned count) {
    block_index_ = {block % blocks_.x, block / blocks_.x % blocks_.y, block / blocks_.x / blocks_.y};
    memory_.forget(shared_, shared_bytes_);
    block_since_ = memory_.tick();
    acquired_.clear();
    arrived_ = 0;
    count_ = count;
    failed_ = nullptr;
    ready_.clear();
    for (std::vector<site>& calls : calls_of_groups_) calls.clear();
    if (threads_.size() < count) threads_.resize(most_threads);
    for (unsigned i = 0; i < count; ++i) {
      thread& t = threads_[i];
      warp& w = warps_[i / lanes];
      if (i % lanes == 0) w.arrived = 0, w.ready_count = 0, w.since = block_since_;
      t.index = {i % block_threads_.x, i / block_threads_.x % block_threads_.y, i / block_threads_.x / block_threads_.y};
      t.number = i;
      t.warp = &w;
      t.knows = {block << 10 | i, launch_since_, &block_since_, &w.since, &acquired_, {}};
      t.fenced = {};
      t.met.clear();
      t.copies.clear();
      t.copy_groups.clear();
      t.products.clear();
      t.product_groups.clear();
      t.may_multiply = false;
      t.published_until = 0;
      t.calls = 0;
      if (!t.runs) t.runs = std::make_unique<fiber>(&grid::work, this);
      wake(t);
    }
    thread& first = next();
    running = &first;
    fiber::change(host_, *first.runs);
    running = nullptr;
    if (!failed_)
      for (unsigned i = 0; i < count_ && !failed_; ++i)
        if (threads_[i].calls != calls_of_groups_[i / (4 * lanes)].size())
          failed_ = std::make_exception_ptr(fault("a divergent warpgroup: thread " + std::to_string(i) + " ends before others of it"));
    if (!failed_) return;
    for (thread& t : threads_)  // a fiber in the middle of the kernel cannot be reused
      if (t.is != thread::state::done) t = {};
    std::rethrow_exception(failed_);
  }

  /// The function that each fiber runs. A fiber runs the threads that have the same number in one block after another, and never returns.
  static void work(void* argument) {
    grid& on = *static_cast<grid*>(argument);
    for (;;) {
      thread& me = *running;
      try {
        on.kernel_();
        if (!me.products.empty() || !me.product_groups.empty()) throw fault("a thread ends before its products");
      } catch (...) {
        on.failed_ = std::current_exception();
      }
      me.is = thread::state::done;
      if (!on.failed_ && on.ready_.empty() && !on.all_done()) on.failed_ = std::make_exception_ptr(fault(on.who_waits()));
      if (on.failed_ || on.ready_.empty())
        fiber::change(*me.runs, on.host_);
      else
        on.go_on(me);
    }
  }

  bool all_done() const {
    for (unsigned i = 0; i < count_; ++i)
      if (threads_[i].is != thread::state::done) return false;
    return true;
  }

  void wake(thread& t) {
    t.is = thread::state::ready;
    emulated::warp& w = *t.warp;
    if (w.ready_count == 0) ready_.push_back(&w);
    w.ready[w.ready_count++] = &t;
  }
  /// Picks a random ready lane of the running warp, because the stacks of this warp are in the cache. If this warp has no ready lane,
  /// picks a ready lane of a random warp. This choice hides no races: two accesses race if no barrier or fence orders them, whichever
  /// happens first.
  thread& next() {
    emulated::warp& w = running && running->warp->ready_count > 0 ? *running->warp : *ready_[random(ready_.size())];
    thread*& place = w.ready[random(w.ready_count)];
    thread& t = *place;
    place = w.ready[--w.ready_count];
    if (w.ready_count == 0) std::erase(ready_, &w);
    return t;
  }
  void go_on(thread& from) {
    thread& to = next();
    running = &to;
    if (&to != &from) fiber::change(*from.runs, *to.runs);
  }
  void wait(thread::state at, site where) {
    thread& me = *running;
    me.is = at;
    me.where = where;
    if (ready_.empty()) throw fault(who_waits());
    go_on(me);
  }

  static std::string text(site where) { return std::string(where.file) + ":" + std::to_string(where.line); }
  static std::string place(unsigned number, site where) { return "thread " + std::to_string(number) + " is at " + text(where); }
  std::string who_waits() const {
    std::string waiting;
    std::size_t done = 0;
    for (unsigned i = 0; i < count_; ++i) {
      done += threads_[i].is == thread::state::done;
      if (threads_[i].is != thread::state::done && waiting.empty())
        waiting = place(i, threads_[i].where) + (threads_[i].is == thread::state::at_barrier ? " (a barrier)" : " (its warp)");
    }
    return "threads wait for others that never come: " + waiting + ", " + std::to_string(done) + " of " + std::to_string(count_) +
           " threads have ended";
  }

  memory& memory_;
  std::function<void()> kernel_;
  index3 blocks_, block_threads_, block_index_;
  std::uintptr_t shared_ = 0;
  std::size_t shared_bytes_ = 0;
  moment launch_since_ = 0, block_since_ = 0;
  std::vector<release> acquired_;                                      // the releases that the running block has acquired
  std::unordered_map<std::uintptr_t, std::vector<release>> releases_;  // by the address of the atomic variable
  fiber host_;
  std::vector<thread> threads_;
  std::array<warp, most_threads / lanes> warps_;
  std::vector<emulated::warp*> ready_;                                         // the warps with ready lanes
  std::array<std::vector<site>, most_threads / (4 * lanes)> calls_of_groups_;  // see call_together
  unsigned count_ = 0;
  unsigned arrived_ = 0;  // the number of threads that wait at the barrier
  site barrier_{};
  std::exception_ptr failed_;
};

}  // namespace emulated
