// SPDX-License-Identifier: MIT
// The GGUF format (github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3, little-endian: metadata, a table of tensors, and
// the tensors' bytes. The whole file is checked against the format before any value or byte of a tensor is returned.
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

/// The types of metadata, with their numbers in files.
enum class gguf_type : std::uint8_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

namespace detail {

inline constexpr std::string_view gguf_magic = "GGUF";
inline constexpr std::uint32_t gguf_types = 13;
inline constexpr std::size_t gguf_type_bytes[gguf_types] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // 0: variable
inline constexpr std::string_view gguf_type_names[gguf_types] = {"u8",      "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                                 "boolean", "string", "array", "u64", "i64", "f64"};
static_assert(std::endian::native == std::endian::little, "GGUF files are read as they are, and their numbers are little-endian");

template <class T>
T number_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Returns the number that the shortest decimal text of this float stands for: 1e-5 for the float nearest to 1e-5. Converters read decimal
/// numbers and store them as floats, and this restores the original numbers.
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
  std::span<const std::byte> bytes;  // an array begins with the type and the number of its values
};

}  // namespace detail

/// One value of a file's metadata. The getters throw `error` if the value has another type. A value is valid while the gguf_file exists.
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
  /// Returns a number of any integer type. Throws `error` unless it is from `least` to `most`.
  std::uint64_t whole_number(std::uint64_t least = 0, std::uint64_t most = std::uint64_t{1} << 63) const {
    const auto value = whole(entry_.type, entry_.bytes.data());
    need(value && *value >= least && *value <= most, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return *value;
  }
  /// Returns a number of any number type. Throws `error` unless it is finite. An f32 is read as the number that its shortest decimal text
  /// stands for.
  double number() const {
    const auto value = real(entry_.type, entry_.bytes.data());
    need(value && is_finite(*value), "a finite number");
    return *value;
  }

  /// The number of values in an array.
  std::size_t size() const {
    need(is_array(), "an array");
    return detail::number_at<std::uint64_t>(entry_.bytes.data() + 4);
  }
  /// Returns the strings of an array. Throws `error` if there are more than `most`. The limit bounds memory: an empty string takes fewer
  /// bytes in the file than its view does in memory.
  std::vector<std::string_view> strings(std::size_t most = std::size_t{1} << 24) const {
    need(is_array() && element() == gguf_type::string, "an array of strings");
    if (size() > most) refuse("at most " + std::to_string(most) + " strings");
    std::vector<std::string_view> all;
    all.reserve(size());
    for (const std::byte* at = values(); all.size() < size(); at += 8 + all.back().size()) all.push_back(text_at(at));
    return all;
  }
  /// Returns the numbers of an array of any number type. Throws `error` unless there are `count` numbers.
  std::vector<double> numbers(std::size_t count) const {
    need(is_array() && real(element(), values_or_zero()), "an array of numbers");
    if (size() != count) refuse(std::to_string(count) + " numbers");
    std::vector<double> all;
    all.reserve(size());
    const std::size_t bytes = detail::gguf_type_bytes[static_cast<std::size_t>(element())];
    for (std::size_t i = 0; i < size(); ++i) all.push_back(*real(element(), values() + i * bytes));
    return all;
  }

  /// Returns the number if this is an array of `count` equal numbers. Otherwise returns this value.
  gguf_value if_equal(std::uint64_t count) const {
    if (!is_array() || size() != count || count == 0) return *this;
    const std::size_t bytes = detail::gguf_type_bytes[static_cast<std::size_t>(element())];
    if (bytes == 0 || std::memcmp(values(), values() + bytes, (size() - 1) * bytes) != 0) return *this;
    return {file_, {entry_.key, element(), entry_.bytes.subspan(array_head, bytes)}};
  }

  /// Returns whether the value is 0 or false.
  bool says_no() const { return entry_.type == gguf_type::boolean ? !boolean() : is(0.0); }
  /// Returns whether the value is this number.
  bool is(double number) const { return real(entry_.type, entry_.bytes.data()) == number; }

  /// Throws `error` about this value, as the getters do.
  [[noreturn]] void refuse(std::string_view expected, error_code code = error_code::bad_input) const {
    throw error(file_, "metadata: " + printable(entry_.key), expected, describe(), code);
  }
  /// Throws `error` about a value that is valid but not supported.
  [[noreturn]] void refuse_unsupported(std::string_view expected) const { refuse(expected, error_code::unsupported); }

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

  static constexpr std::size_t array_head = 4 + 8;  // bytes before an array's values: their type and their number

  std::string file_;
  detail::gguf_entry entry_;
};

