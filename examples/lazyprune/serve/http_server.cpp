// SPDX-License-Identifier: MIT
#include "serve/http_server.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <new>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include <poll.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include <lazyprune/core/error.hpp>

namespace lazyprune {
namespace program {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

/// The text of a header or of a whole message.
template <class Message>
std::string message_text(const Message& message) {
  std::ostringstream out;
  out << message;
  return std::move(out).str();
}

std::string view_text(beast::string_view text) { return {text.data(), text.size()}; }

/// The path of a target, which may also be a whole URI (RFC 9112, section 3.2.2).
std::string path_of(beast::string_view target) {
  const std::string path = view_text(target.substr(0, target.find('?')));
  const std::size_t authority = path.starts_with('/') ? path.npos : path.find("://");
  if (authority == path.npos) return path;
  const std::size_t slash = path.find('/', authority + 3);
  return slash == path.npos ? "/" : path.substr(slash);
}

/// Returns whether the fault is the request's, and not the connection's.
bool is_malformed(error_code fault) {
  return fault.category() == http::make_error_code(http::error::bad_method).category() && fault != http::error::end_of_stream &&
         fault != http::error::partial_message;
}

}  // namespace

class http_listener : public std::enable_shared_from_this<http_listener> {
 public:
  http_listener(http_options asked, http_server::handler answers);

  void run(std::chrono::seconds within, std::function<void()> ending);
  void begin_drain();
  std::uint16_t port() const { return acceptor.local_endpoint().port(); }

  // The connections see these members, which are destroyed after `io`.
  http_options options;
  http_server::handler handle;
  std::set<http_connection*> open{};
  std::atomic<std::size_t> count{0};
  std::size_t body_bytes = 0;  // of requests that are not answered yet
  bool draining = false;

  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::thread_pool worker{1};  // calls `handle`

 private:
  void accept();
  void await_signal();
  void end_if_idle();
  friend class http_connection;

  asio::signal_set signals_{io};
  asio::steady_timer deadline_{io}, pause_{io};
  std::chrono::seconds within_{0};
  std::function<void()> ending_{};
  bool accepts_ = false, awaits_signal_ = false;
};

class http_connection : public std::enable_shared_from_this<http_connection> {
 public:
  http_connection(tcp::socket socket, http_listener& server) : server_(server), stream_(std::move(socket)), clock_(server.io) {
    server_.open.insert(this);
    server_.count = server_.open.size();
  }
  ~http_connection() {
    release_body();
    server_.open.erase(this);
    server_.count = server_.open.size();
    server_.end_if_idle();
  }
  http_connection(const http_connection&) = delete;
  http_connection& operator=(const http_connection&) = delete;

  /// Returns whether the connection is still at this request.
  bool is_at(std::size_t request) const { return request == requests_; }

  /// Waits for the next request.
  void read() {
    if (server_.draining) return close();
    idle_ = true;
    parser_.emplace();
    parser_->header_limit(64 << 10);
    parser_->body_limit(server_.options.body_bytes);
    stream_.expires_after(server_.options.idle);
    buffer_.shrink_to_fit();
    await_first_bytes();
  }

  /// Ends a connection that waits for a request.
  void close_if_idle() {
    if (idle_) close();
  }

  void close() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.socket().close(ignored);
    lost();
  }

  void send(unsigned status, std::string_view type, std::string body, const http_reply::headers& more) {
    if (!answering_) return;
    http::response<http::string_body> answer{static_cast<http::status>(status), version_};
    answer.set(http::field::content_type, beast::string_view(type.data(), type.size()));
    for (const auto& [name, value] : more) answer.set(name, value);
    answer.body() = std::move(body);
    answer.keep_alive(keeps());
    answer.prepare_payload();
    if (head_) answer.body().clear();
    write(message_text(answer));
    answering_ = false;
  }

  void begin_events() {
    if (!answering_ || events_) return;
    events_ = true;
    http::response<http::empty_body> answer{http::status::ok, version_};
    answer.set(http::field::content_type, "text/event-stream; charset=utf-8");
    answer.set(http::field::cache_control, "no-cache");
    if (version_ >= 11) {
      answer.chunked(true);
      answer.keep_alive(keeps());
    } else {
      keep_alive_ = false;  // the end of the connection is the end of the answer
      answer.keep_alive(false);
    }
    write(message_text(answer.base()));
  }

  void event(std::string_view data) {
    if (!answering_ || !events_) return;
    const std::string text = "data: " + std::string(data) + "\n\n";
    write(version_ < 11 ? text : beast::buffers_to_string(http::make_chunk(asio::buffer(text))));
  }

