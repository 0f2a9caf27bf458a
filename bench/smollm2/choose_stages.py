#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Chooses the stages of a calibration: choose_stages.py SWEEP.csv FILE.json. Takes the variant with the fewest rows among those that lose at most
1 point in the mean of the tasks, and writes its stages into FILE.json. If all lose more, takes the one that loses the least."""
import csv
import json
import re
import sys
from collections import defaultdict

MOST_LOST = 1


def main():
    sweep, calibration = sys.argv[1:3]
    lost, rows = defaultdict(list), {}
    with open(sweep, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            stages = re.match(r"--stages (\S+) ", row["policy"])
            if stages:
                lost[stages[1]].append(float(row["lost"]))
                rows[stages[1]] = float(row["budget"])
    means = {stages: sum(of_tasks) / len(of_tasks) for stages, of_tasks in lost.items()}
    holding = [stages for stages, mean in means.items() if mean <= MOST_LOST]
    best = min(holding, key=rows.get) if holding else min(means, key=means.get)
    with open(calibration, encoding="utf-8") as file:
        read = json.load(file)
    read["stages"] = best
    with open(calibration, "w", encoding="utf-8") as file:
        file.write(json.dumps(read, indent=1, ensure_ascii=False) + "\n")
    print(f"{calibration}: {best}; lost:", ", ".join(f"{s} {m:.1f}" for s, m in means.items()))


if __name__ == "__main__":
    main()