/// The contents of a file. Keys, names and data are views of the file's bytes.
struct gguf_contents {
  std::vector<detail::gguf_entry> metadata;  // ascending by key
  std::vector<stored_tensor> tensors;        // ascending by name
};

namespace detail {

/// Parses a file from beginning to end. Each size that the file states is checked against the remaining bytes before it is used.
class gguf_parser {
 public:
  gguf_parser(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  gguf_contents parse() {
    const auto [tensors, keys] = header();
    section_ = "metadata";
    for (index_ = 0; index_ < keys; ++index_) entry();
    name_ = {};
    std::ranges::sort(contents_.metadata, {}, &gguf_entry::key);
    const auto twice = std::ranges::adjacent_find(contents_.metadata, {}, &gguf_entry::key);
    if (twice != contents_.metadata.end()) throw error(file_, "metadata: " + printable(twice->key), "the key once", "it twice");
    read_alignment();

    section_ = "tensor";
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
    std::size_t tensor;  // index in contents_.tensors
    // NOLINTNEXTLINE(modernize-use-nullptr): the 0 is the compiler's own
    friend auto operator<=>(const place&, const place&) = default;
  };

  static constexpr std::uint64_t least_key = 8 + 1 + 4 + 1, least_info = 8 + 1 + 4 + 4 + 8, most_entries = 1'000'000;
  static constexpr std::size_t deepest_array = 8;

  std::uint64_t left() const { return bytes_.size() - at_; }

  [[noreturn]] void fail(std::string_view expected, std::string_view found, error_code code = error_code::bad_input) const {
    std::string where(section_);
    if (!name_.empty())
      where.append(section_ == "tensor" ? " " : ": ").append(printable(name_));
    else if (section_ != "header")
      where.append(section_ == "tensor" ? " " : ": key ").append(std::to_string(index_));
    throw error(file_, where, expected, found, code);
  }

  const std::byte* take(std::uint64_t count, std::string_view what) {
    if (count > left())
      fail(std::to_string(count) + " bytes for " + std::string(what), std::to_string(left()) + " before the end of the file");
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
    if (n > most)
      fail("a count of at most " + std::to_string(most) + " " + std::string(what) + ", because the file has no room for more",
           std::to_string(n));
    return n;
  }

  counts header() {
    section_ = "header";
    const auto magic = std::string_view(reinterpret_cast<const char*>(bytes_.data()), std::min<std::size_t>(bytes_.size(), 4));
    if (magic != gguf_magic) fail("a GGUF file", bytes_.empty() ? "no bytes" : in_quotes(magic));
    take(4, "a mark");
    const auto version = number<std::uint32_t>("a version");
    if (version != 0 && (version & 0xffff) == 0) fail("a little-endian file", "a big-endian one", error_code::unsupported);
    if (version == 1) fail("version 2 or 3", "version 1, whose lengths have 32 bits", error_code::unsupported);
    if (version != 2 && version != 3) fail("version 2 or 3", std::to_string(version));
    const auto tensors = number<std::uint64_t>("the number of tensors"), keys = number<std::uint64_t>("the number of keys");
    // The keys follow, then the tensors. Neither count may be larger than if the rest of the file had only keys, or only tensors, of the
    // smallest size.
    const std::uint64_t most_keys = std::min(left() / least_key, most_entries), most_tensors = std::min(left() / least_info, most_entries);
    const std::string limit = ", because of the file's size or the limit of " + std::to_string(most_entries);
    if (keys > most_keys) fail("a count of at most " + std::to_string(most_keys) + " keys" + limit, std::to_string(keys));
    if (tensors > most_tensors) fail("a count of at most " + std::to_string(most_tensors) + " tensors" + limit, std::to_string(tensors));
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

  /// Skips a value and checks it against the format.
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
    std::ranges::reverse(t.shape);  // in the file, the length of a row comes first
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

  /// Gives each tensor its bytes. In the order of offsets, each tensor must begin where the one before ends, rounded up to the alignment.
  /// So tensors do not overlap, and all other bytes are padding.
  void settle(std::vector<place>& places) {
    std::ranges::sort(places);
    const std::uint64_t first = std::min<std::uint64_t>(padded(at_), bytes_.size());
    const std::span<const std::byte> data = bytes_.subspan(first);
    std::uint64_t end = 0;
    for (const place& p : places) {
      stored_tensor& t = contents_.tensors[p.tensor];
      name_ = t.name;
      if (p.begin != padded(end)) fail("to begin at byte " + std::to_string(padded(end)) + " of the data", std::to_string(p.begin));
      if (p.begin > data.size() || p.bytes > data.size() - p.begin)
        fail(std::to_string(p.bytes) + " bytes from byte " + std::to_string(p.begin) + " of the data on",
             std::to_string(data.size()) + " in all");
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
  // The place of the parser in the file, for errors.
  std::string_view section_, name_;
  std::uint64_t index_ = 0;
};

}  // namespace detail

/// Parses the bytes of a GGUF file. `file` is the name in errors. Throws `error` if any byte does not follow the format.
inline gguf_contents parse_gguf(std::span<const std::byte> bytes, std::string_view file) {
  return detail::gguf_parser(bytes, file).parse();
}

/// Returns whether the file at this path is a GGUF file. Its first bytes decide, because caches name files by hash, without ".gguf". A file
/// whose name ends in .gguf also counts as a GGUF file, so that opening it reports what is wrong with it.
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
  /// Throws `error` if any byte of the file does not follow the format.
  explicit gguf_file(mapped_file file) : file_(std::move(file)), contents_(parse_gguf(file_.bytes(), file_.name())) {}

  const std::string& name() const { return file_.name(); }
  const mapped_file& file() const { return file_; }
  std::span<const stored_tensor> tensors() const { return contents_.tensors; }  // ascending by name

  /// Returns the value of this key, or nullopt if the file does not have the key.
  std::optional<gguf_value> find(std::string_view key) const {
    const auto at = std::ranges::lower_bound(contents_.metadata, key, {}, &detail::gguf_entry::key);
    if (at == contents_.metadata.end() || at->key != key) return std::nullopt;
    return gguf_value(name(), *at);
  }
  /// Returns the value of this key. Throws `error` if the file does not have the key.
  gguf_value at(std::string_view key) const {
    if (auto value = find(key)) return std::move(*value);
    throw error(name(), "metadata", "the key " + in_quotes(key), "none");
  }
  /// Returns all values whose key begins with `begin`, ascending by key.
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

/// Returns the tensor with that name in any of the shards, or null.
inline const stored_tensor* find_tensor(std::span<const gguf_file> shards, std::string_view name) {
  for (const gguf_file& shard : shards) {
    const auto at = std::ranges::lower_bound(shard.tensors(), name, {}, &stored_tensor::name);
    if (at != shard.tensors().end() && at->name == name) return &*at;
  }
  return nullptr;
}

/// Opens a GGUF model. `path` is the model's one file, or the first of its shards NAME-00001-of-0000N.gguf. Throws `error` if a file cannot
/// be read or does not follow the format, and if a shard is missing or does not belong to the others.
inline std::vector<gguf_file> open_gguf(const std::filesystem::path& path, file_access how = file_access::map) {
  std::vector<gguf_file> shards;
  shards.emplace_back(mapped_file(path, how));
  const auto of = shards[0].find("split.count");
  const std::uint64_t count = of ? of->whole_number(0, 99999) : 0;
  if (count == 0) return shards;
  const auto number_text = [](std::uint64_t n) {
    return std::string(5 - std::min<std::size_t>(std::to_string(n).size(), 5), '0') + std::to_string(n);
  };
  const auto ending = [&](std::uint64_t n) { return "-" + number_text(n + 1) + "-of-" + number_text(count) + ".gguf"; };
  const std::string name = path.filename().string();
  if (shards[0].at("split.no").whole_number() != 0) shards[0].at("split.no").refuse("0: give the path of the model's first shard");
  if (count > 1 && !name.ends_with(ending(0))) throw error(path.string(), "", "a name that ends in " + ending(0), in_quotes(name));

  std::set<std::string_view> names;
  std::uint64_t tensors = 0;
  for (std::uint64_t n = 0; n < count; ++n) {
    if (n > 0) shards.emplace_back(mapped_file(path.parent_path() / (name.substr(0, name.size() - ending(0).size()) + ending(n)), how));
    const gguf_file& shard = shards.back();
    const gguf_value own = shard.at("split.no"), all = shard.at("split.count");
    if (own.whole_number() != n) own.refuse(std::to_string(n));
    if (all.whole_number() != count) all.refuse(std::to_string(count) + ", as in the first shard");
    for (const stored_tensor& t : shard.tensors())
      if (!names.insert(t.name).second)
        throw error(shard.name(), "tensor " + printable(t.name), "one tensor of that name in all shards", "two");
    tensors += shard.tensors().size();
  }
  if (const auto expected = shards[0].find("split.tensors.count"); expected && expected->whole_number() != tensors)
    expected->refuse(std::to_string(tensors) + ", the number of tensors in the shards");
  return shards;
}

}  // namespace v0
}  // namespace lazyprune
