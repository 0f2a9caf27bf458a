// SPDX-License-Identifier: MIT
// How many processors and how much memory this process may use. The limits come from the kernel and its control groups (Linux cgroups,
// versions 1 and 2).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#ifdef __linux__
#include <sched.h>
#endif

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// Returns the first word of a file, or nullopt if there is no such file.
inline std::optional<std::string> first_word(const std::string& path) {
  std::string word;
  return std::ifstream(path) >> word ? std::optional(word) : std::nullopt;
}

/// Returns a word as a whole number, or nullopt if the word is missing or has other characters than digits ("max", "-1").
inline std::optional<double> number_of(const std::optional<std::string>& word) {
  if (!word || word->empty() || word->find_first_not_of("0123456789") != word->npos) return std::nullopt;
  return std::strtod(word->c_str(), nullptr);
}

/// Returns the number after `name` in a file of lines "NAME NUMBER" or "NAME: NUMBER". In the second form `name` includes the colon.
/// Returns nullopt if there is no such line.
inline std::optional<double> named_number(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first, number;
    if (words >> first >> number && first == name) return number_of(number);
  }
  return std::nullopt;
}

/// Returns the smaller of two numbers. If only one is set, returns this one. If neither is set, returns nullopt.
inline std::optional<double> least(std::optional<double> a, std::optional<double> b) { return !a ? b : !b ? a : std::min(*a, *b); }

/// Returns the folders of this process's control groups for a controller, each group before its parent. An empty `controller` means cgroups
/// version 2. In a container, some of the folders may not be visible.
inline std::vector<std::string> cgroup_folders(const std::string& root, std::string_view controller) {
  std::vector<std::string> folders;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // NUMBER:CONTROLLER,CONTROLLER:PATH
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    // The strings grow by append, because GCC 12 warns of operator+ with a literal and a temporary string.
    std::string names(1, ','), wanted(1, ','), own_mount(1, '/');
    names.append(line, first + 1, second - first - 1).append(1, ',');
    wanted.append(controller).append(1, ',');
    own_mount.append(controller);
    if (controller.empty() ? names != ",," : names.find(wanted) == names.npos) continue;
    for (const std::string& mount : controller.empty() ? std::vector<std::string>{"", "/unified"} : std::vector{own_mount}) {
      std::string path = line.substr(second + 1);
      for (;;) {
        while (path.ends_with('/')) path.pop_back();
        folders.push_back(root + "/sys/fs/cgroup" + mount + path);
        if (path.empty()) break;
        path.resize(path.rfind('/') == path.npos ? 0 : path.rfind('/'));
      }
    }
  }
  return folders;
}

/// Returns how many processors this thread may run on, at least 1. The standard library's number includes those that the process was not
/// given (taskset, cpusets of containers). If a variable asks OpenMP to bind threads to processors, this thread may be bound to one of
/// many, so the result is then the standard library's number.
inline int allowed_processors() {
#ifdef __linux__
  bool bound = false;
  for (const char* variable : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"}) {
    const char* const value = std::getenv(variable);
    const std::string_view text = value ? value : "false";
    bound = bound || (text != "false" && text != "FALSE" && text != "none" && text != "disabled");
  }
  if (cpu_set_t allowed; !bound && ::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
#endif
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace detail

/// Returns the CPU quota of this process, in processors: 1.5 means 150 ms of processor time in each 100 ms. Returns nullopt if there is no
/// quota. `root` is the folder that contains /proc and /sys.
inline std::optional<double> processor_quota(const std::string& root = "") {
  using namespace detail;
  std::optional<double> quota;
  const auto take = [&](std::optional<double> time, std::optional<double> period) {
    if (time && period && *time > 0 && *period > 0) quota = least(quota, *time / *period);
  };
  for (const std::string& folder : cgroup_folders(root, "")) {
    std::string time, period;
    if (std::ifstream(folder + "/cpu.max") >> time >> period) take(number_of(time), number_of(period));
  }
  for (const std::string& folder : cgroup_folders(root, "cpu"))
    take(number_of(first_word(folder + "/cpu.cfs_quota_us")), number_of(first_word(folder + "/cpu.cfs_period_us")));
  return quota;
}

/// Returns how many processors this process may keep busy, at least 1: those that it may run on, limited by processor_quota.
inline int usable_processors(const std::string& root = "") {
  const int there = detail::allowed_processors();
  const auto quota = processor_quota(root);
  return quota && *quota < there ? std::max(1, static_cast<int>(std::ceil(*quota))) : there;
}

/// Returns how many bytes of memory this process may still allocate, or nullopt if the system does not say. The result is the kernel's
/// available memory, or the rest of a control group's limit if that is less. In a control group, file pages that were not used lately count
/// as free. `root` is the folder that contains /proc and /sys.
inline std::optional<std::uint64_t> available_memory(const std::string& root = "") {
  using namespace detail;
  auto left = named_number(root + "/proc/meminfo", "MemAvailable:");
  if (left) *left *= 1024;
  const auto take = [&](const std::string& folder, const char* limit, const char* used, const char* unused_pages) {
    const auto most = number_of(first_word(folder + limit)), now = number_of(first_word(folder + used));
    if (!most || !now) return;
    const double unused = named_number(folder + "/memory.stat", unused_pages).value_or(0);
    left = least(left, std::max(0.0, *most - std::max(0.0, *now - unused)));
  };
  for (const std::string& folder : cgroup_folders(root, "")) take(folder, "/memory.max", "/memory.current", "inactive_file");
  for (const std::string& folder : cgroup_folders(root, "memory"))
    take(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file");
  return left ? std::optional(static_cast<std::uint64_t>(*left)) : std::nullopt;
}

}  // namespace v0
}  // namespace lazyprune
