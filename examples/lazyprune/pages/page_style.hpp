// SPDX-License-Identifier: MIT
// The common style of all HTML pages. The colours are from Okabe and Ito's palette for colour-blind readers.
#pragma once

#include <string_view>

namespace lazyprune {
namespace program {

inline constexpr std::string_view page_style = R"css(
:root { --computed: #0072b2; --revived: #d55e00; --ink: #1b2126; --quiet: #56616a; --line: #d5dbdf; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1560px; padding: 1.4rem 1.8rem 2rem; background: #fff; color: var(--ink);
       font: 15px/1.45 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { margin: 0 0 .7rem; font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { margin: 1.1rem 0 .35rem; font-size: 1rem; }
small { font-size: .85rem; font-weight: normal; color: var(--quiet); }
.facts { display: flex; flex-wrap: wrap; gap: .5rem; margin: 0 0 1rem; }
.facts div { max-width: 100%; padding: .35rem .7rem; border: 1px solid var(--line); border-radius: 6px; }
.facts dt { font-size: .78rem; color: var(--quiet); }
.facts dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; white-space: pre-wrap; }
table { border-collapse: collapse; }
th, td { padding: .15rem .6rem; border: 1px solid var(--line); text-align: left; vertical-align: top; }
th { white-space: nowrap; }
)css";

}  // namespace program
}  // namespace lazyprune
