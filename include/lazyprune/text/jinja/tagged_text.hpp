// SPDX-License-Identifier: MIT
// A string that knows the origin of each byte: the template (trusted), a document of the user, or other text of the user. Only `append`
// adds bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/text/text_run.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

class tagged_text {
 public:
  tagged_text() = default;
  tagged_text(std::string_view bytes, bool trusted, bool document = false) { append(bytes, trusted, document); }

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  /// Returns whether every byte is the template's own.
  bool trusted() const { return runs_.empty() || (runs_.size() == 1 && runs_[0].trusted); }

  /// `document` must be false if `trusted` is true.
  void append(std::string_view bytes, bool trusted, bool document = false) {
    if (bytes.empty()) return;
    bytes_ += bytes;
    if (!runs_.empty() && runs_.back().trusted == trusted && runs_.back().document == document)
      runs_.back().end = bytes_.size();
    else
      runs_.push_back({bytes_.size(), trusted, document});
  }
  void append(const tagged_text& other) { append(other, 0, other.size()); }
  /// Appends up to `size` bytes of `other` from `begin` on.
  void append(const tagged_text& other, std::size_t begin, std::size_t size) {
    begin = std::min(begin, other.size());
    const std::size_t end = begin + std::min(size, other.size() - begin);
    for (auto from = other.run_at(begin); begin < end; ++from) {
      const std::size_t until = std::min(end, from->end);
      append(std::string_view(other.bytes_).substr(begin, until - begin), from->trusted, from->document);
      begin = until;
    }
  }

  tagged_text substr(std::size_t begin, std::size_t size = std::string::npos) const {
    tagged_text out;
    out.append(*this, begin, size);
    return out;
  }

  /// Returns whether the byte at `at` is the template's own.
  bool trusted_at(std::size_t at) const { return run_at(at)->trusted; }
  /// Returns whether the byte at `at` belongs to a document.
  bool document_at(std::size_t at) const { return run_at(at)->document; }

  /// Returns the runs of equal origin. No run is empty, and neighbours differ in origin. The runs point into this text.
  std::vector<text_run> runs() const {
    std::vector<text_run> out;
    std::size_t begin = 0;
    for (const run& r : runs_) {
      out.push_back({std::string_view(bytes_).substr(begin, r.end - begin), r.trusted, r.document});
      begin = r.end;
    }
    return out;
  }

  /// Whether the text is marked as safe HTML, for example by the filter `safe`. As in jinja2, if `+` joins a safe and an unsafe text, the
  /// unsafe text is escaped for HTML.
  bool safe = false;

 private:
  struct run {
    std::size_t end;
    bool trusted, document;
  };

  std::vector<run>::const_iterator run_at(std::size_t at) const { return std::ranges::upper_bound(runs_, at, {}, &run::end); }

  std::string bytes_;
  std::vector<run> runs_;  // the ends ascend, and neighbours differ in origin
};

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
