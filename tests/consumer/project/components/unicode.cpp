// SPDX-License-Identifier: MIT
#include <lazyprune/text/unicode/installed.hpp>

const lazyprune::unicode* unicode() { return &lazyprune::installed_unicode(); }
