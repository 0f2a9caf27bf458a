// SPDX-License-Identifier: MIT
// Reads JSON from untrusted files. Parsing is strict, and the getters' errors name the file and the place in it. The parser also refuses
// some valid texts: a key twice in one object, nesting deeper than 64 levels, numbers that overflow, a byte order mark, and more bytes than
// the caller allows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/c_locale.hpp>
#include <lazyprune/files/utf8.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// The checks that all our JSON readers share. Derived classes handle the values.
class strict_json : public nlohmann::json_sax<nlohmann::json> {
 public:
  strict_json(std::string_view file, std::string_view where) : file_(file), where_(where) {}

  bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception& problem) override {
    // "[json.exception...] parse error at line 1, column 2: syntax error while parsing value - invalid literal; last read: ..."
    std::string_view found = problem.what();
    for (const std::string_view before : {"] ", " - "})
      if (const std::size_t end = found.find(before); end != found.npos) found.remove_prefix(end + before.size());
    fail("byte " + std::to_string(at == 0 ? 0 : at - 1), "JSON", printable(found));
  }
  bool binary(nlohmann::json::binary_t&) override { fail("", "JSON", "binary data"); }  // does not occur in JSON text

 protected:
  [[noreturn]] void fail(const std::string& at, std::string_view expected, std::string_view found) const {
    throw error(file_, where_.empty() || at.empty() ? where_ + at : where_ + ": " + at, expected, found);
  }
  void enter() {
    if (++depth_ > 64) fail("", "JSON of at most 64 levels", "more");
  }
  void leave() { --depth_; }
  std::size_t depth() const { return depth_; }

 private:
  std::string file_, where_;
  std::size_t depth_ = 0;
};

/// Parses the text and passes its values to the reader. Throws `error` at the first fault. The parser does not recurse, so deep nesting
/// cannot overflow the stack.
inline void parse_strictly(std::string_view text, strict_json& reader, std::string_view file, std::string_view where = {}) {
  const std::string at = where.empty() ? "" : std::string(where) + ": ";
  if (const std::size_t nul = text.find('\0'); nul != text.npos)  // the parser would take it for the end of the text
    throw error(file, at + "byte " + std::to_string(nul), "JSON", "a zero byte");
  if (text.starts_with("\xef\xbb\xbf")) throw error(file, at + "byte 0", "JSON", "a byte order mark");
  const c_locale numbers;  // the parser reads numbers, and shows them to the reader, with the decimal point of the thread's locale
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
}

/// A value with all that it contains. Its destructor needs no memory. That of nlohmann::json does if the value contains others, and ends
/// the program if there is none.
struct json_tree {
  nlohmann::json root{};

  json_tree() = default;
  json_tree(json_tree&&) = default;
  json_tree& operator=(json_tree&&) = delete;
  ~json_tree() { empty(root); }

 private:
  static void empty(nlohmann::json& value) {  // strict_json bounds the depth
    if (!value.is_structured()) return;
    for (nlohmann::json& each : value) empty(each);
    value.clear();
  }
};

class json_builder : public strict_json {
 public:
  using strict_json::strict_json;

  json_tree take() { return std::move(tree_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool start_object(std::size_t) override { return open(nlohmann::json::object()); }
  bool start_array(std::size_t) override { return open(nlohmann::json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    const auto [at, fresh] = open_.back()->emplace(name, nullptr);
    if (!fresh) fail(printable(name), "the key once", "it twice in one object");
    member_ = &*at;
    return true;
  }

 private:
  bool put(nlohmann::json value) {
    place(std::move(value));
    return true;
  }
  bool open(nlohmann::json value) {
    enter();
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    leave();
    return true;
  }
  nlohmann::json* place(nlohmann::json value) {
    if (open_.empty()) return &(tree_.root = std::move(value));
    if (open_.back()->is_object()) return &(*member_ = std::move(value));
    open_.back()->push_back(std::move(value));
    return &open_.back()->back();
  }

  json_tree tree_;
  std::vector<nlohmann::json*> open_;  // from the root to the innermost object or array
  nlohmann::json* member_ = nullptr;   // where the value of the last key goes, in the innermost object
};

}  // namespace detail

/// A value in a JSON text. It knows its place in the text, and keeps all values of the text alive. The getters throw `error` if the value
/// has another type: "FILE: rope_scaling.factor: expected a number, found "two"".
class json_value {
 public:
  /// `where` comes before each place in errors, for example "line 3" in a file with one text per line. Throws `error` if the text has more
  /// than `limit` bytes or is not strict JSON.
  static json_value parse(std::string_view text, std::string_view file, std::size_t limit, std::string_view where = {}) {
    if (text.size() > limit) throw error(file, where, "at most " + std::to_string(limit) + " bytes", std::to_string(text.size()));
    detail::json_builder builder(file, where);
    detail::parse_strictly(text, builder, file, where);
    auto whole = std::make_shared<const document>(document{std::string(file), std::string(where), builder.take()});
    const nlohmann::json* const root = &whole->tree.root;
    return {std::move(whole), root, std::string(where)};
  }

  const std::string& file() const { return whole_->file; }
  const std::string& place() const { return place_; }
  bool is_null() const { return value_->is_null(); }
  bool is_array() const { return value_->is_array(); }
  bool is_string() const { return value_->is_string(); }
  bool is_number() const { return value_->is_number(); }

  /// Returns whether this object has a member with this key, even if the member is null.
  bool has(std::string_view key) const {
    need(value_->is_object(), "an object");
    return value_->contains(key);
  }
  /// Returns the member with this key, or nullopt if it is missing or null.
  std::optional<json_value> find(std::string_view key) const {
    need(value_->is_object(), "an object");
    const auto at = value_->find(key);
    if (at == value_->end() || at->is_null()) return std::nullopt;
    return member(key, *at);
  }
  /// Returns the member with this key. Throws `error` if it is missing.
  json_value at(std::string_view key) const {
    need(value_->is_object(), "an object");
    const auto at = value_->find(key);
    if (at == value_->end()) fail("the key " + in_quotes(key), "none");
    return member(key, *at);
  }
  /// Returns a copy of this object, plus those members of `others` whose keys this object lacks. `others` is the JSON text of an object.
  /// In errors about the copy, the place is that of this object.
  json_value with_defaults(std::string_view others) const {
    need(value_->is_object(), "an object");
    detail::json_tree all;
    {
      const detail::c_locale numbers;
      all.root = nlohmann::json::parse(others);
    }
    all.root.update(*value_);
    auto whole = std::make_shared<const document>(document{whole_->file, whole_->where, std::move(all)});
    const nlohmann::json* const root = &whole->tree.root;
    return {std::move(whole), root, place_};
  }

  /// Throws `error` with this code if this object has a key that is not in `keys`.
  void allow_only(std::initializer_list<std::string_view> keys, error_code code = error_code::bad_input) const {
    each_member([&](const std::string& key, const json_value& value) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) value.refuse("no such key", code);
    });
  }

