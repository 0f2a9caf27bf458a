// SPDX-License-Identifier: MIT
// The one exception type. It names the file or argument, the place in it, what was expected and what was found. Its code tells a program
// how to react. The folders core/, policy/, session/ and registry/ report errors through one hook, so that builds without exceptions see
// them too.
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
  wrong_order,  // another call has to come first
  no_room,      // the sequence would exceed the reserved tokens or the model's positions
  no_memory,    // an allocation failed
  io,           // a read or a write failed: the machine is at fault, not the input
  unsupported,  // valid, but not implemented here
};

constexpr std::string_view name_of(error_code code) {
  constexpr std::string_view names[] = {"bad_input", "wrong_order", "no_room", "no_memory", "io", "unsupported"};
  return names[static_cast<std::size_t>(code)];
}

/// `what()` reads "FILE: PLACE: expected EXPECTED, found FOUND". An empty FILE, PLACE or FOUND is left out.
class error : public std::runtime_error {
 public:
  error(std::string_view file, std::string_view place, std::string_view expected, std::string_view found = {},
        error_code code = error_code::bad_input)
      : std::runtime_error(line(file, place, expected, found)),
        fields_{std::string(file), std::string(place), std::string(expected), std::string(found)},
        code_(code) {}

  /// The same fault, reported for another file. `file` is named first, and the file that `fault` named becomes part of the place.
  error(std::string_view file, const error& fault)
      : std::runtime_error(one_line(std::string(file) + ": " + fault.what())), fields_(fault.fields_), code_(fault.code_) {
    fields_.place = fields_.file + (fields_.file.empty() || fields_.place.empty() ? "" : ": ") + fields_.place;
    fields_.file = file;
  }

  const std::string& file() const noexcept { return fields_.file; }
  const std::string& place() const noexcept { return fields_.place; }
  const std::string& expected() const noexcept { return fields_.expected; }
  const std::string& found() const noexcept { return fields_.found; }
  error_code code() const noexcept { return code_; }

 private:
  struct fields {
    std::string file, place, expected, found;
  };

  static std::string line(std::string_view file, std::string_view place, std::string_view expected, std::string_view found) {
    std::string text;
    for (const std::string_view field : {file, place})
      if (!field.empty()) text.append(field).append(": ");
    text.append("expected ").append(expected);
    if (!found.empty()) text.append(", found ").append(found);
    return one_line(std::move(text));
  }

  static std::string one_line(std::string text) {
    for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos; at += 4) text.replace(at, 1, "\\x0a");
    return text;
  }

  fields fields_;
  error_code code_;
};

/// Called with each error of the folders core/, policy/, session/ and registry/ before the error is thrown. In a build without exceptions
/// the program is aborted when the hook returns. A hook prevents this by ending the thread, or by longjmp. All threads share one hook.
using error_hook = void (*)(const error&);

namespace detail {
inline std::atomic<error_hook> installed_error_hook{nullptr};
}  // namespace detail

/// Installs a hook (null: no hook) and returns the previous one.
inline error_hook set_error_hook(error_hook hook) noexcept { return detail::installed_error_hook.exchange(hook); }

/// Calls the hook, if there is one, and throws `fault`. In a build without exceptions it prints the error on stderr and aborts the program
/// instead.
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
