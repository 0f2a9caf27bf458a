#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the text of chapters 1 to 9 in two parts, the first two thirds and the last third: half_of_novel.py FIRST.txt LAST.txt."""
import sys

from make_tasks import chapters


def main():
    text = chapters("1-9")
    cut = text.index(". ", 2 * len(text) // 3) + 2
    for path, part in zip(sys.argv[1:3], (text[:cut], text[cut:])):
        with open(path, "w", encoding="utf-8") as file:
            file.write(part + "\n")


if __name__ == "__main__":
    main()
