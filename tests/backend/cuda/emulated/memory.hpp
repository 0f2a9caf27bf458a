// SPDX-License-Identifier: MIT
// The memory of the emulated device. Only device threads can dereference its addresses. A shadow memory knows for every two bytes whether
// they are allocated, whether they were written, and which thread accessed them last. Threads read and write by reference<T>, which checks
// each access against the shadow memory.
//
// A clock ticks at every launch, block, barrier and fence, and each access has the time at which it was made. These times decide whether
// one access comes before another. A thread is certain to see its own accesses, the accesses before its launch, and those before the last
// barrier of its block or warp. A thread may also see the accesses that another block made before a fence and an atomic operation. For
// this, the thread's own block must use the same atomic variable later, followed by a fence.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace emulated {

/// A fault that the device has detected. The message is one line. It says what was done, by which thread, and where.
struct fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using moment = std::uint32_t;

/// The last thread that accessed two bytes, and when.
struct access {
  moment when;
  std::uint32_t who;
  friend bool operator==(const access&, const access&) = default;
};

/// The shadow of two bytes of memory.
struct cell {
  access write, read;
};
static_assert(sizeof(cell) == 16);

// These moments come before those of any kernel. Memory with the moment `nobodys` is not allocated.
inline constexpr moment nobodys = 0, never_written = 1, before = 2, first_moment = 3;

// `who` is a thread of a launch. It has 10 bits for the thread's number in its block, and 20 bits for the block's number. The other two
// bits tell how many readers it stands for.
inline constexpr std::uint32_t several_of_a_warp = 1u << 30, several_of_a_block = 2u << 30, of_several_blocks = 3u << 30,
                               how_many = 3u << 30;
inline constexpr std::uint32_t an_atomic = 2u << 30;  // marks an atomic's write; reads use this bit as several_of_a_block
inline constexpr std::uint32_t thread_of(std::uint32_t who) { return who & 1023u; }
inline constexpr std::uint32_t block_of(std::uint32_t who) { return (who & ~how_many) >> 10; }
inline constexpr std::uint32_t warp_of(std::uint32_t who) { return (who & ~how_many) >> 5; }

/// The accesses that a thread has published by a fence and then an atomic operation: its block's accesses before `block_until`, and its own
/// accesses before `own_until`.
struct release {
  std::uint32_t who;
  moment block_until, own_until;
};

/// The accesses that a thread is certain to see: those before the moments in this object.
struct knowledge {
  std::uint32_t who = 0;
  moment launch_since = 0;
  const moment* block_since = nullptr;
  const moment* warp_since = nullptr;
  const std::vector<release>* of_the_block = nullptr;  // acquired from other blocks
  std::vector<release> own{};                          // acquired by this thread; a barrier will share them with the block

  [[gnu::always_inline]] bool knows(access a) const {
    if (a.when < launch_since || a.who == who) return true;
    if ((a.who & how_many) == of_several_blocks) return false;
    if (block_of(a.who) != block_of(who)) return was_told(a);
    if (a.when < *block_since) return true;
    return (a.who & how_many) != several_of_a_block && warp_of(a.who) == warp_of(who) && a.when < *warp_since;
  }

 private:
  [[gnu::noinline]] bool was_told(access a) const {
    const auto tells = [a](const release& r) {
      return block_of(r.who) == block_of(a.who) && (a.when < r.block_until || (a.who == r.who && a.when < r.own_until));
    };
    return std::any_of(of_the_block->begin(), of_the_block->end(), tells) || std::any_of(own.begin(), own.end(), tells);
  }
};

class memory {
 public:
  memory() {
    base_ = reserve(address_bytes, PROT_NONE);
    data_ = reserve(address_bytes, PROT_READ | PROT_WRITE);
    shadow_ = reinterpret_cast<cell*>(reserve(address_bytes / 2 * sizeof(cell), PROT_READ | PROT_WRITE));
  }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;
  ~memory() {
    ::munmap(base_, address_bytes);
    ::munmap(data_, address_bytes);
    ::munmap(shadow_, address_bytes / 2 * sizeof(cell));
  }

  std::size_t capacity = address_bytes;  // how many bytes can be allocated at a time
  std::size_t held() const { return held_; }
  std::size_t allocations() const { return allocations_; }  // the number of allocations ever made
  bool checks = true;  // if false, accesses skip the shadow; memory allocated meanwhile counts as not allocated when `checks` is true again
  moment clock = first_moment;

