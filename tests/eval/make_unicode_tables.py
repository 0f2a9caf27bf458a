# SPDX-License-Identifier: MIT
"""Writes include/lazyprune/eval/detail/unicode_tables.hpp from what this Python's str says of each character. usage: make_unicode_tables.py > FILE"""
import unicodedata

ALL = range(0x110000)
SIGMA, FINAL = "\u03a3", "\u03c2"


def steps(holds):
    """Distances between the characters at which the property begins or ends, the first from 0."""
    out, before, last = [], False, 0
    for c in ALL:
        now = bool(holds(chr(c)))
        if now != before:
            out.append(c - last)
            before, last = now, c
    return out


def array(name, type_, values):
    lines, line = [], " "
    for v in values:
        if len(line) + len(str(v)) + 2 > 140:
            lines.append(line)
            line = " "
        line += f" {v},"
    return f"inline constexpr std::array<{type_}, {len(values)}> {name}{{\n" + "\n".join(lines + [line.rstrip(",")]) + "};\n"


print(f"""// SPDX-License-Identifier: MIT
// What Unicode {unicodedata.unidata_version} says of characters, as far as Python's str uses it: made by tests/eval/make_unicode_tables.py.
#pragma once

#include <array>
#include <cstdint>

namespace lazyprune {{
inline namespace v0 {{
namespace detail {{

// clang-format off
// Sets of characters: where each begins and ends, in turn, as the distance from the last such place.
""")
ignorable = lambda c: ("a" + c + SIGMA).lower()[-1] == FINAL and (c + SIGMA).lower()[-1] != FINAL
print("/// isalnum() or _: what a word consists of in a regular expression.")
print(array("word_steps", "std::uint32_t", steps(lambda c: c.isalnum() or c == "_")))
print("/// \\d in a regular expression.")
print(array("digit_steps", "std::uint32_t", steps(str.isdecimal)))
print("/// Cased, and not case-ignorable.")
print(array("cased_steps", "std::uint32_t", steps(lambda c: (c + SIGMA).lower()[-1] == FINAL)))
print("/// Case-ignorable.")
print(array("ignorable_steps", "std::uint32_t", steps(ignorable)))
print("// clang-format on\n\n}  // namespace detail\n}  // namespace v0\n}  // namespace lazyprune")
