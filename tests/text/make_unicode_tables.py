# SPDX-License-Identifier: MIT
"""Writes include/lazyprune/text/detail/unicode_tables.hpp from the str methods of this Python. usage: make_unicode_tables.py > FILE"""
import unicodedata

ALL = range(0x110000)
SIGMA, FINAL = "\u03a3", "\u03c2"


def steps(holds):
    """Returns the distances between the characters at which `holds` becomes true or false. The first distance is from 0."""
    out, before, last = [], False, 0
    for c in ALL:
        now = bool(holds(chr(c)))
        if now != before:
            out.append(c - last)
            before, last = now, c
    return out


def array(name, type_, values, brace="{", end="}"):
    lines, line = [], " "
    for v in values:
        if len(line) + len(str(v)) + 2 > 140:
            lines.append(line)
            line = " "
        line += f" {v},"
    return f"inline constexpr std::array<{type_}, {len(values)}> {name}{brace}\n" + "\n".join(lines + [line.rstrip(",")]) + f"{end};\n"


def special_cases(name, becomes, holds):
    all_ = [chr(c) for c in ALL if holds(chr(c))]
    each = ["{" + hex(ord(c)) + ", {" + ", ".join(hex(ord(b)) for b in becomes(c)) + "}}" for c in all_]
    return array(name, "special_case", each, "{{", "}}")


print(f"""// SPDX-License-Identifier: MIT
// The properties of characters in Unicode {unicodedata.unidata_version} that Python's str uses. Written by tests/text/make_unicode_tables.py.
#pragma once

#include <array>
#include <cstdint>

namespace lazyprune {{
inline namespace v0 {{
namespace detail {{

// clang-format off
// Each set of characters is stored as distances. Code points that are not in the set and code points that are in it come in turn: the first
// number counts those before the set's first character, the second counts those in the set from there on, and so on.
""")
ignorable = lambda c: ("a" + c + SIGMA).lower()[-1] == FINAL and (c + SIGMA).lower()[-1] != FINAL
print("/// isalnum() or _: \\w in a regular expression.")
print(array("word_steps", "std::uint32_t", steps(lambda c: c.isalnum() or c == "_")))
print("/// \\d in a regular expression.")
print(array("digit_steps", "std::uint32_t", steps(str.isdecimal)))
print("/// Cased: upper, lower or title case.")
print(array("cased_steps", "std::uint32_t", steps(lambda c: c.isupper() or c.islower() or unicodedata.category(c) == "Lt")))
print("/// Case-ignorable.")
print(array("ignorable_steps", "std::uint32_t", steps(ignorable)))
print("""struct special_case {
  char32_t letter, becomes[3];  // zeros after the last
};
""")
print("/// Letters whose upper case is several characters.")
print(special_cases("upper_special", lambda c: c.upper(), lambda c: len(c.upper()) > 1))
print("/// Letters whose title case differs from their upper case.")
print(special_cases("title_special", lambda c: c.title(), lambda c: c.title() != c.upper()))
print("// clang-format on\n\n}  // namespace detail\n}  // namespace v0\n}  // namespace lazyprune")
