#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares lazyprune with llama.cpp on the same random weights: first whether both compute the same model, then how fast.

  make_models.py DIRECTORY
  run.py DIRECTORY [--program build/examples/lazyprune] [-P 512,2048,4096] [-n 32] [-t 1,2] [--types BF16,Q8_0,F32] [--rounds 3]
         [--stages 6:0.7,13:0.7,19:0.7 --stages ...] [-o FILE.json]

Every round runs each engine once. Each round starts with another engine, so that slow minutes of the machine affect all of them. A cell is
the median of its rounds. A ratio is a rate divided by the rate of llama.cpp's fastest type. Needs numpy and llama-cpp-python, which pip compiles for
the machine.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
PEER = os.path.join(HERE, "peer_llama_cpp.py")
OURS = {"BF16": "hf-bf16", "F32": "hf-f32"}  # each weight type that both engines have, and how the name of our model's folder ends

# Two schedules for 22 layers. The first is drawn in the paper. The second prunes at the same layers. The cost model predicts a speedup of
# 2.3x for it at 2,048 tokens.
STAGES = ["6:0.7,13:0.7,19:0.7", "6:0.355,13:0.355,19:0.355"]

# Bounds for how far apart the logits of both engines may be: RMS(ours - theirs) / RMS(theirs). The engines round in different places.
# With bf16 weights, both round activations to bf16. llama.cpp also rounds keys and values to f16. Rounding makes a difference of a few
# hundredths at most. The easiest mistake in writing the same weights as GGUF and as safetensors is a wrong order of the rows in the key
# heads. It makes a difference of 0.1.
SAME_MODEL = {"BF16": 0.05, "F32": 0.01}


@dataclass(frozen=True)
class Setting:
    prompt: int
    threads: int
    generate: int