  void end_events() {
    if (!answering_ || !events_) return;
    answering_ = events_ = false;
    if (version_ >= 11) return write(beast::buffers_to_string(http::make_chunk_last()));
    if (out_.empty() && !writing_) next();
  }

  /// Does this work. If it throws, closes the connection, because nobody would end its answer.
  template <class Work>
  void or_close(const Work& work) {
    try {
      work();
    } catch (...) {
      close();
      throw;
    }
  }

  void when_lost(std::function<void()> call) {
    if (gone_) return call();
    if (answering_) lost_ = std::move(call);
  }

 private:
  /// Waits for the first bytes of a request, which may take `idle`. The rest must arrive within `stalled`.
  void await_first_bytes() {
    // Some clients send an empty line before a request (RFC 9112, section 2.2).
    const std::string_view got(static_cast<const char*>(buffer_.data().data()), buffer_.size());
    buffer_.consume(std::min(got.find_first_not_of("\r\n"), got.size()));
    if (buffer_.size() > 0) return read_request();
    stream_.async_read_some(buffer_.prepare(512), [self = shared_from_this()](error_code fault, std::size_t bytes) {
      if (fault) return self->close();
      self->buffer_.commit(bytes);
      self->await_first_bytes();
    });
  }

  bool keeps() const { return keep_alive_ && !server_.draining; }

  void read_request() {
    idle_ = false;
    stream_.expires_after(server_.options.stalled);
    http::async_read_header(stream_, buffer_, *parser_, [self = shared_from_this()](error_code fault, std::size_t) {
      if (fault) return self->took(fault);
      if (!self->is_allowed())
        return self->refuse_unread(401, "application/json", self->server_.options.refusal, {{"WWW-Authenticate", "Bearer"}});
      if (!self->reserve_body())
        return self->refuse_unread(503, "text/plain; charset=utf-8", "the open requests have too many bytes; try again later\n",
                                   {{"Retry-After", "1"}});
      if (!beast::iequals(self->parser_->get()[http::field::expect], "100-continue")) return self->read_body({});
      // The client waits for this line before it sends the body, as curl does for long ones.
      self->sent_ = "HTTP/1.1 100 Continue\r\n\r\n";
      asio::async_write(self->stream_, asio::buffer(self->sent_), [self](error_code cut, std::size_t) { self->read_body(cut); });
    });
  }

  bool is_allowed() const {
    const auto& head = parser_->get();
    return !server_.options.allows || server_.options.allows(path_of(head.target()), view_text(head[http::field::authorization]));
  }

  /// Counts the body among those of the open requests. Returns false, and counts nothing, if they would have too many bytes.
  bool reserve_body() {
    if (!parser_->chunked() && !parser_->content_length()) return true;
    const std::size_t bytes =
        std::min<std::uint64_t>(parser_->content_length().value_or(server_.options.body_bytes), server_.options.body_bytes);
    if (server_.body_bytes + bytes > server_.options.all_body_bytes) return false;
    server_.body_bytes += bytes;
    reserved_ = bytes;
    return true;
  }

  void release_body() { server_.body_bytes -= std::exchange(reserved_, 0); }

  void tell_refused(unsigned status) const {
    const auto& head = parser_->get();
    if (server_.options.refused) server_.options.refused({view_text(head.method_string()), path_of(head.target()), ""}, status);
  }

  /// Answers a request without reading its body, and so ends the connection.
  void refuse_unread(unsigned status, std::string_view type, std::string why, const http_reply::headers& more) {
    stream_.expires_never();
    answering_ = true;
    keep_alive_ = false;
    version_ = parser_->get().version() == 10 ? 10 : 11;
    head_ = parser_->get().method() == http::verb::head;
    tell_refused(status);
    send(status, type, std::move(why), more);
  }

