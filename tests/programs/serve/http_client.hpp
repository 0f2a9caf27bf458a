// SPDX-License-Identifier: MIT
// A small HTTP client on plain sockets. It can also send what no sound client sends.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace lazyprune_test {

struct http_answer {
  int status = 0;  // 0: the server closed the connection without an answer
  std::string head{}, body{};
};

/// A connection to a server on this machine.
class http_client {
 public:
  explicit http_client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{60, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) throw std::runtime_error("cannot connect");
  }
  http_client(const http_client&) = delete;
  http_client& operator=(const http_client&) = delete;
  ~http_client() { leave(); }

  void leave() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server has closed the connection, perhaps after an answer
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  void request(const std::string& method, const std::string& path, const std::string& body = {}, const std::string& headers = {}) {
    send(method + ' ' + path + " HTTP/1.1\r\nHost: here\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" +
         body);
  }

  /// Reads one answer, whose body has a length or is chunked.
  http_answer read() {
    http_answer answer;
    std::size_t end = 0;
    while ((end = got_.find("\r\n\r\n")) == got_.npos)
      if (!more()) return answer;
    answer.head = got_.substr(0, end + 2);
    got_.erase(0, end + 4);
    answer.status = std::atoi(answer.head.c_str() + 9);
    if (answer.head.find("Transfer-Encoding: chunked") != answer.head.npos) {
      for (;;) {
        while (got_.find("\r\n") == got_.npos)
          if (!more()) return answer;
        const std::size_t size = std::stoul(got_, nullptr, 16), begin = got_.find("\r\n") + 2;
        while (got_.size() < begin + size + 2)
          if (!more()) return answer;
        answer.body += got_.substr(begin, size);
        got_.erase(0, begin + size + 2);
        if (size == 0) return answer;
      }
    }
    const std::string key = "Content-Length: ";
    const std::size_t at = answer.head.find(key);
    const std::size_t size = at == answer.head.npos ? 0 : std::stoul(answer.head.substr(at + key.size()));
    while (got_.size() < size && more()) {
    }
    answer.body = got_.substr(0, size);
    got_.erase(0, size);
    return answer;
  }

  http_answer ask(const std::string& method, const std::string& path, const std::string& body = {}, const std::string& headers = {}) {
    request(method, path, body, headers);
    return read();
  }

  /// Reads until this text has come. Returns false if the connection ends before.
  bool wait_for(std::string_view text) {
    while (got_.find(text) == got_.npos)
      if (!more()) return false;
    return true;
  }

  /// Waits until the server closes the connection.
  bool is_closed() {
    while (more()) {
    }
    return closed_;
  }

 private:
  bool more() {
    char bytes[4096];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    closed_ = count == 0 || (count < 0 && errno == ECONNRESET);
    if (count <= 0) return false;
    got_.append(bytes, static_cast<std::size_t>(count));
    return true;
  }

  int socket_;
  std::string got_{};
  bool closed_ = false;
};

}  // namespace lazyprune_test
