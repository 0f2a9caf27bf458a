// SPDX-License-Identifier: MIT
// Compiles the kernels of the CPU backend for a program of several units. All units are compiled with -DLAZYPRUNE_KERNELS_ELSEWHERE. So the
// others only declare the kernels.
#define LAZYPRUNE_KERNELS_HERE
#include <lazyprune/backend/cpu/kernels/kernels.hpp>
