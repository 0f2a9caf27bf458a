// SPDX-License-Identifier: MIT
// The GGUF format (github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3, little-endian: metadata, a table of tensors, the
// tensors' bytes. All that the format promises is checked before a value or a byte of a tensor is given out.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/finite.hpp>
#include <lazyprune/files/ggml_type.hpp>
#include <lazyprune/files/mapped_file.hpp>
#include <lazyprune/files/stored_tensor.hpp>
#include <lazyprune/files/utf8.hpp>

namespace lazyprune {
inline namespace v0 {

/// The types of metadata, under the numbers that files have for them.
enum class gguf_type : std::uint8_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

namespace detail {

inline constexpr std::string_view gguf_magic = "GGUF";
inline constexpr std::uint32_t gguf_types = 13;
inline constexpr std::size_t gguf_type_bytes[gguf_types] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // 0: they differ
inline constexpr std::string_view gguf_type_names[gguf_types] = {"u8",      "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                                 "boolean", "string", "array", "u64", "i64", "f64"};
static_assert(std::endian::native == std::endian::little);

template <class T>
T number_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// The number that the shortest decimal text of this float stands for: 1e-5 where the float is the one nearest to 1e-5. What a converter
/// read from decimal text is so the same number again.
inline double decimal_of(float value) {
  if (!is_finite(value)) return value;
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double number = 0;
  std::from_chars(text, end, number);
  return number;
}

struct gguf_entry {
  std::string_view key;
  gguf_type type;
  std::span<const std::byte> bytes;  // an array's begin with the type and the number of its values
};

}  // namespace detail

/// One value of a file's metadata. The getters throw `error` where it is something else. It lives as long as the file.
class gguf_value {
 public:
  gguf_value(std::string_view file, const detail::gguf_entry& entry) : file_(file), entry_(entry) {}

  const std::string& file() const { return file_; }
  std::string_view key() const { return entry_.key; }
  bool is_array() const { return entry_.type == gguf_type::array; }
  bool is_string() const { return entry_.type == gguf_type::string; }

  bool boolean() const {
    need(entry_.type == gguf_type::boolean, "true or false");
    return entry_.bytes[0] != std::byte{0};
  }
  std::string_view string() const {
    need(is_string(), "a string");
    return text_at(entry_.bytes.data());
  }
  /// Any type of whole number.
  std::uint64_t whole_number(std::uint64_t least = 0, std::uint64_t most = std::uint64_t{1} << 63) const {
    const auto value = whole(entry_.type, entry_.bytes.data());
    need(value && *value >= least && *value <= most, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return *value;
  }
  /// Any finite number; one of type f32 as its shortest decimal text says it.
  double number() const {
    const auto value = real(entry_.type, entry_.bytes.data());
    need(value && is_finite(*value), "a finite number");
    return *value;
  }

  /// The values of an array.
  std::size_t size() const {
    need(is_array(), "an array");
    return detail::number_at<std::uint64_t>(entry_.bytes.data() + 4);
  }
  /// At most `most` of them: an array of nothing but empty strings takes less in the file than its views in memory.
  std::vector<std::string_view> strings(std::size_t most = std::size_t{1} << 24) const {
    need(is_array() && element() == gguf_type::string, "an array of strings");
    if (size() > most) refuse("at most " + std::to_string(most) + " strings");
    std::vector<std::string_view> all;
    all.reserve(size());
    for (const std::byte* at = values(); all.size() < size(); at += 8 + all.back().size()) all.push_back(text_at(at));
    return all;
  }
  /// `count` of them, of any type of number; not a number where a whole number is negative or greater than 2^63.
  std::vector<double> numbers(std::size_t count) const {
    need(is_array() && real(element(), values_or_zero()), "an array of numbers");
    if (size() != count) refuse(std::to_string(count) + " numbers");
    std::vector<double> all;
    all.reserve(size());
    const std::size_t bytes = detail::gguf_type_bytes[static_cast<std::size_t>(element())];
    for (std::size_t i = 0; i < size(); ++i) all.push_back(*real(element(), values() + i * bytes));
    return all;
  }

  /// What all of an array's `count` numbers are; the value itself where it is something else.
  gguf_value if_equal(std::uint64_t count) const {
    if (!is_array() || size() != count || count == 0) return *this;
    const std::size_t bytes = detail::gguf_type_bytes[static_cast<std::size_t>(element())];
    if (bytes == 0 || std::memcmp(values(), values() + bytes, (size() - 1) * bytes) != 0) return *this;
    return {file_, {entry_.key, element(), entry_.bytes.subspan(array_head, bytes)}};
  }

  /// Whether it is 0 or false.
  bool says_no() const { return entry_.type == gguf_type::boolean ? !boolean() : is(0.0); }
  /// Whether it is this number.
  bool is(double number) const { return real(entry_.type, entry_.bytes.data()) == number; }

  /// Refuses the value, in the words of its getters.
  [[noreturn]] void refuse(std::string_view expected, error_code code = error_code::bad_input) const {
    throw error(file_, "metadata: " + printable(entry_.key), expected, describe(), code);
  }
  /// Refuses what the value means, which is sound and not computed here.
  [[noreturn]] void not_computed(std::string_view expected) const { refuse(expected, error_code::unsupported); }

 private:
  static std::string_view text_at(const std::byte* at) {
    return {reinterpret_cast<const char*>(at + 8), static_cast<std::size_t>(detail::number_at<std::uint64_t>(at))};
  }

  static std::optional<std::uint64_t> whole(gguf_type type, const std::byte* at) {
    const auto signed_one = [](std::int64_t n) { return n < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(n)); };
    using detail::number_at;
    switch (type) {
      case gguf_type::u8:
        return number_at<std::uint8_t>(at);
      case gguf_type::u16:
        return number_at<std::uint16_t>(at);
      case gguf_type::u32:
        return number_at<std::uint32_t>(at);
      case gguf_type::u64:
        return number_at<std::uint64_t>(at);
      case gguf_type::i8:
        return signed_one(number_at<std::int8_t>(at));
      case gguf_type::i16:
        return signed_one(number_at<std::int16_t>(at));
      case gguf_type::i32:
        return signed_one(number_at<std::int32_t>(at));
      case gguf_type::i64:
        return signed_one(number_at<std::int64_t>(at));
      default:
        return std::nullopt;
    }
  }

  static std::optional<double> real(gguf_type type, const std::byte* at) {
    using detail::number_at;
    switch (type) {
      case gguf_type::f32:
        return detail::decimal_of(number_at<float>(at));
      case gguf_type::f64:
        return number_at<double>(at);
      case gguf_type::i8:
        return number_at<std::int8_t>(at);
      case gguf_type::i16:
        return number_at<std::int16_t>(at);
      case gguf_type::i32:
        return number_at<std::int32_t>(at);
      case gguf_type::i64:
        return static_cast<double>(number_at<std::int64_t>(at));
      default:
        break;
    }
    const auto value = whole(type, at);
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
  }

  gguf_type element() const { return static_cast<gguf_type>(detail::number_at<std::uint32_t>(entry_.bytes.data())); }
  const std::byte* values() const { return entry_.bytes.data() + array_head; }
  const std::byte* values_or_zero() const {
    static constexpr std::byte zero[8]{};
    return size() > 0 ? values() : zero;
  }

  std::string describe() const {
    if (is_string()) return in_quotes(string());
    if (entry_.type == gguf_type::boolean) return boolean() ? "true" : "false";
    if (is_array())
      return "an array of " + std::to_string(size()) + " of type " +
             std::string(detail::gguf_type_names[static_cast<std::size_t>(element())]);
    if (const auto value = whole(entry_.type, entry_.bytes.data())) return std::to_string(*value);
    char text[32];
    const auto value = real(entry_.type, entry_.bytes.data());
    return {text, std::to_chars(text, text + sizeof text, *value).ptr};
  }

  void need(bool holds, std::string_view expected) const {
    if (!holds) refuse(expected);
  }

  static constexpr std::size_t array_head = 4 + 8;  // bytes of the type and the number of an array's values

  std::string file_;
  detail::gguf_entry entry_;
};

/// What a file holds. Keys and data are views of its bytes.
struct gguf_contents {
  std::vector<detail::gguf_entry> metadata;  // ascending by key
  std::vector<stored_tensor> tensors;        // ascending by name
};

namespace detail {

/// Reads a file from its begin to its end; what it says of its own sizes is held against the bytes that are left before it is believed.
class gguf_parser {
 public:
  gguf_parser(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  gguf_contents parse() {
    const auto [tensors, keys] = header();
    part_ = "metadata";
    for (index_ = 0; index_ < keys; ++index_) entry();
    name_ = {};
    std::ranges::sort(contents_.metadata, {}, &gguf_entry::key);
    const auto twice = std::ranges::adjacent_find(contents_.metadata, {}, &gguf_entry::key);
    if (twice != contents_.metadata.end()) throw error(file_, "metadata: " + printable(twice->key), "the key once", "it twice");
    read_alignment();

    part_ = "tensor";
    std::vector<place> places;
    for (index_ = 0; index_ < tensors; ++index_) places.push_back(info());
    settle(places);
    std::ranges::sort(contents_.tensors, {}, &stored_tensor::name);
    const auto again = std::ranges::adjacent_find(contents_.tensors, {}, &stored_tensor::name);
    if (again != contents_.tensors.end()) throw error(file_, "tensor " + printable(again->name), "one of that name", "two");
    return std::move(contents_);
  }

 private:
  struct counts {
    std::uint64_t tensors, keys;
  };
  struct place {
    std::uint64_t begin, bytes;
    std::size_t tensor;  // its index in contents_
    friend auto operator<=>(const place&, const place&) = default;
  };

  static constexpr std::uint64_t least_key = 8 + 1 + 4 + 1, least_info = 8 + 1 + 4 + 4 + 8, most_entries = 1'000'000;
  static constexpr std::size_t deepest_array = 8;

  std::uint64_t left() const { return bytes_.size() - at_; }

  [[noreturn]] void fail(std::string_view expected, std::string_view found, error_code code = error_code::bad_input) const {
    std::string where(part_);
    if (!name_.empty())
      where.append(part_ == "tensor" ? " " : ": ").append(printable(name_));
    else if (part_ != "header")
      where.append(part_ == "tensor" ? " " : ": key ").append(std::to_string(index_));
    throw error(file_, where, expected, found, code);
  }

  const std::byte* take(std::uint64_t count, std::string_view what) {
    if (count > left())
      fail(std::string(what) + " of " + std::to_string(count) + " bytes", std::to_string(left()) + " before the end of the file");
    const std::byte* const begin = bytes_.data() + at_;
    at_ += count;
    return begin;
  }
  template <class T>
  T number(std::string_view what) {
    return number_at<T>(take(sizeof(T), what));
  }
  std::string_view string(std::string_view what) {
    const auto size = number<std::uint64_t>("a length");
    return {reinterpret_cast<const char*>(take(size, what)), size};
  }
  std::uint64_t count(std::string_view what, std::uint64_t least_bytes) {
    const auto n = number<std::uint64_t>("a number");
    const std::uint64_t most = left() / least_bytes;
    if (n > most) fail("at most " + std::to_string(most) + " " + std::string(what) + " in what is left", std::to_string(n));
    return n;
  }

  counts header() {
    part_ = "header";
    const auto magic = std::string_view(reinterpret_cast<const char*>(bytes_.data()), std::min<std::size_t>(bytes_.size(), 4));
    if (magic != gguf_magic) fail("a GGUF file", bytes_.empty() ? "no bytes" : in_quotes(magic));
    take(4, "a mark");
    const auto version = number<std::uint32_t>("a version");
    if (version != 0 && (version & 0xffff) == 0) fail("a little-endian file", "a big-endian one", error_code::unsupported);
    if (version == 1) fail("version 2 or 3", "version 1, whose lengths have 32 bits", error_code::unsupported);
    if (version != 2 && version != 3) fail("version 2 or 3", std::to_string(version));
    const auto tensors = number<std::uint64_t>("the number of tensors"), keys = number<std::uint64_t>("the number of keys");
    // Both follow, the keys first: what is left must hold the smallest of either.
    const std::uint64_t most_keys = std::min(left() / least_key, most_entries), most_tensors = std::min(left() / least_info, most_entries);
    if (keys > most_keys) fail("at most " + std::to_string(most_keys) + " keys in what is left", std::to_string(keys));
    if (tensors > most_tensors) fail("at most " + std::to_string(most_tensors) + " tensors in what is left", std::to_string(tensors));
    return {tensors, keys};
  }

  void entry() {
    name_ = {};
    const std::string_view key = string("a key");
    if (key.empty() || key.size() > 65535) fail("a key of 1 to 65535 bytes", std::to_string(key.size()));
    name_ = key;
    if (utf8_end(key) != key.size()) fail("a key in UTF-8", "something else");
    const gguf_type type = value_type();
    const std::size_t begin = at_;
    skip(type, 0);
    contents_.metadata.push_back({key, type, bytes_.subspan(begin, at_ - begin)});
  }

  gguf_type value_type() {
    const auto type = number<std::uint32_t>("a type");
    if (type >= gguf_types) fail("a type below " + std::to_string(gguf_types), std::to_string(type));
    return static_cast<gguf_type>(type);
  }

  /// Passes over a value and holds it to what the format says.
  void skip(gguf_type type, std::size_t depth) {
    if (type == gguf_type::string)
      string("a string");
    else if (type == gguf_type::array)
      skip_array(depth + 1);
    else
      numbers(type, 1);
  }
  void skip_array(std::size_t depth) {
    if (depth > deepest_array) fail("arrays in at most " + std::to_string(deepest_array) + " levels", "more");
    const gguf_type type = value_type();
    const std::size_t bytes = gguf_type_bytes[static_cast<std::size_t>(type)];
    const std::uint64_t n = count("values", bytes > 0 ? bytes : type == gguf_type::string ? 8 : 12);
    if (bytes > 0)
      numbers(type, n);
    else
      for (std::uint64_t i = 0; i < n; ++i) skip(type, depth);
  }
  void numbers(gguf_type type, std::uint64_t n) {
    const std::byte* const values = take(n * gguf_type_bytes[static_cast<std::size_t>(type)], "a value");
    if (type != gguf_type::boolean) return;
    for (std::uint64_t i = 0; i < n; ++i)
      if (values[i] > std::byte{1}) fail("0 or 1 for a boolean", std::to_string(std::to_integer<int>(values[i])));
  }

  void read_alignment() {
    const auto found = std::ranges::lower_bound(contents_.metadata, std::string_view("general.alignment"), {}, &gguf_entry::key);
    if (found == contents_.metadata.end() || found->key != "general.alignment") return;
    const gguf_value value(file_, *found);
    alignment_ = value.whole_number();
    if (!std::has_single_bit(alignment_) || alignment_ < 8 || alignment_ > std::uint64_t{1} << 20)
      value.refuse("a power of two from 8 to 1048576");
  }

  place info() {
    name_ = {};
    stored_tensor t;
    t.name = string("a name");
    if (t.name.empty() || t.name.size() > 64) fail("a name of 1 to 64 bytes", std::to_string(t.name.size()));
    name_ = t.name;
    if (utf8_end(name_) != name_.size()) fail("a name in UTF-8", "something else");
    const auto dimensions = number<std::uint32_t>("the number of dimensions");
    if (dimensions > 4) fail("at most 4 dimensions", std::to_string(dimensions));
    for (std::uint32_t i = 0; i < dimensions; ++i) t.shape.push_back(number<std::uint64_t>("a dimension"));
    const auto id = number<std::uint32_t>("a type");
    const ggml_type* const type = ggml_type_of(id);
    if (!type) fail("a known type", std::to_string(id));
    t.type = type->name;

    const std::uint64_t row = t.shape.empty() ? 1 : t.shape[0];
    if (row % type->values != 0)
      fail("rows of whole blocks: a multiple of " + std::to_string(type->values) + " for " + std::string(type->name), std::to_string(row));
    std::ranges::reverse(t.shape);  // the file has the length of a row first
    std::uint64_t values = 1, bytes = 0;
    bool fits = true;
    for (const std::uint64_t n : t.shape) fits = fits && !__builtin_mul_overflow(values, n, &values);
    fits = fits && !__builtin_mul_overflow(values / type->values, type->bytes, &bytes) && bytes < std::uint64_t{1} << 61;
    if (!fits) fail("fewer than 2^61 bytes", shape_text(t.shape) + " of " + std::string(type->name));
    const auto begin = number<std::uint64_t>("an offset");
    if (begin % alignment_ != 0) fail("an offset that is a multiple of " + std::to_string(alignment_), std::to_string(begin));
    name_ = {};
    contents_.tensors.push_back(std::move(t));
    return {begin, bytes, contents_.tensors.size() - 1};
  }

  std::uint64_t padded(std::uint64_t size) const { return (size + alignment_ - 1) / alignment_ * alignment_; }

  /// Gives the tensors their bytes. Sorted by their place, each begins where the one before ends, at the next multiple of the alignment: no
  /// holes, no overlap, no byte without an owner but these.
  void settle(std::vector<place>& places) {
    std::ranges::sort(places);
    const std::uint64_t first = std::min<std::uint64_t>(padded(at_), bytes_.size());
    const std::span<const std::byte> data = bytes_.subspan(first);
    std::uint64_t end = 0;
    for (const place& p : places) {
      stored_tensor& t = contents_.tensors[p.tensor];
      name_ = t.name;
      if (p.begin != padded(end)) fail("to begin at " + std::to_string(padded(end)) + " of the data", std::to_string(p.begin));
      if (p.begin > data.size() || p.bytes > data.size() - p.begin)
        fail(std::to_string(p.bytes) + " bytes at " + std::to_string(p.begin) + " of the data", std::to_string(data.size()) + " in all");
      t.data = data.subspan(p.begin, p.bytes);
      end = p.begin + p.bytes;
    }
    if (data.size() != end && data.size() != padded(end))
      throw error(file_, "", "the end after " + std::to_string(end) + " bytes of data", std::to_string(data.size()) + " bytes");
  }

  std::span<const std::byte> bytes_;
  std::string file_;
  std::size_t at_ = 0;
  std::uint64_t alignment_ = 32;
  gguf_contents contents_;
  // What is being read, for errors.
  std::string_view part_, name_;
  std::uint64_t index_ = 0;
};

}  // namespace detail

/// What a GGUF file holds whose bytes these are. `file` is for errors. Throws `error` where it is not what the format says, to the last
/// byte.
inline gguf_contents parse_gguf(std::span<const std::byte> bytes, std::string_view file) {
  return detail::gguf_parser(bytes, file).parse();
}

/// Whether a path is a GGUF file, by its first bytes whatever its name: caches name files by their hash. A name that ends in .gguf counts
/// too, so that a reader says what is wrong with the file.
inline bool is_gguf_path(const std::filesystem::path& path) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure)) return false;
  if (path.extension() == ".gguf") return true;
  std::array<char, 4> magic{};
  std::ifstream(path, std::ios::binary).read(magic.data(), magic.size());
  return std::string_view(magic.data(), magic.size()) == detail::gguf_magic;
}

class gguf_file {
 public:
  /// Throws `error` where the file is not what the format says, to the last byte.
  explicit gguf_file(mapped_file file) : file_(std::move(file)), contents_(parse_gguf(file_.bytes(), file_.name())) {}

