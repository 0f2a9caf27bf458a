// SPDX-License-Identifier: MIT
#include <lazyprune/backend/machine_limits.hpp>

#include <doctest/doctest.h>

#include <sched.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <files/support.hpp>

namespace {

/// A folder that stands for the root folder of a process in the control groups `groups`.
struct emulated_root : lazyprune_test::temporary_folder {
  explicit emulated_root(const std::string& groups) { put("proc/self/cgroup", groups); }
  emulated_root& put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((path() / name).parent_path());
    std::ofstream(path() / name) << text;
    return *this;
  }
  std::string root() const { return path().string(); }
};

}  // namespace

TEST_CASE("the processor quota is the least quota of the process's control group and the group's parents") {
  using lazyprune::processor_quota;
  using lazyprune::usable_processors;
  emulated_root two("0::/user/app\n");
  CHECK_FALSE(processor_quota(two.root()));
  two.put("sys/fs/cgroup/user/app/cpu.max", "max 100000\n");
  CHECK_FALSE(processor_quota(two.root()));
  two.put("sys/fs/cgroup/user/cpu.max", "150000 100000\n");
  CHECK(processor_quota(two.root()) == 1.5);
  two.put("sys/fs/cgroup/user/app/cpu.max", "20000 100000\n");
  CHECK(processor_quota(two.root()) == 0.2);
  CHECK(usable_processors(two.root()) == 1);

  emulated_root one("4:memory:/a\n3:cpu,cpuacct:/docker/1234\n");
  one.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n").put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(processor_quota(one.root()) == 3.0);  // a container sees its own group as the outermost one
  one.put("sys/fs/cgroup/cpu/docker/1234/cpu.cfs_quota_us", "-1\n").put("sys/fs/cgroup/cpu/docker/1234/cpu.cfs_period_us", "100000\n");
  CHECK(processor_quota(one.root()) == 3.0);

  const emulated_root none("");
  CHECK_FALSE(processor_quota(none.root()));
  const int all = usable_processors(none.root());
  CHECK(all >= 1);
  CHECK(all <= static_cast<int>(std::thread::hardware_concurrency()));
  CHECK_FALSE(processor_quota((none.path() / "nowhere").string()));
  emulated_root rounded("0::/\n");
  rounded.put("sys/fs/cgroup/cpu.max", "110000 100000");
  CHECK(usable_processors(rounded.root()) == std::min(2, all));
}

#ifdef __linux__
TEST_CASE("a thread that may run on one processor only counts one") {
  // OpenMP may bind a thread, and not the process. A variable of OpenMP says so.
  const char* const variables[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
  std::vector<std::pair<const char*, std::string>> before;
  for (const char* variable : variables) {
    if (const char* value = std::getenv(variable)) before.emplace_back(variable, value);
    ::unsetenv(variable);
  }
  int found = 0, bound = 0, unbound = 0;
  std::thread([&] {
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (::sched_getaffinity(0, sizeof all, &all) != 0) return;
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    CPU_SET(first, &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0) return;
    found = lazyprune::detail::allowed_processors();
    ::setenv("OMP_PROC_BIND", "true", 1);
    bound = lazyprune::detail::allowed_processors();
    ::setenv("OMP_PROC_BIND", "false", 1);
    unbound = lazyprune::detail::allowed_processors();
    ::unsetenv("OMP_PROC_BIND");
  }).join();
  for (const auto& [variable, value] : before) ::setenv(variable, value.c_str(), 1);
  CHECK(found == 1);
  CHECK(bound == static_cast<int>(std::thread::hardware_concurrency()));
  CHECK(unbound == 1);
}
#endif

TEST_CASE("available memory is the least of what the kernel and the control groups leave") {
  using lazyprune::available_memory;
  emulated_root two("0::/app\n");
  CHECK_FALSE(available_memory(two.root()));
  two.put("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4000 kB\n");
  CHECK(available_memory(two.root()) == 4'096'000u);
  two.put("sys/fs/cgroup/app/memory.max", "max\n").put("sys/fs/cgroup/app/memory.current", "500\n");
  CHECK(available_memory(two.root()) == 4'096'000u);
  two.put("sys/fs/cgroup/memory.max", "3000\n").put("sys/fs/cgroup/memory.current", "1000\n");
  CHECK(available_memory(two.root()) == 2000u);
  two.put("sys/fs/cgroup/memory.stat", "anon 5\ninactive_file 400\n");
  CHECK(available_memory(two.root()) == 2400u);
  two.put("sys/fs/cgroup/app/memory.max", "400\n");
  CHECK(available_memory(two.root()) == 0u);  // the limit was lowered below what is used

  emulated_root one("7:memory:/docker/1\n");
  one.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n").put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
  one.put("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "700\n");
  one.put("sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "600\n");
  one.put("sys/fs/cgroup/memory/docker/1/memory.stat", "inactive_file 1\ntotal_inactive_file 50\n");
  CHECK(available_memory(one.root()) == 150u);
}

TEST_CASE("the real machine has a processor and some available memory") {
  CHECK(lazyprune::usable_processors() >= 1);
  CHECK(lazyprune::available_memory().value_or(1) > 0u);
}
