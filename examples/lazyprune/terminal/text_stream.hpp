// SPDX-License-Identifier: MIT
// Passes generated text on and ends it before a stop text. The end of the text is held back while it may be the beginning of a stop text.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lazyprune {
namespace program {

class text_stream {
 public:
  using sink = std::function<void(std::string_view)>;

  /// The text ends before the first stop text; no stop text may be empty. If whole characters are fed, whole characters go out.
  text_stream(std::vector<std::string> stops, sink out) : stops_(std::move(stops)), out_(std::move(out)) {}

  /// Takes the next piece. Returns false once a stop text has ended the text.
  bool feed(std::string_view piece) {
    if (stopped_) return false;
    text_ += piece;
    std::size_t end = text_.npos;
    for (const std::string& stop : stops_) end = std::min(end, text_.find(stop, sent_));
    if (end != text_.npos) {
      text_.resize(end);
      stopped_ = true;
      send(text_.size());
      return false;
    }
    send(text_.size() - waiting());
    return true;
  }

  /// Sends the text that was held back. Call this when the generation is over.
  void flush() { send(text_.size()); }

  /// The whole text so far, without the stop text.
  const std::string& text() const { return text_; }

 private:
  /// The number of bytes at the end that may be the beginning of a stop text.
  std::size_t waiting() const {
    const std::string_view unsent = std::string_view(text_).substr(sent_);
    std::size_t wait = 0;
    for (const std::string& stop : stops_)
      for (std::size_t n = std::min(stop.size() - 1, unsent.size()); n > wait; --n)
        if (unsent.ends_with(std::string_view(stop).substr(0, n))) wait = n;
    return wait;
  }

  void send(std::size_t end) {
    if (end <= sent_) return;
    out_(std::string_view(text_).substr(sent_, end - sent_));
    sent_ = end;
  }

  std::vector<std::string> stops_;
  sink out_;
  std::string text_;
  std::size_t sent_ = 0;
  bool stopped_ = false;
};

}  // namespace program
}  // namespace lazyprune
