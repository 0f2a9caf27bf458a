#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints, for each method of a sweep that was tried after several layers, the one with the best mean score: best_layers.py SWEEP.csv."""
import csv
import sys
from collections import defaultdict


def main():
    scores = defaultdict(lambda: defaultdict(list))
    with open(sys.argv[1], encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if "@" in row["method"]:
                scores[row["method"].partition("@")[0]][row["method"]].append(float(row["score"]))
    print(",".join(max(tried, key=lambda method: sum(tried[method]) / len(tried[method])) for tried in scores.values()))


if __name__ == "__main__":
    main()