  void read_body(error_code fault) {
    if (fault) return took(fault);
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code cut, std::size_t) { self->took(cut); });
  }

  void took(error_code fault) {
    if (gone_) return;
    stream_.expires_never();
    const bool understood = !fault;
    answering_ = true;
    events_ = false;
    version_ = parser_->is_header_done() ? parser_->get().version() : 11;
    if (version_ != 10) version_ = 11;
    keep_alive_ = understood && parser_->get().keep_alive();
    head_ = understood && parser_->get().method() == http::verb::head;
    if (!understood) {
      const auto refuse = [&](unsigned status, const char* why) {
        tell_refused(status);
        send(status, "text/plain; charset=utf-8", why, {});
      };
      if (fault == http::error::body_limit) return refuse(413, "the body is too long\n");
      if (fault == http::error::header_limit) return refuse(431, "the headers are too long\n");
      if (is_malformed(fault)) return refuse(400, "this is not HTTP\n");
      answering_ = false;
      return close();
    }
    http::request<http::string_body> read = parser_->release();
    http_request request{view_text(read.method_string()), path_of(read.target()), std::move(read.body())};
    watch();
    const http_reply reply(server_.shared_from_this(), weak_from_this(), requests_);
    kept_ = shared_from_this();  // until the answer has ended
    or_close([&] {
      if (server_.options.at_once && server_.options.at_once(request, reply)) return;
      asio::post(server_.worker, [&handle = server_.handle, request = std::move(request), reply]() mutable {
        try {
          handle(std::move(request), reply);
        } catch (const std::exception& e) {
          reply.send(500, "text/plain; charset=utf-8", std::string(e.what()) + "\n");
        }
      });
    });
  }

  /// Waits until the client sends something or leaves. The server reads the next request after this answer.
  void watch() {
    stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this(), request = requests_](error_code fault) {
      if (fault || request != self->requests_) return;
      char byte;
      error_code why;
      self->stream_.socket().non_blocking(true, why);
      const std::size_t bytes = self->stream_.socket().receive(asio::buffer(&byte, 1), tcp::socket::message_peek, why);
      if (why == asio::error::would_block) return self->watch();
      if (why || bytes == 0) return self->close();
      self->watch_by_clock();
    });
  }

  /// Watches a client that has sent its next request already. The socket stays readable, so only the system's flag shows that it leaves.
  void watch_by_clock() {
    clock_.expires_after(std::chrono::milliseconds(250));
    clock_.async_wait([self = shared_from_this(), request = requests_](error_code fault) {
      if (fault || request != self->requests_ || self->gone_) return;
      pollfd state{self->stream_.socket().native_handle(), POLLRDHUP, 0};
      if (::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) return self->close();
      self->watch_by_clock();
    });
  }

  void lost() {
    if (gone_) return;
    gone_ = true;
    clock_.cancel();
    answering_ = false;
    out_.clear();
    const auto self = std::exchange(kept_, {});
    if (const auto call = std::exchange(lost_, {})) call();
  }

  void write(std::string bytes) {
    out_.push_back(std::move(bytes));
    if (!writing_) write_next();
  }

  void write_next() {
    writing_ = true;
    sent_ = std::move(out_.front());
    out_.pop_front();
    stream_.expires_after(server_.options.stalled);
    asio::async_write(stream_, asio::buffer(sent_), [self = shared_from_this()](error_code fault, std::size_t) {
      self->writing_ = false;
      self->stream_.expires_never();
      if (self->gone_) return;
      if (fault) return self->close();
      self->or_close([&] {
        if (!self->out_.empty()) return self->write_next();
        if (!self->answering_) self->next();
      });
    });
  }

  /// Reads the next request, or closes the connection.
  void next() {
    ++requests_;
    clock_.cancel();
    release_body();
    lost_ = {};
    const auto self = std::exchange(kept_, {});
    stream_.cancel();  // the watch
    if (keeps()) return read();
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(std::chrono::seconds(2));
    drop_rest();
  }

  /// Reads what the client still sends, and closes the connection after that. Closing it at once would reset the connection,
  /// and the client could lose the end of the answer.
  void drop_rest() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](error_code fault, std::size_t) {
      if (fault) return self->close();
      self->drop_rest();
    });
  }

  http_listener& server_;
  beast::tcp_stream stream_;
  asio::steady_timer clock_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::shared_ptr<http_connection> kept_;  // this, until the answer has ended
  std::function<void()> lost_;
  std::deque<std::string> out_;
  std::string sent_;
  std::size_t requests_ = 0, reserved_ = 0;  // reserved_: the bytes that reserve_body has counted
  unsigned version_ = 11;
  bool idle_ = false, answering_ = false, events_ = false, writing_ = false, keep_alive_ = false, head_ = false, gone_ = false;
};

http_listener::http_listener(http_options asked, http_server::handler answers) : options(std::move(asked)), handle(std::move(answers)) {
  const auto refuse = [&](const error_code& fault) {
    throw error("--host " + options.host + " --port " + std::to_string(options.port), "", "an address and a port that can be opened",
                fault.message(), lazyprune::error_code::io);
  };
  error_code fault;
  const asio::ip::address address = asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, fault);
  if (fault) throw error("--host", "", "an IP address or localhost", options.host);
  const tcp::endpoint at(address, options.port);
  if (acceptor.open(at.protocol(), fault)) refuse(fault);
  acceptor.set_option(tcp::acceptor::reuse_address(true), fault);
  // Otherwise, Asio waits for a new connection if one was aborted, even if others wait already.
  acceptor.set_option(tcp::acceptor::enable_connection_aborted(true), fault);
  if (acceptor.bind(at, fault) || acceptor.listen(asio::socket_base::max_listen_connections, fault)) refuse(fault);
}

