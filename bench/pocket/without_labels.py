#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prepares prompts for a calibration that sees no labels.

without_labels.py documents PROMPTS FILE.txt        writes the documents of all prompts into one text, without questions and answers
without_labels.py answers PROMPTS ANSWERS.jsonl OUT  writes the prompts into the folder OUT, with the answers that a model gave
"""
import json
import pathlib
import sys


def samples(folder):
    """Yields (file, sample) for the samples in the folder's files."""
    for file in sorted(pathlib.Path(folder).glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            yield file, json.loads(line)


def main():
    if sys.argv[1] == "documents":
        text = "\n\n".join(sample["context"] for _, sample in samples(sys.argv[2]))
        pathlib.Path(sys.argv[3]).write_text(text, encoding="utf-8")
        return
    asked, answers, out = sys.argv[2:5]
    pathlib.Path(out).mkdir(exist_ok=True)
    lines = pathlib.Path(answers).read_text(encoding="utf-8").splitlines()
    answered = {}
    for (file, sample), line in zip(samples(asked), lines, strict=True):
        sample["answers"] = [json.loads(line)["pred"].split(" .")[0].strip()]  # an answer ends at " ."
        answered.setdefault(file.name, []).append(json.dumps(sample))
    for name, of_file in answered.items():
        (pathlib.Path(out) / name).write_text("\n".join(of_file) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
