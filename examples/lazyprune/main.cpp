// SPDX-License-Identifier: MIT
// lazyprune, the command line: generates text with a model while a policy prunes its tokens, and measures what that saves.

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "command_line.hpp"
#include "terminal/columns.hpp"

#include <lazyprune/core/error.hpp>

namespace {

#if defined(__x86_64__) && defined(__AVX2__)
/// Before main and the constructors of globals: they too are compiled for what an older processor does not know.
__attribute__((constructor(101), target("no-avx"))) void check_processor() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return;
  static const char line[] =
      "lazyprune: processor: expected AVX2 and FMA, which this program is built for (LAZYPRUNE_ARCH), found neither\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, sizeof line - 1);
  ::_exit(1);
}
#endif

/// A file opened later must not become stdout or stderr. What is opened in the place of a closed one is of no use either: its writes and
/// reads fail, as they did.
void fill_closed_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0 && ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY) != descriptor)
      std::abort();
}

int complain(std::string_view problem, int code) {
  std::cerr << "lazyprune: " << lazyprune::program::one_line(problem) << std::endl;
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  fill_closed_descriptors();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too long is a write that fails
  try {
    const int code = lazyprune::program::parse_command_line(argc, argv)();
    if (!std::cout.flush()) throw lazyprune::error("stdout", "", "to write all of the output", "a fault", lazyprune::error_code::io);
    return code;
  } catch (const lazyprune::error& problem) {
    const bool machine = problem.code() == lazyprune::error_code::io || problem.code() == lazyprune::error_code::no_memory;
    return complain(problem.what(), machine ? 3 : 1);
  } catch (const std::bad_alloc&) {
    return complain("memory: expected enough for the model and its caches, found too little", 3);
  } catch (const std::length_error&) {
    return complain("memory: expected enough for the model and its caches, found too little", 3);
  } catch (const std::exception& problem) {
    return complain(problem.what(), 3);
  }
}
