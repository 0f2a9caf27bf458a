// SPDX-License-Identifier: MIT
// Parses JSON to values for templates. Keys keep their order, and every string counts as the user's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/jinja/budget.hpp>
#include <lazyprune/text/jinja/value.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

namespace detail {

class value_builder : public lazyprune::detail::strict_json {
 public:
  using strict_json::strict_json;

  value take() { return std::move(root_); }

  bool null() override { return put(none_type{}); }
  bool boolean(bool b) override { return put(value(b)); }
  bool number_integer(std::int64_t i) override { return put(value(i)); }
  bool number_unsigned(std::uint64_t i) override {
    if (i > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) fail_large(std::to_string(i));
    return put(value(static_cast<std::int64_t>(i)));
  }
  bool number_float(double number, const std::string& text) override {
    if (text.find_first_of(".eE") == text.npos) fail_large(text);
    return put(value(number));
  }
  bool string(std::string& text) override { return put(user_text(text)); }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_object() override {
    value made = std::make_shared<const dict>(std::move(open_.back().members));
    return close(std::move(made));
  }
  bool end_array() override { return close(make_list(std::move(open_.back().items), free_)); }
  bool key(std::string& name) override {
    if (open_.back().members.find(name)) fail(printable(name), "the key once", "it twice in one object");
    open_.back().key = user_text(name);
    return true;
  }

 private:
  struct level {
    bool is_object;
    dict members;
    std::vector<value> items;
    value key;
  };

  [[noreturn]] void fail_large(const std::string& text) const { fail("", "whole numbers of at most 64 bits", printable(text)); }
  bool open(bool is_object) {
    enter();
    open_.push_back({is_object, {}, {}, {}});
    return true;
  }
  bool close(value made) {
    open_.pop_back();
    leave();
    return put(std::move(made));
  }
  bool put(value v) {
    if (open_.empty())
      root_ = std::move(v);
    else if (open_.back().is_object)
      open_.back().members.set(std::move(open_.back().key), std::move(v));
    else
      open_.back().items.push_back(std::move(v));
    return true;
  }

  budget free_{std::numeric_limits<std::size_t>::max()};
  value root_;
  std::vector<level> open_;
};

}  // namespace detail

/// Parses a JSON text. The place in an error begins with `where`. Throws `error` if the text has more than `limit` bytes or is not strict
/// JSON.
inline value read_json(std::string_view text, std::string_view file, std::size_t limit, std::string_view where = {}) {
  if (text.size() > limit) throw error(file, where, "at most " + std::to_string(limit) + " bytes", std::to_string(text.size()));
  detail::value_builder builder(file, where);
  lazyprune::detail::parse_strictly(text, builder, file, where);
  return builder.take();
}

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
