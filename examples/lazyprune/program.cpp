// SPDX-License-Identifier: MIT
#include "program.hpp"

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string_view>
#include <typeinfo>

#include <cxxabi.h>
#include <fcntl.h>
#include <unistd.h>

#include "command_line.hpp"
#include "terminal/columns.hpp"
#include "terminal/interrupts.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/output_file.hpp>
#include <lazyprune/registry/policy_registry.hpp>

namespace lazyprune {
namespace program {
namespace {

#if defined(__x86_64__) && defined(__AVX2__)
/// Runs before the constructors of globals and before main, because both use AVX2.
__attribute__((constructor(101), target("no-avx"))) void check_processor() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return;
  static const char line[] =
      "lazyprune: processor: expected AVX2 and FMA, for which this program was built (LAZYPRUNE_ARCH), found a processor that lacks them\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, sizeof line - 1);
  ::_exit(1);
}
#endif

/// Opens /dev/null for each closed standard descriptor, so that a file opened later does not become stdout or stderr. stdin is opened for
/// writing, stdout and stderr for reading: reads from stdin and writes to the others still fail.
void fill_closed_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0 && ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY) != descriptor)
      std::abort();
}

constexpr std::string_view no_memory = "lazyprune: memory: expected enough memory for the model and its KV cache, found too little\n";

int exit_code_of(error_code code) { return code == error_code::io || code == error_code::no_memory ? 3 : 1; }

int complain(std::string_view problem, int exit_code) {
  std::cerr << "lazyprune: " << one_line(problem) << std::endl;
  return exit_code;
}

/// Writes the line for too little memory, without memory. Returns the exit code.
int complain_about_memory() {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, no_memory.data(), no_memory.size());
  return exit_code_of(error_code::no_memory);
}

/// Calls std::terminate's usual handler, unless memory ran out in a function that may not throw. Then it ends the program with one line.
/// For example, the destructor of nlohmann::json allocates memory, and so do functions of CLI11 that may not throw.
void say_if_memory_ran_out() {
  static const std::terminate_handler usual = std::set_terminate([] {
    const std::type_info* const thrown = abi::__cxa_current_exception_type();
    if (!thrown || (*thrown != typeid(std::bad_alloc) && *thrown != typeid(std::length_error))) usual();
    remove_unfinished_files();
    ::_exit(complain_about_memory());
  });
}

/// Runs the program. If it fails, says why in one line. Throws std::bad_alloc if there is too little memory.
int run_or_complain(int argc, char** argv, policy_registry (*make_policies)()) {
  try {
    const policy_registry policies = make_policies();
    const int code = parse_command_line(argc, argv, policies)();
    if (!std::cout.flush()) throw error("stdout", "", "to write all of the output", "a fault", error_code::io);
    return code;
  } catch (const error& problem) {
    return complain(problem.what(), exit_code_of(problem.code()));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::length_error&) {
    throw std::bad_alloc();
  } catch (const std::exception& problem) {
    return complain(problem.what(), 3);
  }
}

}  // namespace

int run_program(int argc, char** argv, policy_registry (*policies)()) {
  fill_closed_descriptors();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit then fails, and does not end the program
  remove_files_when_ended();
  say_if_memory_ran_out();
  try {
    return run_or_complain(argc, argv, policies);
  } catch (const std::bad_alloc&) {
    return complain_about_memory();
  }
}

}  // namespace program
}  // namespace lazyprune
