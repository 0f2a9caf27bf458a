// SPDX-License-Identifier: MIT
// The server's log: a line of JSON for each request for a completion.
#pragma once

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include <nlohmann/json.hpp>

namespace lazyprune {
namespace program {

class request_log {
 public:
  /// Appends to this file, or keeps no log if the name is empty. Throws `error` if the file cannot be opened.
  explicit request_log(const std::string& file);

  /// Appends a line with these fields after the time. If the line cannot be written, says so once on standard error. Any thread may call
  /// it.
  void add(nlohmann::ordered_json fields);

 private:
  struct closes {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::mutex mutex_;
  std::string name_;
  std::unique_ptr<std::FILE, closes> file_;
  bool complained_ = false;
};

}  // namespace program
}  // namespace lazyprune
