// SPDX-License-Identifier: MIT
// The instruction set that this translation unit is compiled for, as the name of the inline namespace of all vector code: units compiled
// with different flags then call their own of it. What is outside (row moves, the standard library's inline code) the linker still takes
// from any of them: a program that must run on lesser machines is compiled for those throughout. The kernels are compiled for their own
// instructions whatever the flags.
#pragma once

#include <xsimd/xsimd.hpp>

#if XSIMD_WITH_AVX512BW
#define LAZYPRUNE_COMPILED_ISA avx512bw
#elif XSIMD_WITH_AVX512DQ
#define LAZYPRUNE_COMPILED_ISA avx512dq
#elif XSIMD_WITH_AVX512CD
#define LAZYPRUNE_COMPILED_ISA avx512cd
#elif XSIMD_WITH_AVX512F
#define LAZYPRUNE_COMPILED_ISA avx512f
#elif XSIMD_WITH_FMA3_AVX2
#define LAZYPRUNE_COMPILED_ISA avx2_fma
#elif XSIMD_WITH_AVX2
#define LAZYPRUNE_COMPILED_ISA avx2
#elif XSIMD_WITH_FMA3_AVX
#define LAZYPRUNE_COMPILED_ISA avx_fma
#elif XSIMD_WITH_AVX
#define LAZYPRUNE_COMPILED_ISA avx
#elif XSIMD_WITH_SSE4_2
#define LAZYPRUNE_COMPILED_ISA sse4_2
#elif XSIMD_WITH_SSE4_1
#define LAZYPRUNE_COMPILED_ISA sse4_1
#elif XSIMD_WITH_SSSE3
#define LAZYPRUNE_COMPILED_ISA ssse3
#elif XSIMD_WITH_SSE3
#define LAZYPRUNE_COMPILED_ISA sse3
#elif XSIMD_WITH_SSE2
#define LAZYPRUNE_COMPILED_ISA sse2
#else
#error "lazyprune::cpu is for x86-64"
#endif

#define LAZYPRUNE_TEXT_OF(name) #name
#define LAZYPRUNE_TEXT(name) LAZYPRUNE_TEXT_OF(name)

namespace lazyprune {
inline namespace v0 {
inline namespace LAZYPRUNE_COMPILED_ISA {

using batch = xsimd::batch<float>;

/// "avx2_fma", "avx512bw", ...: what the vector code of this translation unit uses.
inline constexpr const char* compiled_isa = LAZYPRUNE_TEXT(LAZYPRUNE_COMPILED_ISA);

}  // namespace LAZYPRUNE_COMPILED_ISA
}  // namespace v0
}  // namespace lazyprune
