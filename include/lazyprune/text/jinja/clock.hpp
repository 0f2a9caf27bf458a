// SPDX-License-Identifier: MIT
// The function strftime_now: the current time for a template, and its text in the C locale.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <system_error>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/c_locale.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/jinja/budget.hpp>
#include <lazyprune/text/jinja/characters.hpp>
#include <lazyprune/text/jinja/tagged_text.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

/// `source_date_epoch`: the value of the environment variable SOURCE_DATE_EPOCH, or null. If it is null, returns the local time. Otherwise
/// the value counts seconds since the start of 1970, and the function returns this time in UTC. Throws `error` if the value is not a whole
/// number of at least 0, or if the time is in the year 10000 or later.
inline std::tm template_time(const char* source_date_epoch) {
  std::tm parts{};
  if (!source_date_epoch) {
    const std::time_t now = std::time(nullptr);
    ::localtime_r(&now, &parts);
    return parts;
  }
  std::int64_t seconds = 0;
  const char* const last = source_date_epoch + std::strlen(source_date_epoch);
  const auto [end, fault] = std::from_chars(source_date_epoch, last, seconds);
  constexpr std::int64_t year_10000 = 253402300800;
  if (fault != std::errc{} || end != last || seconds < 0 || seconds >= year_10000)
    throw error("SOURCE_DATE_EPOCH", "", "seconds since 1970, before the year 10000", in_quotes(source_date_epoch));
  const auto time = static_cast<std::time_t>(seconds);
  ::gmtime_r(&time, &parts);
  return parts;
}

/// Formats a time as strftime does. Directives may have glibc's flags (%-d). The result is trusted if the whole format is trusted.
inline tagged_text written_time(const std::tm& time, const tagged_text& format, budget& work) {
  const lazyprune::detail::c_locale names;  // of days and months
  const std::string_view form = format.bytes();
  std::string out;
  for (std::size_t at = 0; at < form.size();) {
    const std::size_t percent = std::min(form.find('%', at), form.size());
    work.write(percent - at + 32);
    out.append(form.substr(at, percent - at));
    if (percent == form.size()) break;
    std::size_t end = percent + 1;
    if (end < form.size() && std::string_view("-_0^#").find(form[end]) != std::string_view::npos) ++end;
    constexpr std::string_view known = "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%";
    if (end == form.size() || (known.find(form[end]) == known.npos && form[end] != 'f'))
      refuse("a directive of strftime", in_quotes(form.substr(percent, end + 1 - percent)), error_code::unsupported);
    ++end;
    if (form[end - 1] == 'f') {
      out += "000000";  // the microseconds are 0, because the clock counts whole seconds
    } else {
      char buffer[128];
      const std::string directive(form.substr(percent, end - percent));
      out.append(buffer, std::strftime(buffer, sizeof buffer, directive.c_str(), &time));
    }
    at = end;
  }
  return {out, format.trusted()};
}

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
