// SPDX-License-Identifier: MIT
// The safetensors format (github.com/huggingface/safetensors): the size of the header in 8 bytes, a JSON header, and the tensors' bytes.
// The whole file is checked against the format before any byte of a tensor is returned.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/mapped_file.hpp>
#include <lazyprune/files/stored_tensor.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

struct safetensors_type {
  std::string_view name;
  std::uint64_t bits;
};

inline constexpr safetensors_type safetensors_types[] = {
    {"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16}, {"F16", 16}, {"BF16", 16},   {"I32", 32},
    {"U32", 32},    {"F32", 32},        {"C64", 64},        {"F64", 64},    {"I64", 64}, {"U64", 64},
};

/// Collects the table of tensors while the header is parsed. No tree of JSON values is built, so parsing needs little more memory than the
/// table.
class safetensors_header : public strict_json {
 public:
  struct entry {
    std::string name;
    const safetensors_type* type;
    std::vector<std::uint64_t> shape;
    std::vector<std::uint64_t> offsets;  // begin and end
  };

  explicit safetensors_header(std::string_view file) : strict_json(file, "header") {}

  std::vector<entry> take() { return std::move(entries_); }

  bool start_object(std::size_t) override {
    enter();
    if (depth() > 2) unexpected("an object");
    return true;
  }
  bool end_object() override {
    leave();
    if (depth() == 1 && !metadata_)
      for (const field f : {field::type, field::shape, field::offsets})
        if (!seen_[static_cast<std::size_t>(f)]) fail(place(), "the key " + in_quotes(names[static_cast<std::size_t>(f)]), "none");
    return true;
  }
  bool key(std::string& name) override {
    if (depth() == 1) {
      metadata_ = name == "__metadata__";
      if (metadata_ && std::exchange(has_metadata_, true)) fail(name, "the key once", "it twice");
      if (metadata_) return true;
      if (entries_.size() == most_tensors) fail("", "at most " + std::to_string(most_tensors) + " tensors", "more");
      entries_.push_back({std::move(name), nullptr, {}, {}});
      seen_ = {};
    } else if (metadata_) {
      if (!metadata_keys_.insert(name).second) fail("__metadata__." + printable(name), "the key once", "it twice");
    } else {
      const auto at = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
      if (at == names.size()) fail(place(), "the keys dtype, shape and data_offsets only", in_quotes(name));
      if (std::exchange(seen_[at], true)) fail(place(), "the key " + in_quotes(name) + " once", "it twice");
      field_ = static_cast<field>(at);
    }
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth() != 2 || metadata_ || field_ == field::type) unexpected("an array");
    enter();
    return true;
  }
  bool end_array() override {
    leave();
    if (field_ == field::offsets && entries_.back().offsets.size() != 2) unexpected("an array of " + std::to_string(list().size()));
    return true;
  }
  bool string(std::string& value) override {
    if (depth() == 2 && metadata_) return true;
    if (depth() != 2 || field_ != field::type) unexpected(in_quotes(value));
    const auto at = std::find_if(std::begin(safetensors_types), std::end(safetensors_types), [&](auto& t) { return t.name == value; });
    if (at == std::end(safetensors_types)) unexpected(in_quotes(value));
    entries_.back().type = at;
    return true;
  }
  bool number_unsigned(std::uint64_t value) override {
    if (depth() != 3 || value > std::uint64_t{1} << 63) unexpected(std::to_string(value));
    list().push_back(value);
    return true;
  }
  bool number_integer(std::int64_t value) override { unexpected(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { unexpected(printable(text)); }
  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }

 private:
  enum class field : std::uint8_t { type, shape, offsets };
  static constexpr std::array<std::string_view, 3> names = {"dtype", "shape", "data_offsets"};
  static constexpr std::size_t most_tensors = 1'000'000;

  std::vector<std::uint64_t>& list() { return field_ == field::shape ? entries_.back().shape : entries_.back().offsets; }

  std::string place() const { return metadata_ ? "__metadata__" : "tensor " + printable(entries_.back().name); }

  [[noreturn]] void unexpected(std::string_view found) const {
    if (depth() == 0) fail("", "a JSON object", found);
    if (depth() == 1) fail(place(), "an object", found);
    if (metadata_) fail(place(), "strings only", found);
    constexpr std::string_view expected[] = {"a known type", "an array of whole numbers", "two whole numbers, begin and end"};
    const auto at = static_cast<std::size_t>(field_);
    fail(place() + ": " + std::string(names[at]), expected[at], found);
  }

  std::vector<entry> entries_;
  std::set<std::string> metadata_keys_;
  bool has_metadata_ = false;
  bool metadata_ = false;       // reading a member of __metadata__
  field field_ = field::type;   // the field that is being read
  std::array<bool, 3> seen_{};  // the fields that this tensor has so far
};

}  // namespace detail

