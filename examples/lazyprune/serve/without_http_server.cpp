// SPDX-License-Identifier: MIT
// Takes the place of http_server.cpp in a build without Boost.
#include "serve/http_server.hpp"

#include <lazyprune/core/error.hpp>

namespace lazyprune {
namespace program {

void http_reply::send(unsigned, std::string_view, std::string, headers) const {}
void http_reply::begin_events() const {}
void http_reply::event(std::string_view) const {}
void http_reply::end_events() const {}
void http_reply::when_lost(std::function<void()>) const {}

http_server::http_server(http_options, handler) {
  throw error("serve", "", "a program built with Boost 1.74 or newer (libboost-dev)", "one without", error_code::unsupported);
}
http_server::~http_server() = default;
std::uint16_t http_server::port() const { return 0; }
std::size_t http_server::connections() const { return 0; }
void http_server::run(std::chrono::seconds, std::function<void()>) {}
void http_server::drain() {}

}  // namespace program
}  // namespace lazyprune