  const std::string& name() const { return file_.name(); }
  const mapped_file& file() const { return file_; }
  std::span<const stored_tensor> tensors() const { return contents_.tensors; }  // ascending by name

  /// The metadata under this key; none where there is none.
  std::optional<gguf_value> find(std::string_view key) const {
    const auto at = std::ranges::lower_bound(contents_.metadata, key, {}, &detail::gguf_entry::key);
    if (at == contents_.metadata.end() || at->key != key) return std::nullopt;
    return gguf_value(name(), *at);
  }
  /// The same, which must be there.
  gguf_value at(std::string_view key) const {
    if (auto value = find(key)) return std::move(*value);
    throw error(name(), "metadata", "the key " + in_quotes(key), "none");
  }
  /// All that is under keys that begin so, ascending.
  std::vector<gguf_value> values_under(std::string_view begin) const {
    std::vector<gguf_value> all;
    auto at = std::ranges::lower_bound(contents_.metadata, begin, {}, &detail::gguf_entry::key);
    for (; at != contents_.metadata.end() && at->key.starts_with(begin); ++at) all.emplace_back(name(), *at);
    return all;
  }

 private:
  mapped_file file_;
  gguf_contents contents_;
};

/// Null where none of the files has a tensor of that name.
inline const stored_tensor* find_tensor(std::span<const gguf_file> parts, std::string_view name) {
  for (const gguf_file& part : parts) {
    const auto at = std::ranges::lower_bound(part.tensors(), name, {}, &stored_tensor::name);
    if (at != part.tensors().end() && at->name == name) return &*at;
  }
  return nullptr;
}

/// A model's file, or all parts of one that is split into NAME-00001-of-0000N.gguf, the first of which is named. Throws `error` also where
/// a part is missing or does not belong to the others.
inline std::vector<gguf_file> open_gguf(const std::filesystem::path& path, file_access how = file_access::map) {
  std::vector<gguf_file> parts;
  parts.emplace_back(mapped_file(path, how));
  const auto of = parts[0].find("split.count");
  const std::uint64_t count = of ? of->whole_number(0, 99999) : 0;
  if (count == 0) return parts;
  const auto number_text = [](std::uint64_t n) {
    return std::string(5 - std::min<std::size_t>(std::to_string(n).size(), 5), '0') + std::to_string(n);
  };
  const auto ending = [&](std::uint64_t n) { return "-" + number_text(n + 1) + "-of-" + number_text(count) + ".gguf"; };
  const std::string name = path.filename().string();
  if (parts[0].at("split.no").whole_number() != 0) parts[0].at("split.no").refuse("0: the first part of a model is the one to name");
  if (count > 1 && !name.ends_with(ending(0))) throw error(path.string(), "", "a name that ends in " + ending(0), in_quotes(name));

  std::set<std::string_view> names;
  std::uint64_t tensors = 0;
  for (std::uint64_t n = 0; n < count; ++n) {
    if (n > 0) parts.emplace_back(mapped_file(path.parent_path() / (name.substr(0, name.size() - ending(0).size()) + ending(n)), how));
    const gguf_file& part = parts.back();
    const gguf_value own = part.at("split.no"), all = part.at("split.count");
    if (own.whole_number() != n) own.refuse(std::to_string(n));
    if (all.whole_number() != count) all.refuse(std::to_string(count) + ", as in the first part");
    for (const stored_tensor& t : part.tensors())
      if (!names.insert(t.name).second) throw error(part.name(), "tensor " + printable(t.name), "one of that name in all parts", "two");
    tensors += part.tensors().size();
  }
  if (const auto expected = parts[0].find("split.tensors.count"); expected && expected->whole_number() != tensors)
    expected->refuse(std::to_string(tensors) + ", what the parts hold");
  return parts;
}

}  // namespace v0
}  // namespace lazyprune
