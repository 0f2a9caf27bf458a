// SPDX-License-Identifier: MIT
// An HTTP/1.1 server on Boost.Beast. One thread holds all connections, so an idle connection costs no thread. While a request is answered,
// the server watches its connection, so it notices at once when the client leaves.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lazyprune {
namespace program {

struct http_request {
  std::string method;  // "GET", "POST", ...
  std::string path;    // the target without its query
  std::string body;
};

class http_reply;

struct http_options {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;               // 0: a free port, see http_server::port
  std::size_t connections = 1024;          // further ones are closed at once
  std::size_t body_bytes = 8 << 20;        // a longer body is refused (413)
  std::size_t all_body_bytes = 256 << 20;  // of all open requests together; a further body is refused (503)
  std::chrono::seconds idle{75};           // a connection without a request is closed after this time
  std::chrono::seconds stalled{60};        // a client that takes this long to send a request, or to take what is written, is cut off
  // Answers requests that take no time, and returns whether it has answered. The server's thread calls it, so such a request does not wait
  // for others. Empty: the handler answers all requests.
  std::function<bool(const http_request&, const http_reply&)> at_once{};
  // Returns whether to read the body of a request to this path with this Authorization header. If not, the client gets status 401 and
  // `refusal`, a JSON text. The server's thread calls it. Empty: all requests are allowed.
  std::function<bool(std::string_view path, std::string_view authorization)> allows{};
  std::string refusal{};
  // Called with the status of a request that the server refuses itself, so the handler does not get it. The request has no body, and its
  // path is empty if the server could not read it. The server's thread calls it.
  std::function<void(const http_request&, unsigned status)> refused{};
};

class http_connection;
class http_listener;

/// The answer to one request. Copies stand for the same answer. All functions may be called by any thread, and return at once. `send` and
/// the functions for events do nothing after the end of the answer or after the client has left.
class http_reply {
 public:
  using headers = std::vector<std::pair<std::string, std::string>>;

  /// The answer to the request of this number on this connection. The server makes it.
  http_reply(std::shared_ptr<http_listener> server, std::weak_ptr<http_connection> to, std::size_t request)
      : server_(std::move(server)), to_(std::move(to)), request_(request) {}

  /// Sends a whole answer.
  void send(unsigned status, std::string_view type, std::string body, headers more = {}) const;

  /// Begins an answer of server-sent events.
  void begin_events() const;
  /// Sends an event. `data` has no line break.
  void event(std::string_view data) const;
  /// Ends an answer that `begin_events` began.
  void end_events() const;

  /// Sets what the server's thread calls if the client leaves before the answer has ended. If the client has left, or the
  /// connection is at a later request, the thread calls it now.
  void when_lost(std::function<void()> lost) const;

 private:
  template <class Work>
  void post(Work work) const;

  std::shared_ptr<http_listener> server_;
  std::weak_ptr<http_connection> to_;
  std::size_t request_;
};

class http_server {
 public:
  using handler = std::function<void(http_request, http_reply)>;

  /// Opens the port. `handle` answers requests: a second thread calls it, one request at a time. It may keep the http_reply and answer
  /// after it has returned. If it throws, the client gets status 500. Throws `error` if the port cannot be
  /// opened.
  http_server(http_options options, handler handle);
  ~http_server();
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  /// The port that was opened.
  std::uint16_t port() const;
  /// The connections that are open now.
  std::size_t connections() const;

  /// Serves until `drain`, SIGINT or SIGTERM. Then it accepts no more connections, waits at most `within` for the open requests, and
  /// returns. A second signal ends it at once. `ending` is called when it begins to drain. Call it once. While it runs, it handles both
  /// signals. After it has returned, they have their default effect.
  void run(std::chrono::seconds within, std::function<void()> ending = {});
  /// Makes `run` drain, from any thread.
  void drain();

 private:
  std::shared_ptr<http_listener> in_;
};

}  // namespace program
}  // namespace lazyprune
