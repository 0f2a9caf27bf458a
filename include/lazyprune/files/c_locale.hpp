// SPDX-License-Identifier: MIT
// Some functions that read numbers or write dates follow the process's locale: with a comma as the decimal point, strtod reads 0.5 as 0.
#pragma once

#include <locale.h>  // NOLINT(modernize-deprecated-headers): uselocale is a function of POSIX

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// Gives this thread the C locale while the object exists. Other threads keep theirs.
class c_locale {
 public:
  c_locale() : before_(::uselocale(shared())) {}
  ~c_locale() { ::uselocale(before_); }
  c_locale(const c_locale&) = delete;
  c_locale& operator=(const c_locale&) = delete;

 private:
  static locale_t shared() {
    static const locale_t c = ::newlocale(LC_ALL_MASK, "C", nullptr);  // takes no memory in glibc
    return c;
  }

  locale_t before_;
};

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