  /// The number of members of this object, or of items of this array. It is 0 for other values.
  std::size_t size() const { return value_->is_structured() ? value_->size() : 0; }
  /// Calls with(key, value) for each member of this object, or with(value) for each item of this array. For a large object or array, this
  /// needs less memory than members() or items().
  template <class With>
  void each_member(const With& with) const {
    need(value_->is_object(), "an object");
    for (const auto& [key, value] : value_->get_ref<const nlohmann::json::object_t&>()) with(key, member(key, value));
  }
  template <class With>
  void each_item(const With& with) const {
    need(value_->is_array(), "an array");
    std::size_t at = 0;
    for (const nlohmann::json& value : *value_) with(json_value(whole_, &value, place_ + '[' + std::to_string(at++) + ']'));
  }
  std::vector<std::pair<std::string, json_value>> members() const {
    std::vector<std::pair<std::string, json_value>> all;
    each_member([&](const std::string& key, json_value value) { all.emplace_back(key, std::move(value)); });
    return all;
  }
  std::vector<json_value> items() const {
    std::vector<json_value> all;
    each_item([&](json_value value) { all.push_back(std::move(value)); });
    return all;
  }

  bool boolean() const {
    need(value_->is_boolean(), "true or false");
    return value_->get<bool>();
  }
  const std::string& string() const {
    need(value_->is_string(), "a string");
    return value_->get_ref<const std::string&>();
  }
  /// Returns a whole number from `least` to `most`. Its text must have no sign, point or exponent.
  std::uint64_t whole_number(std::uint64_t least = 0, std::uint64_t most = std::uint64_t{1} << 63) const {
    const bool fits = value_->is_number_unsigned() && value_->get<std::uint64_t>() >= least && value_->get<std::uint64_t>() <= most;
    need(fits, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return value_->get<std::uint64_t>();
  }
  /// Returns a number of any form. It is finite, because the parser refuses numbers that overflow.
  double number() const {
    need(value_->is_number(), "a number");
    return value_->get<double>();
  }

  /// Throws `error` about this value, as the getters do.
  [[noreturn]] void refuse(std::string_view expected, error_code code = error_code::bad_input) const {
    fail(expected, describe(*value_), code);
  }
  /// Throws `error` about a value that is valid but not supported.
  [[noreturn]] void refuse_unsupported(std::string_view expected) const { refuse(expected, error_code::unsupported); }

 private:
  struct document {
    std::string file, where;
    detail::json_tree tree;
  };

  json_value(std::shared_ptr<const document> whole, const nlohmann::json* value, std::string place)
      : whole_(std::move(whole)), value_(value), place_(std::move(place)) {}

  json_value member(std::string_view key, const nlohmann::json& value) const {
    return {whole_, &value, (place_.empty() ? "" : place_ + (place_ == whole_->where ? ": " : ".")) + printable(key)};
  }

  static std::string describe(const nlohmann::json& value) {
    if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
    if (value.is_object()) return "an object";
    if (value.is_array()) return "an array";
    return value.dump();
  }

  void need(bool holds, std::string_view expected) const {
    if (!holds) refuse(expected);
  }
  [[noreturn]] void fail(std::string_view expected, std::string_view found, error_code code = error_code::bad_input) const {
    throw error(whole_->file, place_, expected, found, code);
  }

  std::shared_ptr<const document> whole_;
  const nlohmann::json* value_;
  std::string place_;
};

}  // namespace v0
}  // namespace lazyprune