/// Returns the tensors in the bytes of a safetensors file, ascending by name. `file` is the name in errors. Throws `error` if any byte does
/// not follow the format.
inline std::vector<stored_tensor> parse_safetensors(std::span<const std::byte> bytes, std::string_view file) {
  const auto fail = [&](const std::string& where, std::string_view expected, const std::string& found) {
    throw error(file, where, expected, found);
  };
  constexpr std::uint64_t most_header_bytes = 100'000'000;
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes) fail("", "a safetensors file of at least 8 bytes", std::to_string(bytes.size()));
  static_assert(std::endian::native == std::endian::little, "safetensors are read as they are, and their numbers are little-endian");
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  bytes = bytes.subspan(sizeof header_bytes);
  const std::uint64_t most = std::min<std::uint64_t>(most_header_bytes, bytes.size());
  if (header_bytes > most) fail("header", "at most " + std::to_string(most) + " bytes", std::to_string(header_bytes));

  detail::safetensors_header header(file);
  detail::parse_strictly({reinterpret_cast<const char*>(bytes.data()), header_bytes}, header, file, "header");
  const std::span<const std::byte> data = bytes.subspan(header_bytes);
  auto entries = header.take();

  // In the order of offsets, each tensor must begin where the one before ends. So there are no holes, overlaps or unused bytes.
  std::ranges::sort(entries, {}, &detail::safetensors_header::entry::offsets);
  std::vector<stored_tensor> tensors;
  tensors.reserve(entries.size());
  std::uint64_t place = 0;
  for (auto& e : entries) {
    const auto at = [&](std::string_view field) { return "header: tensor " + printable(e.name) + ": " + std::string(field); };
    const std::uint64_t begin = e.offsets[0], end = e.offsets[1];
    if (begin != place) fail(at("data_offsets"), "to begin at " + std::to_string(place), std::to_string(begin));
    if (end < begin || end > data.size())
      fail(at("data_offsets"), "an end between " + std::to_string(begin) + " and " + std::to_string(data.size()), std::to_string(end));
    std::uint64_t bits = 1;
    bool fits = true;
    for (const std::uint64_t n : e.shape) fits = fits && !__builtin_mul_overflow(bits, n, &bits);
    fits = fits && !__builtin_mul_overflow(bits, e.type->bits, &bits);
    if (!fits || bits % 8 != 0)
      fail(at("shape"), "a whole number of bytes below 2^61", detail::shape_text(e.shape) + " of " + std::string(e.type->name));
    if (end - begin != bits / 8)
      fail(at("data_offsets"), std::to_string(bits / 8) + " bytes for its shape and type", std::to_string(end - begin));
    place = end;
    tensors.push_back({std::move(e.name), e.type->name, std::move(e.shape), data.subspan(begin, end - begin)});
  }
  if (place != data.size()) fail("", "the end after " + std::to_string(place) + " bytes of data", std::to_string(data.size()) + " bytes");

  std::ranges::sort(tensors, {}, &stored_tensor::name);
  const auto twice = std::ranges::adjacent_find(tensors, {}, &stored_tensor::name);
  if (twice != tensors.end()) fail("header: tensor " + printable(twice->name), "the key once", "it twice");
  return tensors;
}

class safetensors_file {
 public:
  /// Throws `error` if any byte of the file does not follow the format.
  explicit safetensors_file(mapped_file file) : file_(std::move(file)), tensors_(parse_safetensors(file_.bytes(), file_.name())) {}

  const std::string& name() const { return file_.name(); }
  std::span<const stored_tensor> tensors() const { return tensors_; }  // ascending by name

  const mapped_file& file() const { return file_; }

  /// Returns the tensor with that name, or null.
  const stored_tensor* find(std::string_view name) const {
    const auto at = std::ranges::lower_bound(tensors_, name, {}, &stored_tensor::name);
    return at != tensors_.end() && at->name == name ? &*at : nullptr;
  }

 private:
  mapped_file file_;
  std::vector<stored_tensor> tensors_;
};

}  // namespace v0
}  // namespace lazyprune
