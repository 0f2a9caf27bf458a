#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prepares prompts for a calibration that sees no labels.

without_labels.py documents PROMPTS FILE.txt        writes the documents of all prompts into one text, without questions and answers
without_labels.py answers PROMPTS ANSWERS.jsonl OUT  copies the prompts into the folder OUT, with a model's answers in place of the labels
"""
import json
import pathlib
import sys


def prompts(folder):
    """Yields (file, prompt) for the prompts in the folder's files."""
    for file in sorted(pathlib.Path(folder).glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            yield file, json.loads(line)


def main():
    if sys.argv[1] == "documents":
        text = "\n\n".join(prompt["context"] for _, prompt in prompts(sys.argv[2]))
        pathlib.Path(sys.argv[3]).write_text(text, encoding="utf-8")
        return
    asked, answers, out = sys.argv[2:5]
    pathlib.Path(out).mkdir(exist_ok=True)
    lines = pathlib.Path(answers).read_text(encoding="utf-8").splitlines()
    answered = {}
    for (file, prompt), line in zip(prompts(asked), lines, strict=True):
        if json.loads(line)["_id"] != prompt["_id"]:
            raise SystemExit(f"{answers}: expected the answer to {prompt['_id']}")
        prompt["answers"] = [json.loads(line)["pred"].split(" .")[0].strip()]  # an answer ends at " ."
        answered.setdefault(file.name, []).append(json.dumps(prompt))
    for name, of_file in answered.items():
        (pathlib.Path(out) / name).write_text("\n".join(of_file) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
