// SPDX-License-Identifier: MIT
#include "serve/http_server.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fault.hpp>
#include "programs/serve/http_client.hpp"

using namespace lazyprune::program;
using lazyprune_test::error_of;
using lazyprune_test::http_answer;
using lazyprune_test::http_client;

namespace {

/// A server in a thread of its own. It answers /echo with the request, streams /events, throws at /throw, and leaves /wait open.
class echo_server {
 public:
  /// `slow`: what the handler of /slow waits for.
  explicit echo_server(http_options options = {}, std::shared_future<void> slow = {})
      : slow_(std::move(slow)),
        server_(prepared(std::move(options)), [this](http_request request, http_reply reply) { answer(std::move(request), reply); }),
        thread_([this] { server_.run(std::chrono::seconds(drain)); }) {}
  ~echo_server() {
    server_.drain();
    thread_.join();
  }

  std::uint16_t port() const { return server_.port(); }
  http_server& server() { return server_; }

  /// The answer to the last request of /wait.
  http_reply waiting() {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (!waiting_.empty()) return waiting_.back();
      }
      std::this_thread::yield();
    }
  }

  static constexpr int drain = 1;
  std::atomic<int> lost{0};

 private:
  static http_options prepared(http_options options) {
    options.port = 0;
    return options;
  }

  void answer(http_request request, const http_reply& reply) {
    if (request.path == "/slow") slow_.wait();
    if (request.path == "/throw") throw std::runtime_error("a fault of the handler");
    if (request.path == "/events") {
      reply.begin_events();
      reply.event("one");
      reply.event("two");
      return reply.end_events();
    }
    if (request.path == "/wait") {
      reply.when_lost([this] { ++lost; });
      const std::lock_guard lock(mutex_);
      waiting_.push_back(reply);
      return;
    }
    reply.send(200, "text/plain", request.method + ' ' + request.path + ' ' + request.body);
  }

  std::shared_future<void> slow_;
  std::mutex mutex_;
  std::vector<http_reply> waiting_;
  http_server server_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("a connection takes one request after another") {
  echo_server server;
  http_client client(server.port());
  const http_answer first = client.ask("POST", "/echo?query=1", "the body");
  CHECK(first.status == 200);
  CHECK(first.body == "POST /echo the body");
  client.request("GET", "/events");
  client.request("GET", "/echo");  // sent before the answer to the first one has come
  const http_answer events = client.read();
  CHECK(events.head.find("text/event-stream") != events.head.npos);
  CHECK(events.body == "data: one\n\ndata: two\n\n");
  CHECK(client.read().body == "GET /echo ");
  const http_answer last = client.ask("GET", "/echo", "", "Connection: close\r\n");
  CHECK(last.status == 200);
  CHECK(client.is_closed());
}

TEST_CASE("a target may be a whole URI, and empty lines before a request are ignored") {
  http_options options;
  options.allows = [](std::string_view path, std::string_view) { return path != "/closed"; };
  echo_server server(options);
  http_client client(server.port());
  CHECK(client.ask("GET", "http://here:80/echo?query=1").body == "GET /echo ");
  CHECK(client.ask("GET", "HTTP://here").body == "GET / ");
  CHECK(client.ask("GET", "/echo/http://there/").body == "GET /echo/http://there/ ");
  client.send("\r\n");
  CHECK(client.ask("POST", "/echo", "first").body == "POST /echo first");
  client.request("POST", "/echo", "second");
  client.send("\r\n\r");
  CHECK(client.read().body == "POST /echo second");
  client.send("\n");
  CHECK(client.ask("GET", "/echo").body == "GET /echo ");
  CHECK(client.ask("GET", "http://here/closed").status == 401);
}

