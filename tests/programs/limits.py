# SPDX-License-Identifier: MIT
"""Runs `lazyprune run` under limits of the machine, and compares the answers and the traces with those of an ordinary run, byte by byte.

limits.py PROGRAM
"""

import ctypes
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

TEXT = "The capital of France is"
PR_SET_THP_DISABLE = 41


def address_space(kib):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (kib << 10, kib << 10))


def no_huge_pages():
    if ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        raise OSError("prctl")


def one_processor():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class limited_runs:
    def __init__(self, program, folder):
        self.program, self.trace = program, pathlib.Path(folder) / "trace.jsonl"
        self.code, self.expected, errors = self.run()
        if self.code != 0:
            sys.exit(f"limits: an ordinary run failed: {errors}")

    def run(self, before=None, **environment):
        """The exit code, the answer with its trace, and the errors of a run."""
        self.trace.unlink(missing_ok=True)
        done = subprocess.run([self.program, "run", "-p", TEXT, "-n", "12", "--stages", "2:0.5", "--trace", self.trace], capture_output=True,
                              preexec_fn=before, env={**os.environ, **environment}, timeout=60)
        trace = self.trace.read_bytes() if self.trace.exists() else b""
        return done.returncode, done.stdout + trace, done.stderr.decode(errors="replace")

    def expect_same(self, what, before=None, **environment):
        code, found, errors = self.run(before, **environment)
        if code != 0 or found != self.expected:
            sys.exit(f"limits: {what}: exit code {code}, {'the same' if found == self.expected else 'another'} answer, errors: {errors}")


def main():
    if not sys.platform.startswith("linux"):
        print("skipped: needs Linux")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        runs = limited_runs(sys.argv[1], folder)
        runs.expect_same("without transparent huge pages", no_huge_pages)
        runs.expect_same("on one processor", one_processor)
        runs.expect_same("with threads of OpenMP that have small stacks", OMP_STACKSIZE="256K", OMP_NUM_THREADS="2")

        # Under a small limit, the program ends with one line that says that memory is missing. Under a smaller one, the loader cannot map
        # the program's libraries (exit code 127).
        answers = refusals = 0
        for kib in range(8_000, 100_000, 3_000):
            code, found, errors = runs.run(address_space(kib), OMP_NUM_THREADS="3")
            if code == 0 and found == runs.expected:
                answers += 1
            elif code == 3 and len([line for line in errors.splitlines() if line.startswith("lazyprune: ") and "memory" in line]) == 1:
                refusals += 1
            elif code != 127:
                sys.exit(f"limits: {kib} KiB of address space: exit code {code}, errors: {errors}")
        if answers == 0 or refusals == 0:
            sys.exit(f"limits: expected answers and refusals under limits of address space, found {answers} and {refusals}")
    print(f"the same answers under 3 limits; under limits of address space {answers} answers and {refusals} refusals")


if __name__ == "__main__":
    main()
