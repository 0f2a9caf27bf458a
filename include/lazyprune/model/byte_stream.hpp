// SPDX-License-Identifier: MIT
// Writes and reads numbers as bytes, with checksums. Sequences are saved in this form.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/core/error.hpp>
#include <lazyprune/core/mix.hpp>

namespace lazyprune {
inline namespace v0 {

static_assert(std::endian::native == std::endian::little, "numbers are saved as they are in memory");

namespace detail {

/// A checksum of bytes. It does not depend on how they are cut into pieces.
class byte_checksum {
 public:
  void add(const char* bytes, std::size_t count) {
    for (; count > 0 && filled_ > 0; --count) add_byte(*bytes++);
    for (; count >= sizeof(word_); count -= sizeof(word_), bytes += sizeof(word_)) {
      std::uint64_t word;
      std::memcpy(&word, bytes, sizeof word);
      sum_ = mix(sum_, word);
    }
    for (; count > 0; --count) add_byte(*bytes++);
  }
  std::uint64_t sum() const { return mix(mix(sum_, word_), filled_); }

 private:
  void add_byte(char byte) {
    word_ |= static_cast<std::uint64_t>(static_cast<unsigned char>(byte)) << 8 * filled_;
    if (++filled_ < sizeof(word_)) return;
    sum_ = mix(sum_, word_);
    word_ = filled_ = 0;
  }

  std::uint64_t sum_ = 0, word_ = 0, filled_ = 0;  // word_: the first filled_ bytes of an unfinished word
};

}  // namespace detail

template <class T>
concept saved_number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

/// Writes numbers and texts as bytes, and checksums of these bytes.
class byte_writer {
 public:
  /// `sink` takes the bytes in order.
  explicit byte_writer(std::function<void(std::string_view)> sink) : sink_(std::move(sink)) {}

  template <saved_number T>
  void number(T value) {
    numbers(std::span<const T>(&value, 1));
  }
  template <saved_number T>
  void numbers(std::span<const T> values) {
    const auto* bytes = reinterpret_cast<const char*>(values.data());
    sum_.add(bytes, values.size_bytes());
    sink_({bytes, values.size_bytes()});
  }
  void text(std::string_view value) {
    number<std::uint64_t>(value.size());
    numbers(std::span<const char>(value));
  }

  /// Writes activations, keys or values. They take 2 bytes each if all of them are bf16 numbers.
  template <std::floating_point T>
  void row_numbers(std::span<const T> values) {
    const bool short_ones = std::ranges::all_of(values, [](T value) {
      const auto number = static_cast<float>(value);
      return static_cast<T>(number) == value && (std::bit_cast<std::uint32_t>(number) & 0xffff) == 0;
    });
    number<std::uint8_t>(short_ones ? 2 : sizeof(T));
    if (!short_ones) return numbers(values);
    short_.resize(values.size());
    std::ranges::transform(values, short_.begin(), [](T value) { return bf16_of_float(static_cast<float>(value)); });
    numbers(std::span<const std::uint16_t>(short_));
  }

  /// Writes the checksum of all bytes since the beginning, or since the last call.
  void checksum() {
    const std::uint64_t sum = std::exchange(sum_, {}).sum();
    sink_({reinterpret_cast<const char*>(&sum), sizeof sum});
  }

 private:
  std::function<void(std::string_view)> sink_;
  detail::byte_checksum sum_;
  std::vector<std::uint16_t> short_;
};

/// Reads what a byte_writer wrote. All functions throw `error` if the bytes end too early; `what` is then the place in the error.
class byte_reader {
 public:
  /// `source` fills its argument and returns the number of bytes that it wrote. Only at the end are these fewer. `name` is the file in
  /// errors.
  byte_reader(std::function<std::size_t(std::span<char>)> source, std::string name) : source_(std::move(source)), name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  template <saved_number T>
  T number(std::string_view what) {
    T value;
    numbers(std::span<T>(&value, 1), what);
    return value;
  }
  template <saved_number T>
  void numbers(std::span<T> values, std::string_view what) {
    const std::span<char> bytes(reinterpret_cast<char*>(values.data()), values.size_bytes());
    fill(bytes, what);
    sum_.add(bytes.data(), bytes.size());
  }
  /// Appends `count` numbers to `values`. Memory grows with the bytes that `source` has, not with `count`.
  template <saved_number T>
  void append(std::vector<T>& values, std::size_t count, std::string_view what) {
    constexpr std::size_t piece = std::size_t{1} << 16;
    while (count > 0) {
      const std::size_t before = values.size(), n = std::min(count, piece);
      values.resize(before + n);
      numbers(std::span(values).subspan(before), what);
      count -= n;
    }
  }
  /// Throws `error` if the text has more than `most` bytes.
  std::string text(std::size_t most, std::string_view what) {
    const auto size = number<std::uint64_t>(what);
    if (size > most) refuse(what, "at most " + std::to_string(most) + " bytes", std::to_string(size));
    std::string value(size, '\0');
    numbers(std::span<char>(value), what);
    return value;
  }

  template <std::floating_point T>
  void row_numbers(std::span<T> values, std::string_view what) {
    const auto size = number<std::uint8_t>(what);
    if (size == sizeof(T)) return numbers(values, what);
    if (size != 2) refuse(what, "numbers of 2 or " + std::to_string(sizeof(T)) + " bytes", std::to_string(size));
    short_.resize(values.size());
    numbers(std::span(short_), what);
    std::ranges::transform(short_, values.begin(), [](std::uint16_t value) { return static_cast<T>(float_of_bf16(value)); });
  }

  /// Throws `error` if the checksum that follows is not that of the bytes since the beginning, or since the last call.
  void checksum() {
    const std::uint64_t expected = std::exchange(sum_, {}).sum();
    std::uint64_t found;
    fill({reinterpret_cast<char*>(&found), sizeof found}, "checksum");
    if (found != expected) refuse("checksum", "data as it was written", "damaged data: write it again");
  }

  [[noreturn]] void refuse(std::string_view what, const std::string& expected, const std::string& found) const {
    throw error(name_, std::string(what), expected, found);
  }

 private:
  void fill(std::span<char> bytes, std::string_view what) {
    if (source_(bytes) < bytes.size()) refuse(what, "more bytes", "the end");
  }

  std::function<std::size_t(std::span<char>)> source_;
  std::string name_;
  detail::byte_checksum sum_;
  std::vector<std::uint16_t> short_;
};

}  // namespace v0
}  // namespace lazyprune
