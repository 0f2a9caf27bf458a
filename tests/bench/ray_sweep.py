#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests bench/ray/sweep.py on a cluster of three nodes on this machine, of which one is killed while it works: ray_sweep.py PROGRAM. Skipped without
Ray."""
import csv
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import ray
    from ray.cluster_utils import Cluster
except ImportError:
    print("skipped: needs ray (from PyPI)")
    sys.exit(77)

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
SOURCE = pathlib.Path(__file__).resolve().parents[2]
os.chdir(SOURCE)
NODE = {"num_cpus": 1, "memory": 1 << 30, "object_store_memory": 80 << 20, "include_dashboard": False}
SWEEP = ["sweep", *(word for task in ("profile", "few_shot") for word in ("-d", f"examples/pocket/prompts/pocket_{task}.jsonl")),
         "--limit", "24", "--methods", "lazyllm@3+5,random", "--budgets", "0.6,0.9", "--seeds", "10"]


def driver(*arguments):
    return [sys.executable, "-B", str(SOURCE / "bench/ray/sweep.py"), "--program", PROGRAM, *arguments]


def rows_without_times(file):
    times = ("ttft_s", "dense_ttft_s", "speedup_", "total_s")
    with open(file, newline="") as table:
        return [{key: value for key, value in row.items() if not key.startswith(times)} for row in csv.DictReader(table)]


def parents(process):
    """The process ids of the parent, its parent and so on."""
    found = []
    while process > 1:
        process = int(pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(process)
    return found


def programs_of(raylet):
    """The program's processes on a node: each process id, and the folder of its part."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if words[0] == PROGRAM and "--part" in words and raylet in parents(int(folder.name)):
                found[int(folder.name)] = pathlib.Path(words[words.index("--out") + 1])
        except (OSError, ValueError):
            pass  # it has just ended
    return found


class Sweep(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.out = pathlib.Path(cls.folder.name)
        cls.cluster = Cluster(initialize_head=True, head_node_args=NODE)
        cls.nodes = [cls.cluster.add_node(**NODE) for _ in range(2)]

    @classmethod
    def tearDownClass(cls):
        cls.cluster.shutdown()
        cls.folder.cleanup()

    def wait_for(self, condition, what):
        for _ in range(1200):
            if found := condition():
                return found
            time.sleep(0.05)
        self.fail(f"waited a minute for {what}")

    def test_1_a_killed_node_loses_no_finished_sample(self):
        subprocess.run([PROGRAM, *SWEEP, "-t", "1", "--out", self.out / "whole"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        running = subprocess.Popen(driver("--address", self.cluster.address, "--parts", "12", "--out", str(self.out / "ray"), "--", *SWEEP),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        victim = self.nodes[1]
        raylet = victim.all_processes["raylet"][0].process.pid

        def at_work():
            for process, folder in programs_of(raylet).items():
                unfinished = folder / "predictions.jsonl.unfinished"
                if unfinished.exists() and unfinished.read_bytes().count(b"\n") >= 30:
                    os.kill(process, signal.SIGSTOP)  # or it could end before the node does
                    if unfinished.exists():
                        return process, folder, unfinished.read_bytes()
                    os.kill(process, signal.SIGCONT)
            return None

        process, folder, there = self.wait_for(at_work, "a part on the third node")
        self.cluster.remove_node(victim, allow_graceful=False)
        self.wait_for(lambda: not pathlib.Path(f"/proc/{process}").exists(), "the end of the program on the killed node")
        there = there[: there.rfind(b"\n") + 1]

        table, told = running.communicate(timeout=300)
        print(told, file=sys.stderr)
        self.assertEqual(running.returncode, 0, told)
        self.assertEqual((folder / "predictions.jsonl").read_bytes()[: len(there)], there)  # times included: these were not answered again
        answers = [line for file in (self.out / "ray/parts").glob("*/predictions.jsonl") for line in file.read_text().splitlines()]
        self.assertEqual(len(answers), len((self.out / "whole/predictions.jsonl").read_text().splitlines()))
        self.assertEqual(rows_without_times(self.out / "ray/sweep.csv"), rows_without_times(self.out / "whole/sweep.csv"))
        self.assertTrue(table.startswith("| task "), table)
        self.assertIn("12 of 12", told)
        busy = float(re.search(r"busy for ([0-9.]+)%", told)[1])
        self.assertGreaterEqual(busy, 95)

    def test_2_another_number_of_parts_answers_nothing_again(self):
        again = subprocess.run(driver("--address", self.cluster.address, "--parts", "5", "--out", str(self.out / "ray"), "--", *SWEEP),
                               capture_output=True, text=True)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual([file.read_text() for file in (self.out / "ray/parts").glob("*-of-5/predictions.jsonl")], [""] * 5)
        self.assertEqual(rows_without_times(self.out / "ray/sweep.csv"), rows_without_times(self.out / "whole/sweep.csv"))

    def test_3_bad_input_and_too_little_memory_are_one_line(self):
        for flags, words in (["--stages", "3:0.5"], "--stages"), (["-d", "none.jsonl"], "none.jsonl"):
            wrong = subprocess.run(driver("--address", self.cluster.address, "--out", str(self.out / "wrong"), "--", *SWEEP, *flags),
                                   capture_output=True, text=True)
            self.assertEqual(wrong.returncode, 1)
            last = wrong.stderr.strip().splitlines()[-1]
            self.assertTrue(last.startswith("sweep.py: part ") and words in last, wrong.stderr)
        none = subprocess.run(driver("--address", self.cluster.address, "--out", str(self.out / "x"), "--", *SWEEP, "-m", "none.gguf"),
                              capture_output=True, text=True)
        self.assertEqual(none.returncode, 1)
        self.assertTrue(none.stderr.strip().splitlines()[-1].startswith("lazyprune: none.gguf"), none.stderr)
        large = subprocess.run(driver("--address", self.cluster.address, "--memory", str(1 << 40), "--out", str(self.out / "x"), "--", *SWEEP),
                               capture_output=True, text=True)
        self.assertEqual(large.returncode, 1)
        self.assertIn(f"and {1 << 40} bytes of memory, found none", large.stderr.strip().splitlines()[-1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