void http_listener::run(std::chrono::seconds within, std::function<void()> ending) {
  within_ = within;
  ending_ = std::move(ending);
  signals_.add(SIGINT);
  signals_.add(SIGTERM);
  for (;;) {
    try {
      if (!awaits_signal_ && !(draining && open.empty())) await_signal();
      if (!accepts_ && !draining) accept();
      io.run();
      break;
    } catch (const std::bad_alloc&) {  // costs the connection that had the memory's share, but not the server
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  // A connection that is still open here has not drained in time.
  worker.join();
  io.restart();
  for (http_connection* const each : std::vector<http_connection*>(open.begin(), open.end())) each->shared_from_this()->close();
  io.poll();
  error_code ignored;
  signals_.clear(ignored);  // an http_reply may keep this object, which would go on catching the signals
}

void http_listener::accept() {
  acceptor.async_accept([this](error_code fault, tcp::socket socket) {
    accepts_ = false;
    if (draining || fault == asio::error::operation_aborted) return;
    if (fault) {  // perhaps no file descriptor is left; a connection that ends gives one back
      pause_.expires_after(std::chrono::milliseconds(50));
      pause_.async_wait([this](error_code) {
        accepts_ = false;
        accept();
      });
      accepts_ = true;
      return;
    }
    if (open.size() < options.connections) {
      socket.set_option(tcp::no_delay(true), fault);
      std::make_shared<http_connection>(std::move(socket), *this)->read();
    }
    accept();
  });
  accepts_ = true;
}

void http_listener::await_signal() {
  signals_.async_wait([this](error_code fault, int) {
    awaits_signal_ = false;
    if (fault) return;
    if (draining) return io.stop();
    await_signal();
    begin_drain();
  });
  awaits_signal_ = true;
}

void http_listener::begin_drain() {
  if (std::exchange(draining, true)) return;
  error_code ignored;
  acceptor.close(ignored);
  pause_.cancel();
  if (ending_) ending_();
  deadline_.expires_after(within_);
  deadline_.async_wait([this](error_code fault) {
    if (!fault) io.stop();
  });
  for (http_connection* const each : std::vector<http_connection*>(open.begin(), open.end())) each->close_if_idle();
  end_if_idle();
}

void http_listener::end_if_idle() {
  if (!draining || !open.empty()) return;
  signals_.cancel();
  deadline_.cancel();
}

template <class Work>
void http_reply::post(Work work) const {
  asio::post(server_->io, [to = to_, request = request_, work = std::move(work)]() mutable {
    const auto c = to.lock();
    if (c && c->is_at(request)) c->or_close([&] { work(*c); });
  });
}

void http_reply::send(unsigned status, std::string_view type, std::string body, headers more) const {
  post([status, type = std::string(type), body = std::move(body), more = std::move(more)](http_connection& c) mutable {
    c.send(status, type, std::move(body), more);
  });
}

void http_reply::begin_events() const {
  post([](http_connection& c) { c.begin_events(); });
}

void http_reply::event(std::string_view data) const {
  post([data = std::string(data)](http_connection& c) { c.event(data); });
}

void http_reply::end_events() const {
  post([](http_connection& c) { c.end_events(); });
}

void http_reply::when_lost(std::function<void()> lost) const {
  asio::post(server_->io, [to = to_, request = request_, lost = std::move(lost)]() mutable {
    const auto c = to.lock();
    if (!c || !c->is_at(request)) return lost();
    c->when_lost(std::move(lost));
  });
}

http_server::http_server(http_options options, handler handle)
    : in_(std::make_shared<http_listener>(std::move(options), std::move(handle))) {}
http_server::~http_server() = default;

std::uint16_t http_server::port() const { return in_->port(); }
std::size_t http_server::connections() const { return in_->count; }
void http_server::run(std::chrono::seconds within, std::function<void()> ending) { in_->run(within, std::move(ending)); }
void http_server::drain() {
  asio::post(in_->io, [to = std::weak_ptr(in_)] {
    if (const auto in = to.lock()) in->begin_drain();
  });
}

}  // namespace program
}  // namespace lazyprune