def output_of(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


class Peer:
    def __init__(self, directory, shape, kind):
        self.name, self.path = f"llama.cpp {kind}", os.path.join(directory, f"{shape}-{kind}.gguf")

    def measure(self, setting):
        """Yields (column, test, tokens per second)."""
        command = [sys.executable, PEER, self.path, "-P", str(setting.prompt), "-n", str(setting.generate), "-t", str(setting.threads)]
        for row in json.loads(output_of(command)):
            yield self.name, row["test"], row["tokens_per_s"]

    def logits(self, ids):
        return json.loads(output_of([sys.executable, PEER, self.path, "--logits", ",".join(map(str, ids))]))


class Ours:
    def __init__(self, program, directory, shape, kind, stages):
        self.kind, self.stages, self.program = kind, stages, program
        self.path = os.path.join(directory, f"{shape}-{OURS[kind]}")

    def measure(self, setting):
        command = [self.program, "bench", "-m", self.path, "-P", str(setting.prompt), "-n", str(setting.generate)]
        command += ["-t", str(setting.threads), "-r", "1", "-o", "json", "--policy", "lazyllm", "--stages", self.stages]
        for row in json.loads(output_of(command)):
            yield f"lazyprune {self.kind} {'dense' if row['policy'] == 'dense' else self.stages}", row["test"], row["tokens_per_s"]

    def logits(self, ids):
        with tempfile.TemporaryDirectory() as directory:
            trace = os.path.join(directory, "trace.jsonl")
            command = [self.program, "run", "-m", self.path, "--ids", ",".join(map(str, ids)), "-n", "1", "--policy", "dense"]
            output_of(command + ["--trace", trace, "--trace-logits"])
            with open(trace, encoding="utf-8") as file:
                return json.loads(file.readline())["logits"]


def check_same_model(ours, peer, kind):
    import numpy as np

    differences, agreed = [], 0
    prompts = [[1], [1] + list(range(300, 315)), [7919 * i % 4096 for i in range(64)]]
    for ids in prompts:
        a, b = np.array(ours.logits(ids)), np.array(peer.logits(ids))
        if a.shape != b.shape:
            raise SystemExit(f"{kind}: {a.size} logits here, {b.size} in llama.cpp: not the same model")
        differences.append(float(np.sqrt(np.mean((a - b) ** 2) / np.mean(b**2))))
        agreed += int(a.argmax() == b.argmax())
    print(f"{kind}: same next token in {agreed} of {len(prompts)} prompts, logits apart by {max(differences):.1e} of their size")
    if max(differences) > SAME_MODEL[kind]:
        raise SystemExit(f"{kind}: the logits are more than {SAME_MODEL[kind]} of their size apart: not the same model")


def median_rates(engines, setting, rounds):
    """Returns {test: {column: tokens per second}}: medians over the rounds."""
    rates = {}
    for turn in range(rounds):
        order = engines[turn % len(engines) :] + engines[: turn % len(engines)]
        for index, engine in enumerate(order):
            where = f"{setting.prompt} tokens, {setting.threads} threads, round {turn + 1} of {rounds}, {index + 1} of {len(order)}"
            print(f"\r{where} ", end="", file=sys.stderr, flush=True)
            for column, test, rate in engine.measure(setting):
                rates.setdefault(test, {}).setdefault(column, []).append(rate)
    print(file=sys.stderr)
    return {test: {column: statistics.median(values) for column, values in columns.items()} for test, columns in rates.items()}


def print_rows(results):
    for result in results:
        best = max((rate for column, rate in result["tokens_per_s"].items() if column.startswith("llama.cpp")), default=None)
        for column, rate in result["tokens_per_s"].items():
            ratio = f"{rate / best:.2f}x" if best else ""
            print(f"| {result['threads']} | {result['prompt']} | {result['test']} | {column} | {rate:.2f} | {ratio} |", flush=True)


def numbers(text):
    return [int(number) for number in text.split(",")]


def parse_arguments():
    parser = argparse.ArgumentParser(description="Compares lazyprune with llama.cpp on the same random weights.")
    parser.add_argument("directory", help="the folder that make_models.py wrote")
    parser.add_argument("--shape", default="tinyllama-1.1b")
    parser.add_argument("--program", default="build/examples/lazyprune")
    parser.add_argument("-P", "--prompts", type=numbers, default=[512, 2048, 4096])
    parser.add_argument("-n", "--generate", type=int, default=32, help="tokens after each prompt; 0: none (default: 32)")
    parser.add_argument("-t", "--threads", type=numbers, default=[1, 2])
    parser.add_argument("--types", default="BF16,Q8_0,F32", help="types of llama.cpp's files; ours run in BF16 and F32 if listed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stages", action="append",
                        help="stages of a pruned column; may be given several times (default: " + " and ".join(STAGES) + ")")
    parser.add_argument("-o", "--output", help="also write the results to this file, as JSON")
    options = parser.parse_args()
    options.types = options.types.split(",")
    options.stages = options.stages or STAGES
    return options


def main():
    options = parse_arguments()
    if importlib.util.find_spec("llama_cpp") is None or importlib.util.find_spec("numpy") is None:
        raise SystemExit("numpy or llama-cpp-python is missing: pip install numpy llama-cpp-python (compiling it takes minutes)")
    peers = {kind: Peer(options.directory, options.shape, kind) for kind in options.types}
    ours = [
        Ours(options.program, options.directory, options.shape, kind, stages)
        for kind in options.types if kind in OURS for stages in options.stages
    ]
    for engine in [*peers.values(), *ours]:
        if not os.path.exists(engine.path):
            raise SystemExit(f"{engine.path} does not exist: make_models.py writes it")

    for kind in OURS:
        if kind in peers:
            check_same_model(next(engine for engine in ours if engine.kind == kind), peers[kind], kind)
    print("\n| threads | prompt | test | engine | tokens/s | over the best peer |\n| ---: | ---: | ---: | :--- | ---: | ---: |")
    results = []
    for threads in options.threads:
        for prompt in options.prompts:
            rates = median_rates([*peers.values(), *ours], Setting(prompt, threads, options.generate), options.rounds)
            measured = [{"threads": threads, "prompt": prompt, "test": test, "tokens_per_s": rates[test]} for test in rates]
            print_rows(measured)
            results += measured
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
