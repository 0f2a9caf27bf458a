#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests bench/smollm2/make_tasks.py: make_tasks.py PROGRAM MODEL. Tokens are counted with MODEL, without a chat template."""
import os
import re
import sys
import unittest
from collections import Counter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "smollm2"))
import make_tasks  # noqa: E402  found through sys.path

PROGRAM, MODEL = sys.argv[1:3]
TOKENS, N = 6000, 3
COUNT = make_tasks.Counter(PROGRAM, MODEL, plain=True)
NEEDLE = re.compile(r"One of the special magic (?:number|uuid)s for (\S+) is: (\S+)\.(?=\s)")


def samples(task, seed=1):
    return list(make_tasks.samples_of(task, TOKENS, N, seed, COUNT))


class Tasks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tasks = make_tasks.tasks_for(TOKENS)
        cls.samples = {name: samples(name) for name in cls.tasks}

    def each(self):
        return [(name, sample) for name, made in self.samples.items() for sample in made]

    def test_lengths(self):
        for name, sample in self.each():
            with self.subTest(task=name, index=sample["index"]):
                room = self.tasks[name].room
                self.assertEqual(sample["length"], COUNT([sample["input"] + sample["answer_prefix"]])[0] + room)
                self.assertLessEqual(sample["length"], TOKENS)
                self.assertGreaterEqual(sample["length"] - room, 0.95 * (TOKENS - room))

    def test_answers_are_in_the_text(self):
        for name, sample in self.each():
            with self.subTest(task=name, index=sample["index"]):
                self.assertTrue(sample["outputs"])
                for answer in sample["outputs"]:
                    self.assertIn(answer, sample["input"])

    def test_keys_have_the_answers_and_no_other(self):
        for name, sample in self.each():
            if not name.startswith("niah"):
                continue
            with self.subTest(task=name, index=sample["index"]):
                needles = NEEDLE.findall(sample["input"])
                values = 4 if name == "niah_multivalue" else 1
                self.assertEqual(set(Counter(key for key, _ in needles).values()), {values})
                question = sample["input"].splitlines()[-1]
                self.assertEqual(sorted(value for key, value in needles if key in question), sorted(sample["outputs"]))

    def test_reworded_needles_share_no_sentence_with_the_others(self):
        make_tasks.wording = make_tasks.REWORDED
        try:
            for name in "niah_single_2", "niah_multiquery":
                for plain, other in zip(self.samples[name], samples(name)):
                    self.assertEqual(plain["outputs"], other["outputs"])
                    self.assertNotIn("special magic", other["input"] + other["answer_prefix"])
                    for answer in other["outputs"]:
                        self.assertRegex(other["input"], rf"In the ledger, the entry of \S+ reads {answer}\.")
        finally:
            make_tasks.wording = make_tasks.RULER

    def test_chapters(self):
        parts = [make_tasks.chapters(named) for named in ("1-9", "10-18")]
        self.assertEqual(" ".join(parts), make_tasks.chapters())
        self.assertLess(set(make_tasks.read_sentences("1-9")), set(make_tasks.SENTENCES))

    def test_depths(self):
        for name in "niah_single_1", "niah_single_2", "niah_multikey_2", "repeat_lines":
            depths = sorted(s["input"].index(s["outputs"][0]) / len(s["input"]) for s in self.samples[name])
            for part, depth in enumerate(depths):
                self.assertAlmostEqual(depth, (part + 0.5) / N, delta=0.1)

    def test_same_arguments_same_samples(self):
        for name in self.tasks:
            self.assertEqual(samples(name), self.samples[name], name)
            self.assertNotEqual(samples(name, seed=2), self.samples[name], name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