  /// Allocates this many unwritten bytes and returns their address, or 0 if there is no room. No address is returned twice, so a use after
  /// free is detected.
  std::uintptr_t allocate(std::size_t bytes) {
    const std::size_t pages = (bytes + page - 1) / page * page;
    if (bytes > capacity - std::min(held_, capacity) || next_ + pages + red_zone > address_bytes) return 0;
    const std::uintptr_t at = address(next_);
    next_ += pages + red_zone;
    held_ += bytes;
    ++allocations_;
    blocks_[at] = bytes;
    forget(at, bytes);
    return at;
  }

  void free(std::uintptr_t at) {
    const auto found = blocks_.find(at);
    if (found == blocks_.end()) throw fault("memory is freed that is not allocated");
    held_ -= found->second;
    const std::size_t pages = (found->second + page - 1) / page * page;
    ::madvise(here(at), pages, MADV_DONTNEED);
    ::madvise(shadow_of(at), pages / 2 * sizeof(cell), MADV_DONTNEED);
    blocks_.erase(found);
  }

  bool is_device(const void* p) const { return reinterpret_cast<std::uintptr_t>(p) - address(0) < address_bytes; }

  /// Marks the bytes as unwritten, and fills them with NaN.
  void forget(std::uintptr_t at, std::size_t bytes) {
    std::memset(here(at), 0xff, bytes);
    if (checks) std::fill_n(shadow_of(at), (bytes + 1) / 2, cell{{never_written, 0}, {nobodys, 0}});
  }

  /// Declares that only the running block can reach these bytes.
  void belongs_to_block(std::uintptr_t at, std::size_t bytes) { of_the_block_ = at, of_the_block_bytes_ = bytes; }

  /// Marks bytes as not allocated, although their allocation stays.
  void fence_off(std::uintptr_t at, std::size_t bytes) { std::fill_n(shadow_of(at), (bytes + 1) / 2, cell{{nobodys, 0}, {nobodys, 0}}); }

  /// `to_read` and `to_write` return the address at which the host can read or write these bytes. Both throw `fault` unless the bytes are
  /// in one live allocation. `to_read` also throws `fault` if a byte was never written.
  const std::byte* to_read(const void* p, std::size_t bytes, const char* what) { return whole(p, bytes, what, false); }
  std::byte* to_write(void* p, std::size_t bytes, const char* what) {
    std::byte* const to = whole(p, bytes, what, true);
    if (checks) std::fill_n(shadow_of(reinterpret_cast<std::uintptr_t>(p)), (bytes + 1) / 2, cell{{before, 0}, {nobodys, 0}});
    return to;
  }
  /// Copies bytes within the device. Bytes that were unwritten are also unwritten in the copy.
  void copy(void* to, const void* from, std::size_t bytes) {
    std::memmove(whole(to, bytes, "a copy", true), whole(from, bytes, "a copy", true), bytes);
    if (checks)
      std::memmove(shadow_of(reinterpret_cast<std::uintptr_t>(to)), shadow_of(reinterpret_cast<std::uintptr_t>(from)),
                   (bytes + 1) / 2 * sizeof(cell));
  }

  // The following functions are the accesses of threads.

  template <class T>
  T read(std::uintptr_t at, const knowledge& me) {
    static_assert(sizeof(T) % 2 == 0 && std::is_trivially_copyable_v<T>);
    if (const cell* bad = checks ? note_read<sizeof(T)>(at, me) : nullptr) fail_read(at, *bad, sizeof(T), me);
    if (!checks) check_place(at, sizeof(T));
    T value;
    std::memcpy(&value, here(at), sizeof(T));
    return value;
  }

  template <class T>
  void write(std::uintptr_t at, const T& value, const knowledge& me) {
    if (const cell* bad = checks ? note_write<sizeof(T)>(at, me) : nullptr) fail_write(at, *bad, sizeof(T), me);
    if (!checks) check_place(at, sizeof(T));
    std::memcpy(here(at), &value, sizeof(T));
  }

  /// Starts an asynchronous write. No thread may read the bytes until the writing thread has waited for the write.
  template <std::size_t Bytes>
  void begin_write(std::uintptr_t at, const knowledge& me) {
    if (const cell* bad = checks ? note_write<Bytes>(at, me) : nullptr) fail_write(at, *bad, Bytes, me);
    if (!checks) return check_place(at, Bytes);
    std::memset(here(at), 0xff, Bytes);
    for (cell& c : cells(at, Bytes)) c.write.when = never_written;
  }

  /// Returns who wrote two bytes, and when. The moments before a launch are those of other writers.
  access writer(std::uintptr_t at) const { return writing(*shadow_of(at)); }

