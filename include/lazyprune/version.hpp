// SPDX-License-Identifier: MIT
// The version of the library; CMake reads it from here.
#pragma once

#define LAZYPRUNE_VERSION_MAJOR 0
#define LAZYPRUNE_VERSION_MINOR 3
#define LAZYPRUNE_VERSION_PATCH 0
#define LAZYPRUNE_VERSION_STRING "0.3.0"
