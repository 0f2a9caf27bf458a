// SPDX-License-Identifier: MIT
// The one exception type: which file or argument, which place in it, what was expected there, what was found, and a code to act on.
// Floors 0 to 3 report through one hook, so that a build without exceptions has their errors too.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace lazyprune {
inline namespace v0 {

enum class error_code : std::uint8_t {
  bad_input,    // a file or an argument is wrong
  wrong_order,  // a call came before another that has to come first
  no_room,      // more than was reserved, or than the model has positions for
  no_memory,    // memory could not be had
  io,           // a read or a write failed: the machine is at fault, not the input
  unsupported,  // sound, but not computed here
};

constexpr std::string_view name_of(error_code code) {
  constexpr std::string_view names[] = {"bad_input", "wrong_order", "no_room", "no_memory", "io", "unsupported"};
  return names[static_cast<std::size_t>(code)];
}

/// `what()` reads "FILE: PLACE: expected EXPECTED, found FOUND"; parts left empty are left out.
class error : public std::runtime_error {
 public:
  error(std::string_view file, std::string_view place, std::string_view expected, std::string_view found = {},
        error_code code = error_code::bad_input)
      : std::runtime_error(line(file, place, expected, found)),
        parts_{std::string(file), std::string(place), std::string(expected), std::string(found)},
        code_(code) {}

  /// The same fault, in what was read from this file. The file that it was in before becomes part of the place.
  error(std::string_view file, const error& fault)
      : std::runtime_error(one_line(std::string(file) + ": " + fault.what())), parts_(fault.parts_), code_(fault.code_) {
    parts_.place = parts_.file + (parts_.file.empty() || parts_.place.empty() ? "" : ": ") + parts_.place;
    parts_.file = file;
  }

  const std::string& file() const noexcept { return parts_.file; }
  const std::string& place() const noexcept { return parts_.place; }
  const std::string& expected() const noexcept { return parts_.expected; }
  const std::string& found() const noexcept { return parts_.found; }
  error_code code() const noexcept { return code_; }

 private:
  struct parts {
    std::string file, place, expected, found;
  };

  static std::string line(std::string_view file, std::string_view place, std::string_view expected, std::string_view found) {
    std::string text;
    for (const std::string_view part : {file, place})
      if (!part.empty()) text.append(part).append(": ");
    text.append("expected ").append(expected);
    if (!found.empty()) text.append(", found ").append(found);
    return one_line(std::move(text));
  }

  static std::string one_line(std::string text) {
    for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos; at += 4) text.replace(at, 1, "\\x0a");
    return text;
  }

  parts parts_;
  error_code code_;
};

/// Called with each error of floors 0 to 3 before it is thrown. In a build without exceptions it must not return: it may end the thread,
/// or leave by longjmp; the program ends where it does return. One hook serves all threads.
using error_hook = void (*)(const error&);

namespace detail {
inline std::atomic<error_hook> installed_error_hook{nullptr};
}  // namespace detail

/// Installs a hook, null for none, and returns the one before.
inline error_hook set_error_hook(error_hook hook) noexcept { return detail::installed_error_hook.exchange(hook); }

/// Calls the hook where there is one, and throws; without exceptions it ends the program with the error's line on stderr.
[[noreturn]] inline void report_error(const error& fault) {
  if (const error_hook hook = detail::installed_error_hook.load()) hook(fault);
#ifdef __cpp_exceptions
  throw fault;
#else
  std::fprintf(stderr, "lazyprune: %s\n", fault.what());
  std::abort();
#endif
}

}  // namespace v0
}  // namespace lazyprune
