// SPDX-License-Identifier: MIT
// Starts `lazyprune serve` and talks to it.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "programs/program.hpp"
#include "programs/serve/http_client.hpp"

namespace lazyprune_test {

/// A server of the bundled model, in a process of its own.
class served {
 public:
  /// `variables` are added to the environment. `may_fail`: the server may also end before it is up.
  explicit served(std::vector<std::string> more = {}, const std::vector<std::string>& variables = {}, bool may_fail = false)
      : program_(arguments(std::move(more)), "", variables) {
    const std::string before = " at http://127.0.0.1:";
    std::string said;
    while (said.find(before) == std::string::npos || !said.ends_with('\n')) {
      if (program_.has_ended()) {
        REQUIRE_MESSAGE(may_fail, program_.err());
        return;
      }
      said = program_.err();
    }
    port_ = static_cast<std::uint16_t>(std::stoi(said.substr(said.find(before) + before.size())));
  }

  bool is_up() const { return port_ != 0; }
  std::uint16_t port() const { return port_; }
  const running_program& program() const { return program_; }

  http_answer post(const std::string& path, const nlohmann::json& body, const std::string& headers = {}) const {
    return http_client(port_).ask("POST", path, body.dump(), headers);
  }
  http_answer get(const std::string& path, const std::string& headers = {}) const {
    return http_client(port_).ask("GET", path, "", headers);
  }
  nlohmann::json completion(const nlohmann::json& body) const { return nlohmann::json::parse(post("/v1/completions", body).body); }
  nlohmann::json chat(const nlohmann::json& body) const { return nlohmann::json::parse(post("/v1/chat/completions", body).body); }

  /// The value of a line of /metrics.
  double metric(const std::string& name) const {
    const std::string text = get("/metrics").body, key = "\nlazyprune_" + name + ' ';
    const std::size_t at = text.find(key);
    return at == std::string::npos ? -1 : std::stod(text.substr(at + key.size()));
  }

  /// Ends the server, or waits for its end if it failed.
  program_result end() {
    if (is_up()) program_.send(SIGTERM);
    return program_.wait();
  }

 private:
  static std::vector<std::string> arguments(std::vector<std::string> more) {
    more.insert(more.begin(), {"serve", "--port", "0", "-t", "1"});
    return more;
  }

  running_program program_;
  std::uint16_t port_ = 0;
};

}  // namespace lazyprune_test
