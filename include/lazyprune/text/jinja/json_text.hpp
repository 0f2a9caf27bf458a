// SPDX-License-Identifier: MIT
// The filter tojson of transformers: Python's json.dumps without escapes for characters beyond ASCII. Strings keep their origin.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/text/jinja/budget.hpp>
#include <lazyprune/text/jinja/characters.hpp>
#include <lazyprune/text/jinja/operations.hpp>
#include <lazyprune/text/jinja/printing.hpp>
#include <lazyprune/text/jinja/value.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

struct json_format {
  bool only_ascii = false, sorted = false;
  std::optional<tagged_text> indent;  // the indentation of one level; nullopt: all on one line
  tagged_text between_items{", ", false}, after_key{": ", false};
};

class json_writer {
 public:
  json_writer(const json_format& format, budget& work) : format_(format), work_(work) {}

  tagged_text write(const value& v) {
    put(v);
    return std::move(out_);
  }

 private:
  void plain(std::string_view text, bool document = false) { out_.append(text, false, document); }

  void put(const value& v) {
    work_.write(16);
    switch (v.kind()) {
      case kind::none:
        return plain("null");
      case kind::boolean:
        return plain(*v.get_if<bool>() ? "true" : "false");
      case kind::integer:
        return plain(std::to_string(*v.get_if<std::int64_t>()));
      case kind::real:
        return put_real(*v.get_if<double>());
      case kind::string:
        return put_string(*v.text());
      case kind::sequence: {
        const sequence& s = *v.sequence();
        if (s.kind != sequence_kind::list && s.kind != sequence_kind::tuple) break;
        return put_members("[", "]", s.items, [&](const value& item) { put(item); });
      }
      case kind::dict: {
        std::vector<const dict::entry*> entries;
        for (const dict::entry& e : v.dict()->entries) entries.push_back(&e);
        work_.write(entries.size() * sizeof(void*));
        if (format_.sorted)
          std::ranges::sort(entries, [&](const dict::entry* a, const dict::entry* b) { return less(a->key, b->key, work_); });
        return put_members("{", "}", entries, [&](const dict::entry* e) {
          put_key(e->key);
          out_.append(format_.after_key);
          put(e->item);
        });
      }
      default:
        break;
    }
    refuse("a value that JSON can hold", described(v));
  }

  void put_key(const value& key) {
    if (key.text()) return put_string(*key.text());
    if (key.sequence()) refuse("a key that JSON can hold", described(key));
    plain("\"");
    put(key);
    plain("\"");
  }

  template <class Items, class Put>
  void put_members(std::string_view open, std::string_view close, const Items& items, Put put_one) {
    plain(open);
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) {
        work_.write(format_.between_items.size());
        out_.append(format_.between_items);
      }
      new_line();
      put_one(items[i]);
    }
    --level_;
    if (!items.empty()) new_line();
    plain(close);
  }

  void new_line() {
    if (!format_.indent) return;
    work_.write(1 + level_ * format_.indent->size());
    plain("\n");
    for (std::size_t i = 0; i < level_; ++i) out_.append(*format_.indent);
  }

  void put_real(double number) {
    if (std::isfinite(number)) return plain(real_text(number));
    plain(std::isnan(number) ? "NaN" : number < 0 ? "-Infinity" : "Infinity");
  }

  void put_string(const tagged_text& text) {
    work_.write(text.size());
    const std::string_view bytes = text.bytes();
    plain("\"");
    std::size_t unchanged = 0;  // the bytes from here to `at` need no escape, and are not yet appended
    for (std::size_t at = 0; at < bytes.size();) {
      const auto [code, size] = first_character(bytes.substr(at));
      constexpr std::string_view named = "\"\\\n\r\t\f\b", letters = "\"\\nrtfb";
      const std::size_t known = code < 0x80 ? named.find(static_cast<char>(code)) : named.npos;
      if (known != named.npos || code < 0x20 || (format_.only_ascii && code > 0x7e)) {
        work_.write(12);
        out_.append(text, unchanged, at - unchanged);
        put_escape(code, known == named.npos ? '\0' : letters[known], text.document_at(at));
        unchanged = at + size;
      }
      at += size;
    }
    out_.append(text, unchanged, bytes.size() - unchanged);
    plain("\"");
  }

  void put_escape(std::uint32_t code, char letter, bool document) {
    if (letter != '\0') {
      const char escape[] = {'\\', letter};
      plain({escape, 2}, document);
    } else if (code < 0x10000) {
      detail::append_escape(out_, 'u', code, 4, document);
    } else {
      detail::append_escape(out_, 'u', 0xd800 + (code - 0x10000) / 0x400, 4, document);
      detail::append_escape(out_, 'u', 0xdc00 + (code - 0x10000) % 0x400, 4, document);
    }
  }

  const json_format& format_;
  budget& work_;
  tagged_text out_;
  std::size_t level_ = 0;
};

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