  /// Computes old = *at and *at = change(old) as one atomic operation. Returns old.
  template <class T, class Change>
  T atomic(std::uintptr_t at, const knowledge& me, Change change) {
    if (checks) {
      check_place(at, sizeof(T));
      for (cell& c : cells(at, sizeof(T))) {
        if (c.write.when <= never_written) fail_read(at, c, sizeof(T), me);
        const bool atomic_before = c.write.when >= me.launch_since && (c.write.who & an_atomic);
        if ((!atomic_before && !me.knows(writing(c))) || !me.knows(c.read)) fail_write(at, c, sizeof(T), me);
        c.write = {clock, me.who | an_atomic};
      }
    }
    T old;
    std::memcpy(&old, here(at), sizeof(T));
    const T changed = change(old);
    std::memcpy(here(at), &changed, sizeof(T));
    return old;
  }

  moment tick() {
    if (++clock == 0) throw fault("the clock of the emulated device has run out");
    return clock;
  }

  /// Describes an address, for example as "12 bytes behind an allocation of 64".
  std::string describe(std::uintptr_t at) const {
    if (at - address(0) >= address_bytes) return "an address of the host";
    auto next = blocks_.upper_bound(at);
    if (next == blocks_.begin()) return "no allocation";
    --next;
    const std::size_t offset = at - next->first;
    return offset < next->second ? "byte " + std::to_string(offset) + " of an allocation of " + std::to_string(next->second)
                                 : std::to_string(offset - next->second) + " bytes behind an allocation of " + std::to_string(next->second);
  }

 private:
  static constexpr std::size_t address_bytes = std::size_t{32} << 30, page = 4096, red_zone = 4096;

  static std::byte* reserve(std::size_t bytes, int protection) {
    void* at = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(at);
  }

  std::uintptr_t address(std::size_t offset) const { return reinterpret_cast<std::uintptr_t>(base_) + offset; }
  std::byte* here(std::uintptr_t at) const { return data_ + (at - address(0)); }
  cell* shadow_of(std::uintptr_t at) const { return shadow_ + (at - address(0)) / 2; }

  struct cell_range {
    cell *first, *last;
    cell* begin() const { return first; }
    cell* end() const { return last; }
  };
  cell_range cells(std::uintptr_t at, std::size_t bytes) const { return {shadow_of(at), shadow_of(at) + bytes / 2}; }

  [[gnu::always_inline]] void check_place(std::uintptr_t at, std::size_t bytes) const {
    if (at - address(0) >= address_bytes) throw fault(std::string("a kernel follows a pointer to ") + describe(at));
    if (at % bytes != 0)
      throw fault("a kernel reads or writes " + std::to_string(bytes) + " bytes at an address that is no multiple of this size");
  }

  /// Returns true if the cells of one access are equal, so that one check is enough for all of them.
  template <std::size_t Count>
  [[gnu::always_inline]] static bool alike(const cell* cells) {
    const auto bits = [](access a) { return std::bit_cast<std::uint64_t>(a); };
    std::uint64_t apart = 0;
    for (std::size_t i = 1; i < Count; ++i)
      apart |= (bits(cells[i].write) ^ bits(cells[0].write)) | (bits(cells[i].read) ^ bits(cells[0].read));
    return apart == 0;
  }

  template <std::size_t Bytes>
  [[gnu::always_inline]] const cell* note_read(std::uintptr_t at, const knowledge& me) const {
    check_place(at, Bytes);
    cell* const first = shadow_of(at);
    const bool of_the_block = at - of_the_block_ < of_the_block_bytes_;
    if (alike<Bytes / 2>(first)) {
      cell next = *first;
      if (!may_read(next, me, of_the_block)) return first;
      if (next.read != first->read || next.write != first->write) std::fill_n(first, Bytes / 2, next);
      return nullptr;
    }
    for (cell& c : cells(at, Bytes))
      if (!may_read(c, me, of_the_block)) return &c;
    return nullptr;
  }

  /// Returns true if the thread may read the cell, and notes the read.
  [[gnu::always_inline]] bool may_read(cell& c, const knowledge& me, bool of_the_block) const {
    if (c.write.when <= never_written || !me.knows(writing(c))) return false;
    if (of_the_block) {  // shared memory: forget a writer that the whole block or warp sees, so that cells become alike
      if (c.write.when < *me.block_since)
        c.write = {before, 0};
      else if (c.write.when < *me.warp_since && warp_of(c.write.who) == warp_of(me.who) && !(c.write.who & an_atomic))
        c.write = {*me.warp_since - 1, several_of_a_warp | (me.who & ~31u)};
    }
    if (c.read.when >= *me.block_since && (c.read.who & ~1023u) == (several_of_a_block | (me.who & ~1023u))) return true;  // the usual case
    if (c.read.when == clock && (c.read.who & ~31u) == (several_of_a_warp | (me.who & ~31u))) return true;
    c.read = me.knows(c.read) ? access{clock, me.who} : joined(c.read, me.who);
    return true;
  }