TEST_CASE("a client that asks whether to send its body is told to go on") {
  http_options options;
  options.body_bytes = 1000;
  echo_server server(options);
  http_client client(server.port());
  client.send("POST /echo HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  CHECK(client.read().status == 100);
  client.send("body");
  CHECK(client.read().body == "POST /echo body");
  http_client too_long(server.port());
  too_long.send("POST /echo HTTP/1.1\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n");
  CHECK(too_long.read().status == 413);
}

TEST_CASE("an HTTP/1.0 client gets events until the connection ends") {
  echo_server server;
  http_client client(server.port());
  client.send("GET /events HTTP/1.0\r\n\r\n");
  CHECK(client.wait_for("data: one\n\ndata: two\n\n"));
  CHECK(client.is_closed());
  http_client slow(server.port());
  slow.send("GET /wait HTTP/1.0\r\n\r\n");
  const http_reply reply = server.waiting();
  const std::string large(8 << 20, 'x');  // more than the system takes at once
  reply.begin_events();
  reply.event(large);
  reply.event("end");
  reply.end_events();
  CHECK(slow.wait_for("data: end\n\n"));
  CHECK(slow.is_closed());
}

TEST_CASE("a request that cannot be answered gets a status, and the others go on") {
  http_options options;
  options.body_bytes = 1000;
  echo_server server(options);
  http_client good(server.port());
  CHECK(good.ask("GET", "/echo").status == 200);
  CHECK(http_client(server.port()).ask("POST", "/echo", std::string(1001, 'x')).status == 413);
  CHECK(http_client(server.port()).ask("POST", "/echo", std::string(1000, 'x')).status == 200);
  CHECK(http_client(server.port()).ask("GET", "/echo", "", "Long: " + std::string(80000, 'x') + "\r\n").status == 431);
  http_client bad(server.port());
  bad.send("this is no HTTP\r\n\r\n");
  CHECK(bad.read().status == 400);
  CHECK(bad.is_closed());
  CHECK(http_client(server.port()).ask("GET", "/throw").status == 500);
  http_client cut(server.port());
  cut.send("POST /echo HTTP/1.1\r\nContent-Length: 50\r\n\r\nhalf");
  cut.leave();
  CHECK(good.ask("GET", "/echo").status == 200);
}

TEST_CASE("a request that is not allowed is refused before its body is read") {
  http_options options;
  options.allows = [](std::string_view path, std::string_view authorization) { return path == "/open" || authorization == "Bearer key"; };
  options.refusal = "no key";
  std::string told;
  options.refused = [&](const http_request& request, unsigned status) {
    told += request.method + ' ' + request.path + ' ' + std::to_string(status) + '\n';
  };
  echo_server server(options);
  http_client client(server.port());
  client.send("POST /echo HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n");
  const http_answer refused = client.read();
  CHECK(refused.status == 401);
  CHECK(refused.body == "no key");
  CHECK(client.is_closed());
  CHECK(http_client(server.port()).ask("POST", "/echo", "body", "Authorization: Bearer key\r\n").body == "POST /echo body");
  CHECK(http_client(server.port()).ask("GET", "/open?a=b").body == "GET /open ");
  CHECK(http_client(server.port()).ask("POST", "/open", std::string((8 << 20) + 1, 'x')).status == 413);
  CHECK(told == "POST /echo 401\nPOST /open 413\n");
}

TEST_CASE("a request that takes no time does not wait for one whose handler takes long") {
  http_options options;
  options.at_once = [](const http_request& request, const http_reply& reply) {
    if (request.path != "/health") return false;
    reply.send(200, "text/plain", "well");
    return true;
  };
  std::promise<void> done;
  echo_server server(options, done.get_future().share());
  http_client slow(server.port()), behind(server.port());
  slow.request("GET", "/slow");
  behind.request("GET", "/echo");
  for (int i = 0; i < 3; ++i) CHECK(http_client(server.port()).ask("GET", "/health").body == "well");
  done.set_value();
  CHECK(slow.read().body == "GET /slow ");
  CHECK(behind.read().body == "GET /echo ");
}

TEST_CASE("the bodies of all open requests together have a bound") {
  http_options options;
  options.all_body_bytes = 100;
  echo_server server(options);
  const std::string body(60, 'x');
  http_client first(server.port());
  first.request("POST", "/wait", body);
  const http_reply reply = server.waiting();
  CHECK(http_client(server.port()).ask("POST", "/echo", body).status == 503);
  CHECK(http_client(server.port()).ask("POST", "/echo", "short").status == 200);
  CHECK(http_client(server.port()).ask("GET", "/echo").status == 200);
  {
    http_client second(server.port());
    second.request("POST", "/wait", std::string(30, 'x'));
    server.waiting();
  }  // a client that leaves releases its bytes
  while (server.lost == 0) std::this_thread::yield();
  reply.send(200, "text/plain", "done");
  CHECK(first.read().body == "done");
  while (http_client(server.port()).ask("POST", "/echo", std::string(100, 'x')).status != 200) std::this_thread::yield();
}

TEST_CASE("a client that takes nothing of its answer is cut off, and the others get theirs") {
  http_options options;
  options.stalled = std::chrono::seconds(1);
  echo_server server(options);
  http_client slow(server.port());
  slow.request("GET", "/wait");
  const http_reply reply = server.waiting();
  reply.begin_events();
  const std::string text(1 << 20, 'x');
  for (int i = 0; i < 64; ++i) reply.event(text);  // more than the system takes for the client
  http_client other(server.port());
  std::size_t answers = 0;
  for (; server.lost == 0; ++answers) CHECK(other.ask("GET", "/echo").body == "GET /echo ");
  CHECK(answers > 10);
  CHECK(other.ask("GET", "/events").body == "data: one\n\ndata: two\n\n");
}

TEST_CASE("the server notices that a client leaves which has sent its next request already") {
  echo_server server;
  {
    http_client client(server.port());
    client.request("GET", "/wait");
    server.waiting();
    client.request("GET", "/echo");
  }
  while (server.lost == 0) std::this_thread::yield();
}

TEST_CASE("the server knows that a client has left before it writes") {
  echo_server server;
  {
    http_client client(server.port());
    client.request("GET", "/wait");
    server.waiting();
    CHECK(server.lost == 0);
  }
  while (server.lost == 0) std::this_thread::yield();
  const http_reply reply = server.waiting();
  reply.begin_events();  // does nothing
  reply.event("late");
  reply.end_events();
  std::promise<void> called;
  reply.when_lost([&called] { called.set_value(); });  // the client has left already
  called.get_future().wait();
  CHECK(server.lost == 1);
}

TEST_CASE("what comes after the end of an answer does not reach the next one") {
  echo_server server;
  http_client client(server.port());
  client.request("GET", "/wait");
  const http_reply reply = server.waiting();
  reply.send(200, "text/plain", "first");
  reply.send(200, "text/plain", "too late");
  CHECK(client.read().body == "first");
  reply.send(200, "text/plain", "too late");
  CHECK(client.ask("GET", "/echo").body == "GET /echo ");
  CHECK(server.lost == 0);
}

TEST_CASE("connections beyond the limit are closed at once, and leave room when they end") {
  http_options options;
  options.connections = 2;
  echo_server server(options);
  http_client one(server.port());
  CHECK(one.ask("GET", "/echo").status == 200);
  {
    http_client two(server.port());
    CHECK(two.ask("GET", "/echo").status == 200);
    CHECK(server.server().connections() == 2);
    http_client three(server.port());
    CHECK(three.is_closed());
    CHECK(one.ask("GET", "/echo").status == 200);
  }
  while (server.server().connections() > 1) std::this_thread::yield();
  CHECK(http_client(server.port()).ask("GET", "/echo").status == 200);
}

TEST_CASE("idle connections cost no threads, and the answers stay the same") {
  http_options options;
  options.connections = 2000;
  echo_server server(options);
  const auto threads = [] {
    const std::filesystem::directory_iterator all("/proc/self/task");
    return std::distance(begin(all), end(all));
  };
  CHECK(http_client(server.port()).ask("GET", "/echo").status == 200);
  const auto before = threads();
  constexpr std::size_t count = 400;
  std::vector<std::unique_ptr<http_client>> idle;
  for (std::size_t i = 0; i < count; ++i) idle.push_back(std::make_unique<http_client>(server.port()));
  while (server.server().connections() < count) std::this_thread::yield();
  CHECK(threads() == before);
  CHECK(http_client(server.port()).ask("GET", "/echo").body == "GET /echo ");
}

TEST_CASE("a server that drains answers open requests, and takes no new ones") {
  auto server = std::make_unique<echo_server>();
  http_client open(server->port()), idle(server->port());
  CHECK(idle.ask("GET", "/echo").status == 200);
  open.request("GET", "/wait");
  const http_reply reply = server->waiting();
  server->server().drain();
  CHECK(idle.is_closed());
  reply.send(200, "text/plain", "the last answer");
  CHECK(open.read().body == "the last answer");
  CHECK(open.is_closed());
  CHECK_THROWS(http_client(server->port()));
}

TEST_CASE("a server that has drained does not handle signals any more, even if a reply to it is kept") {
  const auto handles = [](int signal) {
    struct sigaction now {};
    ::sigaction(signal, nullptr, &now);
    return now.sa_handler != SIG_DFL;
  };
  auto server = std::make_unique<echo_server>();
  http_client open(server->port());
  open.request("GET", "/wait");
  const http_reply reply = server->waiting();
  for (const int signal : {SIGINT, SIGTERM}) CHECK(handles(signal));
  server.reset();
  for (const int signal : {SIGINT, SIGTERM}) CHECK(!handles(signal));
}

TEST_CASE("requests that are still open when the time to drain is over are cut off") {
  auto server = std::make_unique<echo_server>();
  http_client open(server->port());
  open.request("GET", "/wait");
  server->waiting();
  server.reset();
  CHECK(open.is_closed());
}

TEST_CASE("a port or an address that cannot be used is an error") {
  echo_server server;
  http_options same;
  same.port = server.port();
  CHECK(error_of([&] { http_server second(same, {}); }).code == lazyprune::error_code::io);
  http_options wrong;
  wrong.host = "not an address";
  CHECK(error_of([&] { http_server none(wrong, {}); }).where == "--host");
}
