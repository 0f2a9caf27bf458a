// SPDX-License-Identifier: MIT
// Calls of the server fail: for its cache file, for its connections, for memory. The server answers as if nothing had happened, closes one
// connection, or ends and says in one line why.
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

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

/// Returns the text in the body of an answer, or in events. If the server did not end them, the last part is missing.
std::string text_in(const std::string& body) {
  std::string text;
  for (std::string line : lines_of(body)) {
    if (line.starts_with("data: ")) line.erase(0, 6);
    const json part = json::parse(line, nullptr, false);
    if (part.is_object())
      for (const json& choice : part.value("choices", json::array())) text += choice["text"].get<std::string>();
  }
  return text;
}

/// Returns what a client gets on one connection: an answer, an answer in events, and one with this many tokens, to a request that it sends
/// together with the next one. The texts are empty after the connection is lost.
std::vector<std::string> talk(const served& server, std::size_t tokens) {
  const auto start = std::chrono::steady_clock::now();
  json asked{{"prompt", "the old council"}, {"max_tokens", 4}, {"temperature", 0}}, events = asked;
  events["stream"] = true;
  http_client client(server.port());
  std::vector<std::string> texts;
  for (const json& each : {asked, events}) texts.push_back(text_in(client.ask("POST", "/v1/completions", each.dump()).body));
  asked["max_tokens"] = tokens;
  client.request("POST", "/v1/completions", asked.dump());
  client.request("GET", "/health");
  texts.push_back(text_in(client.read().body));
  texts.push_back(client.read().body);
  REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  return texts;
}

/// A way in which calls for connections fail.
struct connection_fault {
  std::string call;
  int code;    // an errno, or 0 if the call does half of its work
  bool loses;  // whether the server may lose the connection

  std::string text(std::size_t number) const {
    return call + ':' + std::to_string(number) + ':' + (code == 0 ? "short" : std::to_string(code));
  }
};

std::vector<connection_fault> connection_faults() {
  std::vector<connection_fault> all;
  const auto add = [&](const std::string& call, std::initializer_list<int> codes, bool loses) {
    for (const int code : codes) all.push_back({call, code, loses});
  };
  add("accept", {ENFILE, ENOBUFS, ENOMEM, EPROTO, EPERM, ENETDOWN, EHOSTUNREACH, ETIMEDOUT, ECONNABORTED, EMFILE, EINTR}, false);
  add("recv", {EINTR, 0}, false);
  add("recv", {ECONNRESET, ETIMEDOUT, EHOSTUNREACH, ENOMEM, ENOBUFS}, true);
  add("send", {EINTR, 0}, false);
  add("send", {EPIPE, ECONNRESET, ETIMEDOUT, EHOSTUNREACH, ENOMEM, ENOBUFS}, true);
  add("epoll_ctl", {ENOMEM, ENOSPC}, true);
  add("epoll_wait", {EINTR}, false);
  add("poll", {EINTR, ENOMEM}, false);
  add("setsockopt", {ENOMEM, ENOBUFS}, false);
  add("shutdown", {ENOTCONN, ENOBUFS}, false);
  add("close", {EINTR, EIO}, false);
  return all;
}

}  // namespace

TEST_CASE("each call for a connection fails once: the server answers, or loses this connection; it answers the next one as before") {
  const temporary_folder logs;
  const std::string log = logs / "log";
  const std::vector<connection_fault> all = connection_faults();
  std::size_t faults = 0, lost = 0;
  for (const std::size_t i : drawn(every_fault() ? all.size() : test_all ? 6 : 1, 0, all.size())) {
    const connection_fault& fault = all[i];
    CAPTURE(fault.text(0));
    served server({}, with_fault_under("socket:anon_inode", fault.text(0), log));
    const auto is_idle = [&, files = server.program().open_files()] { return server.program().open_files() == files; };
    const bool polls = fault.call == "poll";  // the server calls it four times a second
    const std::size_t tokens = polls ? 3000 : 4, most = polls ? 2 : 100;
    const std::vector<std::string> expected = talk(server, tokens);
    for (const std::string& text : expected) REQUIRE_FALSE(text.empty());
    server.program().until(is_idle);
    bool made = true;
    for (std::size_t n = 1; made && n <= most; ++n) {
      CAPTURE(n);
      std::filesystem::remove(log);
      server.program().send(SIGUSR1, static_cast<int>(n));
      server.program().until([&] { return file_text(log).find("armed ") != std::string::npos; });
      const std::vector<std::string> found = talk(server, tokens);
      server.program().until(is_idle);  // no socket stays open
      made = file_text(log).find(fault.call) != std::string::npos;
      REQUIRE((made || n > 1));
      if (found != expected) {
        REQUIRE((made && fault.loses));
        ++lost;
        for (std::size_t k = 0; k < expected.size(); ++k) REQUIRE(expected[k].starts_with(found[k]));
      }
      if (!made) continue;
      ++faults;
      REQUIRE(talk(server, tokens) == expected);
      server.program().until(is_idle);
      REQUIRE(server.metric("connections") == 1);
      server.program().until(is_idle);
    }
    const program_result end = server.end();
    REQUIRE_MESSAGE(end.code == 0, end.err);
    REQUIRE(end.err.find("lazyprune: ") == std::string::npos);
  }
  MESSAGE(faults << " faults, which lost " << lost << " connections");
}

// Asio does not notice if it cannot watch its own event and timer, so only the calls for sockets fail.
TEST_CASE("a call for the port fails while the server starts: it answers, or says in one line that it cannot") {
  const temporary_folder logs;
  const std::string log = logs / "log";
  std::vector<std::string> expected;
  std::size_t refused = 0;
  for (const connection_fault& fault : {connection_fault{"epoll_ctl", ENOSPC, false}, connection_fault{"setsockopt", ENOMEM, false}})
    for (const std::size_t n : {0u, 1u, 2u, 3u, 4u}) {
      CAPTURE(fault.text(n));
      served server({}, with_fault_under("socket", fault.text(n), log), true);
      if (server.is_up()) {
        for (std::size_t i = 0; i < n; ++i) talk(server, 4);  // the fault may lose one of these connections
        const auto found = talk(server, 4);
        if (n == 0) expected = found;
        REQUIRE(found == expected);
      }
      const program_result end = server.end();
      if (end.code == 0) continue;
      ++refused;
      check_complaint(end);
      REQUIRE(end.code == 3);
    }
  REQUIRE(refused > 0);
}

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