  access joined(access others, std::uint32_t who) const {
    std::uint32_t many = others.who & how_many;
    if (many == of_several_blocks || block_of(others.who) != block_of(who)) return {clock, of_several_blocks};
    if (many == several_of_a_block || warp_of(others.who) != warp_of(who)) return {clock, several_of_a_block | who};
    return {clock, several_of_a_warp | who};
  }

  template <std::size_t Bytes>
  [[gnu::always_inline]] const cell* note_write(std::uintptr_t at, const knowledge& me) const {
    check_place(at, Bytes);
    cell* const first = shadow_of(at);
    const auto may_write = [&me](const cell& c) { return c.write.when != nobodys && me.knows(writing(c)) && me.knows(c.read); };
    if (alike<Bytes / 2>(first)) {
      if (!may_write(*first)) return first;
    } else {
      for (const cell& c : cells(at, Bytes))
        if (!may_write(c)) return &c;
    }
    std::fill_n(first, Bytes / 2, cell{{clock, me.who}, {nobodys, 0}});
    return nullptr;
  }

  static access writing(const cell& c) { return {c.write.when, c.write.who & ~an_atomic}; }

  static std::string name_of(std::uint32_t who) {
    if ((who & how_many) == of_several_blocks) return "threads of several blocks";
    if ((who & how_many) == several_of_a_block) return "several threads of block " + std::to_string(block_of(who));
    if ((who & how_many) == several_of_a_warp)
      return "several threads of warp " + std::to_string(thread_of(who) / 32) + " of block " + std::to_string(block_of(who));
    return "thread " + std::to_string(thread_of(who)) + " of block " + std::to_string(block_of(who));
  }

  [[noreturn]] void fail(std::uintptr_t at, std::size_t bytes, const knowledge& me, const char* does, const std::string& why) const {
    throw fault(name_of(me.who) + " " + does + " " + std::to_string(bytes) + " bytes, " + describe(at) + ": " + why);
  }
  [[noreturn]] void fail_read(std::uintptr_t at, const cell& c, std::size_t bytes, const knowledge& me) const {
    if (c.write.when == nobodys) fail(at, bytes, me, "reads", "out of bounds");
    if (c.write.when == never_written) fail(at, bytes, me, "reads", "never written");
    fail(at, bytes, me, "reads", "a race with the write of " + name_of(writing(c).who));
  }
  [[noreturn]] void fail_write(std::uintptr_t at, const cell& c, std::size_t bytes, const knowledge& me) const {
    if (c.write.when == nobodys) fail(at, bytes, me, "writes", "out of bounds");
    if (!me.knows(writing(c))) fail(at, bytes, me, "writes", "a race with the write of " + name_of(writing(c).who));
    fail(at, bytes, me, "writes", "a race with the read of " + name_of(c.read.who));
  }

  std::byte* whole(const void* p, std::size_t bytes, const char* what, bool to_write) {
    const auto at = reinterpret_cast<std::uintptr_t>(p);
    if (!is_device(p)) throw fault(std::string(what) + ": a pointer of the host where the device's is expected");
    auto block = blocks_.upper_bound(at);
    if (block == blocks_.begin() || at + bytes > (--block)->first + block->second)
      throw fault(std::string(what) + ": " + std::to_string(bytes) + " bytes at " + describe(at) + ": out of bounds");
    if (!to_write && checks)
      for (const cell& c : cells(at, bytes))
        if (c.write.when <= never_written) throw fault(std::string(what) + ": reads what was never written, " + describe(at));
    return here(at);
  }

  std::byte* base_;  // the addresses that pointers have; they cannot be read or written
  std::byte* data_;  // the bytes at these addresses
  cell* shadow_;     // one cell for every two bytes
  std::uintptr_t of_the_block_ = 0;
  std::size_t of_the_block_bytes_ = 0;
  std::size_t next_ = red_zone, held_ = 0, allocations_ = 0;
  std::map<std::uintptr_t, std::size_t> blocks_;  // live allocations: address and bytes
};

}  // namespace emulated
