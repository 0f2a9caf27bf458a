// SPDX-License-Identifier: MIT
// Calls for the server's cache file fail. The server answers as if nothing had happened, or says in one line which file is at fault.
#include <chrono>

#include "faulty_runs.hpp"
#include "programs/serve/served.hpp"

using namespace lazyprune_test;

namespace {

using json = nlohmann::json;

/// Asks about a prompt that is long enough for the server to keep its beginning.
json request() {
  std::string prompt;
  for (int i = 0; i < 60; ++i) prompt += "the old council remembered ";
  return {{"prompt", prompt}, {"max_tokens", 4}, {"temperature", 0}};
}

/// Returns the text of an answer. The server must not leave its client waiting.
std::string asked(const served& server) {
  const auto start = std::chrono::steady_clock::now();
  const json answer = server.completion(request());
  REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  return answer["choices"][0]["text"];
}

}  // namespace

TEST_CASE("each call for the cache file fails once: the server answers as before, or says in one line what failed; the old file stays") {
  const temporary_folder files, logs;
  const std::string cache = files / "cache", log = logs / "log";
  const auto start = [&](const std::string& fault) {
    return served({"--cache-file", cache, "--least-tokens", "0"},
                  fault.empty() ? std::vector<std::string>{} : with_fault(fault, files.path(), log), true);
  };
  std::string expected;
  for (const char* fault : {"", "list"}) {
    served server = start(fault);
    expected = asked(server);
    REQUIRE_FALSE(expected.empty());
    REQUIRE(server.end().code == 0);
  }
  const std::vector<call_fault> all = faults_of(log);
  CHECK(all.size() > 50);
  std::size_t failed = 0;
  for (const std::size_t i : drawn(every_fault() ? all.size() : test_all ? 8 : 1, 0, all.size())) {
    const call_fault& fault = all[i];
    CAPTURE(fault.text());
    served server = start(fault.text());
    if (server.is_up()) REQUIRE(asked(server) == expected);
    const program_result end = server.end();
    const std::vector<std::string> made = lines_of(file_text(log));
    REQUIRE(made.size() == 1);
    if (end.code == 0) {
      REQUIRE((fault.must_pass() || !fault.must_fail()));
    } else {
      ++failed;
      REQUIRE_MESSAGE(!fault.must_pass(), end.err);
      check_complaint(end, made[0]);
    }
    const std::vector<std::string> left = remains(files.path(), false);
    if (fault.call != "unlink") REQUIRE(left == std::vector<std::string>{});
    for (const std::string& file : left) REQUIRE(std::filesystem::remove(std::filesystem::path(files.path()) / file));
    served next = start("");
    REQUIRE(next.is_up());
    REQUIRE(asked(next) == expected);
    REQUIRE(next.end().code == 0);
  }
  MESSAGE(failed << " faults ended the server");
}

TEST_CASE("one allocation fails while a request is answered: the request is answered or refused, or the server ends with one line") {
  if (!test_all) {
    skip("a program without sanitizers, whose operator new can be replaced");
    return;
  }
  const temporary_folder logs;
  const std::string log = logs / "log";
  std::string expected;
  {
    served server;
    expected = asked(server);
    REQUIRE(server.end().code == 0);
  }
  std::size_t failed = 0, ended = 0;
  for (const std::size_t n : drawn(every_fault() ? 500 : 6, 1, 3000)) {
    CAPTURE(n);
    served server({}, with_fault("new:0:0", logs.path(), log));
    server.program().send(SIGUSR1, static_cast<int>(n));
    const auto start = std::chrono::steady_clock::now();
    while (file_text(log).find("armed ") == std::string::npos) REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
    const auto answer = [&] {
      try {
        return server.post("/v1/completions", request());
      } catch (const std::runtime_error&) {  // the server has ended
        return http_answer{};
      }
    };
    bool made = false;
    for (int times = 0; times < 3 && !made; ++times) {
      const http_answer first = answer();
      REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
      made = file_text(log).find("new ") != std::string::npos;
      REQUIRE((first.status == 200 || made));
      REQUIRE((first.status == 200 || first.status == 0 || first.status >= 500));  // 0: the connection was closed
      if (first.status == 200) REQUIRE(json::parse(first.body)["choices"][0]["text"] == expected);
    }
    if (!made) continue;
    ++failed;
    const http_answer next = answer();
    const program_result end = server.end();
    if (end.code == 0) {
      REQUIRE(next.status == 200);
      REQUIRE(json::parse(next.body)["choices"][0]["text"] == expected);
    } else {
      ++ended;
      check_complaint(end);
      REQUIRE(end.code == 3);
    }
  }
  MESSAGE(failed << " allocations failed; " << ended << " ended the server");
}
