// SPDX-License-Identifier: MIT
#include "serve/request_log.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <utility>

#include "serve/completion_answer.hpp"

#include <lazyprune/core/error.hpp>

namespace lazyprune {
namespace program {

request_log::request_log(const std::string& file) : name_(file) {
  if (file.empty()) return;
  file_.reset(std::fopen(file.c_str(), "ae"));
  if (!file_) throw error("--log", file, "a file that can be written", std::strerror(errno));
}

void request_log::add(nlohmann::ordered_json fields) {
  if (!file_) return;
  nlohmann::ordered_json line{{"time", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()}};
  line.update(fields);
  const std::string text = dumped(line) + '\n';
  const std::lock_guard lock(mutex_);
  const bool written = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
  if ((std::fflush(file_.get()) != 0 || !written) && !std::exchange(complained_, true))
    std::cerr << "--log " << name_ << ": cannot write it: " << std::strerror(errno) << "; the server goes on" << std::endl;
}

}  // namespace program
}  // namespace lazyprune
