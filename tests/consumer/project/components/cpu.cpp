// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu.hpp>

int cpu() { return lazyprune::cpu().threads(); }
