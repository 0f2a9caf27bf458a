// SPDX-License-Identifier: MIT
#include <lazyprune/lazyprune.hpp>

#include <cstdio>
#include <cstring>

#include "presets.hpp"

namespace {

void print(const lazyprune::error& fault) {
  std::printf("%s: %s\n", std::string(lazyprune::name_of(fault.code())).c_str(), fault.what());
  std::fflush(stdout);
}

void print_and_leave(const lazyprune::error& fault) {
  print(fault);
  std::exit(3);
}

}  // namespace

int main(int argc, char** argv) {
  const char* asked = argc > 1 ? argv[1] : "presets";
  if (std::strcmp(asked, "presets") == 0) {
    std::printf("%d presets plan, %d by name\n", planning_presets(), named_presets());
    return 0;
  }
  if (std::strcmp(asked, "text") == 0) read_wrong_text();
  lazyprune::session session(lazyprune::dense(), {.layers = 2, .max_tokens = 4});
  if (std::strcmp(asked, "returning_hook") == 0) {
    lazyprune::set_error_hook(print);
    session.reserve(1);
    (void)session.begin({2, lazyprune::phase::prefill});
  }
  if (std::strcmp(asked, "hook") == 0) lazyprune::set_error_hook(print_and_leave);
  (void)session.begin({3, lazyprune::phase::prefill});
  (void)session.begin({1, lazyprune::phase::decode});  // the previous step was not finished
}
