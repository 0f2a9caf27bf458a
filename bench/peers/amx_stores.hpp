// SPDX-License-Identifier: MIT
// Lets GCC compile ggml's AMX code correctly. install.py passes it to llama.cpp's build as -include.
//
// _tile_loadconfig and _tile_loadd of GCC 12.2 do not tell the compiler that they read memory. So GCC deletes the stores before them, at -O1, too.
// These macros first make all stores visible. Compilers without the defect lose nothing but a little freedom to reorder.
#if defined(__AMX_TILE__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 14
#include <immintrin.h>

#define _tile_loadconfig(config)                    \
  do {                                              \
    __asm__ volatile("" : : "r"(config) : "memory"); \
    (_tile_loadconfig)(config);                     \
  } while (false)

#undef _tile_loadd
#define _tile_loadd(tile, base, stride)                          \
  do {                                                           \
    __asm__ volatile("" : : "r"((const void*)(base)) : "memory"); \
    _tile_loadd_internal(tile, base, stride);                    \
  } while (false)
#endif
