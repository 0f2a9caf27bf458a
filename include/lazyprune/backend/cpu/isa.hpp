// SPDX-License-Identifier: MIT
// Finds the instruction sets that this process can use, and chooses one. The processor must have them, and the operating system must save
// their registers.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include <lazyprune/backend/execution.hpp>
#include <lazyprune/core/error.hpp>

/// A function with this macro before it is compiled for these instruction sets, whatever the flags of the translation unit. Tests define
/// the macro as empty, so that they can run the functions on emulated registers.
#ifndef LAZYPRUNE_TARGET
#define LAZYPRUNE_TARGET(instructions) __attribute__((target(instructions)))
#endif
/// The constraint of asm for a vector in a register. Emulated registers are in memory.
#ifndef LAZYPRUNE_VECTOR
#define LAZYPRUNE_VECTOR "v"
#endif

namespace lazyprune {
inline namespace v0 {
namespace detail {

struct processor {
  bool has[std::size(every_isa)] = {true};                 // indexed by isa
  bool fast_bf16 = false;                                  // whether VDPBF16PS is faster than FMA
  bool amd = false;                                        // whether AMD made it
  bool avx_vnni = false, avx512_vnni = false;              // whether the paths avx2 and avx512 have VPDPBUSD
  std::size_t l1 = 32 << 10, l2 = std::size_t{512} << 10;  // bytes of data cache; these defaults if cpuid reports none
};

#if defined(__x86_64__)

struct cpuid_registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

/// Returns zeros for a leaf that the processor lacks.
inline cpuid_registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  cpuid_registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

constexpr bool has_bit(unsigned bits, unsigned bit) { return bits >> bit & 1; }

/// Returns a bit for each kind of registers that the operating system saves.
LAZYPRUNE_TARGET("xsave") inline unsigned saved_registers() { return static_cast<unsigned>(_xgetbv(0)); }

/// Asks Linux for the tile registers of AMX, and returns true if this process may use them. Linux grants them only on request.
inline bool may_use_tiles() {
#ifdef __linux__
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

inline processor look_at_processor() {
  processor found;
  const cpuid_registers vendor = cpuid(0), basic = cpuid(1), extended = cpuid(7), more = cpuid(7, 1);
  const bool intel = vendor.ebx == signature_INTEL_ebx && vendor.ecx == signature_INTEL_ecx && vendor.edx == signature_INTEL_edx;
  const unsigned saved = has_bit(basic.ecx, 27) ? saved_registers() : 0;
  const auto has = [&](isa i) -> bool& { return found.has[static_cast<std::size_t>(i)]; };
  const auto saves = [&](unsigned registers) { return (saved & registers) == registers; };
  has(isa::avx2) = saves(0x6) && has_bit(basic.ecx, 12) && has_bit(basic.ecx, 29) && has_bit(extended.ebx, 5);
  has(isa::avx512) = has(isa::avx2) && saves(0xe6) && has_bit(extended.ebx, 16) && has_bit(extended.ebx, 17) && has_bit(extended.ebx, 30) &&
                     has_bit(extended.ebx, 31);
  has(isa::avx512_bf16) = has(isa::avx512) && has_bit(more.eax, 5);
  has(isa::amx) = has(isa::avx512_bf16) && saves(0x600e6) && has_bit(extended.edx, 22) && has_bit(extended.edx, 24) && may_use_tiles();
  found.avx_vnni = has(isa::avx2) && has_bit(more.eax, 4);
  found.avx512_vnni = has(isa::avx512) && has_bit(extended.ecx, 11);
  found.amd = vendor.ebx == signature_AMD_ebx && vendor.ecx == signature_AMD_ecx && vendor.edx == signature_AMD_edx;
  found.fast_bf16 = !intel;  // on Intel's processors, VDPBF16PS has half the rate of FMA, and AMX is the fast way for bf16

  for (unsigned i = 0; i < 8; ++i) {
    const cpuid_registers cache = cpuid(intel ? 4 : 0x8000'001d, i);
    const unsigned type = cache.eax & 0x1f, level = cache.eax >> 5 & 7;
    const std::size_t bytes =
        std::size_t{(cache.ebx >> 22) + 1} * ((cache.ebx >> 12 & 0x3ff) + 1) * ((cache.ebx & 0xfff) + 1) * (std::size_t{cache.ecx} + 1);
    if (level == 1 && type == 1) found.l1 = bytes;
    if (level == 2 && (type == 1 || type == 3)) found.l2 = bytes;
  }
  return found;
}

#else

inline processor look_at_processor() { return {}; }

#endif

inline const processor& this_processor() {
  static const processor found = look_at_processor();
  return found;
}

}  // namespace detail

/// Returns true if this process can use the instruction set.
inline bool has(isa i) { return detail::this_processor().has[static_cast<std::size_t>(i)]; }

/// Returns the fastest instruction set that this process can use.
inline isa best_isa() {
  if (has(isa::amx)) return isa::amx;
  if (has(isa::avx512_bf16) && detail::this_processor().fast_bf16) return isa::avx512_bf16;
  if (has(isa::avx512)) return isa::avx512;
  return has(isa::avx2) ? isa::avx2 : isa::portable;
}

/// Returns the instruction set with this name. Throws `error` if there is no such instruction set, or if this processor lacks it. `place`
/// is the variable or the flag that the name comes from, for the error.
inline isa isa_named(std::string_view name, std::string_view place) {
  std::string available;
  for (const isa i : every_isa) {
    if (!has(i)) continue;
    if (name == name_of(i)) return i;
    available += (available.empty() ? "" : ", ") + std::string(name_of(i));
  }
  throw error("", place, "an instruction set of this processor: " + available, name, error_code::unsupported);
}

/// Returns the instruction set of a backend that is constructed from `e`. With `e.exact`, this is avx512 at most. Throws `error` if the
/// processor lacks `e.instructions`.
inline isa isa_of(const execution& e) {
  const isa path = e.instructions ? isa_named(name_of(*e.instructions), "instructions") : best_isa();
  return e.exact ? std::min(path, isa::avx512) : path;
}

}  // namespace v0
}  // namespace lazyprune
