// SPDX-License-Identifier: MIT
// The main function of every test executable.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <pthread.h>

#include <clocale>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <string>

#include <lazyprune/backend/cpu/isa.hpp>

#ifdef LAZYPRUNE_TESTS_NEED_GPU
#include <cuda_runtime_api.h>
#endif

#include "skip.hpp"
#include "tested_path.hpp"

namespace {

struct test_run {
  doctest::Context context;
  int failed = 0;
};

/// Runs the tests on a thread with a stack of this many bytes.
void run_on_stack(test_run& run, std::size_t bytes) {
  pthread_attr_t attributes;
  pthread_t thread;
  const auto body = [](void* all) -> void* {
    static_cast<test_run*>(all)->failed = static_cast<test_run*>(all)->context.run();
    return nullptr;
  };
  if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, bytes) != 0 ||
      pthread_create(&thread, &attributes, body, &run) != 0) {
    std::cout << "there is no thread with a stack of " << bytes << " bytes\n";
    std::exit(1);
  }
  pthread_join(thread, nullptr);
}

}  // namespace

/// Returns 77 if no test failed and at least one test was skipped. The last lines of the output then say why.
int main(int argc, char** argv) {
  const auto path = lazyprune_test::named_path();
  if (path && !lazyprune::has(*path)) {
    std::cout << "skipped: needs a processor with " << name_of(*path) << '\n';
    return 77;
  }
#ifdef LAZYPRUNE_TESTS_NEED_GPU
  if (int gpus = 0; cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::cout << "skipped: needs an NVIDIA GPU and its driver\n";
    return 77;
  }
#endif
  if (const char* locale = std::getenv("LAZYPRUNE_TEST_LOCALE"); locale && !std::setlocale(LC_ALL, locale)) {
    std::cout << "skipped: needs the locale " << locale << " (locales)\n";
    return 77;
  }
  test_run run{doctest::Context(argc, argv)};
  if (const char* bytes = std::getenv("LAZYPRUNE_TEST_STACK"))
    run_on_stack(run, std::strtoull(bytes, nullptr, 10));
  else
    run.failed = run.context.run();
  const int failed = run.failed;
  for (const std::string& what : lazyprune_test::lacked()) std::cout << "skipped: needs " << what << '\n';
  return failed ? failed : lazyprune_test::lacked().empty() ? 0 : 77;
}
