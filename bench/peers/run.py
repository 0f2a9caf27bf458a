#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares lazyprune with other engines on the same random weights: first whether they compute the same model, then how fast.

  install.py VENVS && VENVS/llama_cpp/bin/python make_models.py DIRECTORY
  run.py DIRECTORY [--program build/examples/lazyprune] [--venvs build/peers] [--python NAME=PATH ...] [--peers llama_cpp,pytorch,...]
         [-P 512,2048,4096,8192] [-n 32] [-t 1,2] [--ours BF16,Q8_0,...] [--types best|BF16,Q8_0,...] [--rounds 3]
         [--stages 6:0.7,13:0.7,19:0.7 --stages ...|none]
         [-o FILE.json]

The peers are the files peer_NAME.py. A peer runs with the Python of --python, else with VENVS/NAME/bin/python, else with the one that runs this
script. A peer that cannot be had, or that fails later, is a line that says why, and the others go on.

By default each peer reads the first prompt once with each of its types, and its fastest type is then measured. Every round runs each engine once.
Each round starts with another engine, so that slow minutes of the machine affect all of them. A cell is the median of its rounds. A ratio is a rate
divided by that of the fastest peer. All engines run on the same processors, as many as they have threads. Needs nothing but Python.
"""
import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ["llama_cpp", "ik_llama_cpp", "pytorch", "openvino", "vllm"]
# Our types of weights, and how the name of the model's folder or file ends.
OURS = {"BF16": "-hf-bf16", "F32": "-hf-f32", **{kind: f"-{kind}.gguf" for kind in ["Q8_0", "Q4_0", "Q4_K_M", "Q6_K"]}}

# Two schedules for 22 layers. The first is drawn in the paper. The second prunes at the same layers. The cost model predicts a speedup of
# 2.3x for it at 2,048 tokens.
STAGES = ["6:0.7,13:0.7,19:0.7", "6:0.355,13:0.355,19:0.355"]

# Bounds for how far apart the logits of two engines may be: RMS(ours - theirs) / RMS(theirs). The engines round in different places.
# With bf16 weights, all round activations to bf16, and some also round keys, values or sums. Rounding makes a difference of a few
# hundredths at most. The easiest mistake in writing the same weights in several formats is a wrong order of the rows in the key heads. It
# makes a difference of 0.1. With quantized weights, engines round activations to 8 bits. bench.rounding finds our logits 0.044 from exact
# ones and llama.cpp's 0.060 (K types), so they are apart by 0.075, and a wrong order would make 0.12.
SAME_MODEL = {"F32": 0.01, "BF16": 0.05}
SAME_MODEL_IF_QUANTIZED = 0.1
PROMPTS_OF_CHECK = [[1], [1] + list(range(300, 315)), [7919 * i % 4096 for i in range(64)]]

FLAGS = ["avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16"]  # of the processor, worth a line above the table
PATIENCE = 3600  # seconds that a process may take


class Failed(Exception):
    """Why an engine cannot be measured, in one line."""


@dataclass(frozen=True)
class Setting:
    prompts: list[int]
    threads: int
    generate: int
    warm_up: int


@dataclass(frozen=True)
class Sample:
    engine: str
    weights: str
    prompt: int
    prefill: float  # seconds until the token after the prompt is known
    step: float | None  # seconds of each token after it, if any were generated


def processors(count):
    return sorted(os.sched_getaffinity(0))[:count]


def output_of(command, threads, given=""):
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    pin = lambda: os.sched_setaffinity(0, processors(threads))  # noqa: E731
    try:
        done = subprocess.run(command, input=given, capture_output=True, encoding="utf-8", errors="replace", check=False,
                              env=environment, preexec_fn=pin, timeout=PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"took longer than {PATIENCE} s") from error
    except OSError as error:
        raise Failed(str(error)) from error
    if done.returncode < 0:
        raise Failed(f"ended by {signal.Signals(-done.returncode).name}")
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise Failed(" ".join(said[-1].split())[:200])
    return done.stdout


class Peer:
    def __init__(self, file, python):
        self.command = [python, os.path.join(HERE, f"peer_{file}.py")]
        about = json.loads(output_of([*self.command, "--about"], 1))
        self.name, self.version, self.types = about["name"], about["version"], about["types"]


class PeerWithType:
    def __init__(self, peer, options, kind):
        self.peer, self.kind, self.label = peer, kind, f"{peer.name} {kind}"
        self.command = [*peer.command, options.directory, options.shape, kind]

    def measure(self, setting):
        command = [*self.command, "-P", ",".join(map(str, setting.prompts)), "-n", str(setting.generate), "-t", str(setting.threads)]
        for row in json.loads(output_of([*command, "--warm-up", str(setting.warm_up)], setting.threads)):
            yield Sample(self.peer.name, self.kind, row["prompt"], row["prefill_s"], row["step_s"])

    def logits(self, prompts):
        return json.loads(output_of([*self.command, "--logits"], 1, json.dumps(prompts)))


class Ours:
    def __init__(self, options, kind):
        self.kind, self.label, self.program, self.stages = kind, f"lazyprune {kind}", options.program, options.stages
        self.path = os.path.join(options.directory, f"{options.shape}{OURS[kind]}")
        if not os.path.exists(self.path):
            raise SystemExit(f"{self.path} does not exist: make_models.py writes it")

    def measure(self, setting):
        """With stages, the dense model runs beside each of them, so it has more samples."""
        for prompt in setting.prompts:
            command = [self.program, "bench", "-m", self.path, "-P", str(prompt), "-n", str(setting.generate), "-t", str(setting.threads)]
            command += ["-r", "1", "-o", "json"] + ([] if prompt <= setting.warm_up else ["--no-warmup"])
            for stages in self.stages or [None]:
                policy = ["--policy", "lazyllm", "--stages", stages] if stages else ["--policy", "dense"]
                found = {}
                for row in json.loads(output_of(command + policy, setting.threads)):
                    weights = self.kind if row["policy"] == "dense" else f"{self.kind}, {stages}"
                    found.setdefault(weights, {})[row["test"][:2]] = row
                for weights, rows in found.items():
                    step = 1 / rows["tg"]["tokens_per_s"] if "tg" in rows else None
                    yield Sample("lazyprune", weights, prompt, rows["pp"]["seconds"], step)

    def logits(self, prompts):
        found = []
        for ids in prompts:
            with tempfile.TemporaryDirectory() as directory:
                trace = os.path.join(directory, "trace.jsonl")
                command = [self.program, "run", "-m", self.path, "--ids", ",".join(map(str, ids)), "-n", "1", "--policy", "dense"]
                output_of([*command, "--trace", trace, "--trace-logits"], 1)
                with open(trace, encoding="utf-8") as file:
                    found.append(json.loads(file.readline())["logits"])
        return found


def check_same_model(ours, engine):
    differences, agreed = [], 0
    theirs = engine.logits(PROMPTS_OF_CHECK)
    for a, b in zip(ours, theirs):
        if len(a) != len(b):
            raise Failed(f"{len(a)} logits here, {len(b)} there: not the same model")
        differences.append(math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / sum(y**2 for y in b)))
        agreed += a.index(max(a)) == b.index(max(b))
    allowed = SAME_MODEL.get(engine.kind, SAME_MODEL_IF_QUANTIZED)
    if not max(differences) <= allowed:
        raise Failed(f"logits apart by {max(differences):.1e} of their size, more than {allowed}: not the same model")
    print(f"- {engine.label}: same next token in {agreed} of {len(theirs)} prompts, logits apart by {max(differences):.1e} of their size", flush=True)


def found_peers(options):
    for file in options.peers:
        own = os.path.join(options.venvs, file, "bin", "python")
        python = options.python.get(file) or (own if os.path.exists(own) else sys.executable)
        try:
            yield Peer(file, python)
        except Failed as reason:
            print(f"- {file} cannot be had: {reason}", flush=True)


def checked_peers(peers, ours, options):
    """Yields the peers without the types whose logits are not ours. Leaves out a peer if it agrees with ours in none of the types of both."""
    logits = {engine.kind: engine.logits(PROMPTS_OF_CHECK) for engine in ours}
    for peer in peers:
        print(f"- {peer.name}: {peer.version}", flush=True)
        shared = [kind for kind in logits if kind in peer.types]
        if not shared:
            print(f"- {peer.name} is not compared with ours: it has none of our types", flush=True)
        failed = []
        for kind in shared:
            try:
                check_same_model(logits[kind], PeerWithType(peer, options, kind))
            except Failed as reason:
                print(f"- {peer.name} {kind} is not measured: {reason}", flush=True)
                failed.append(kind)
        if failed and failed == shared:
            print(f"- {peer.name} is not measured: it agrees with ours in no type", flush=True)
            continue
        peer.types = [kind for kind in peer.types if kind not in failed]
        yield peer


def chosen_types(peer, options):
    """Returns the peer with each type asked for, or with the fastest at the first prompt."""
    if options.types != ["best"]:
        chosen = [PeerWithType(peer, options, kind) for kind in peer.types if kind in options.types or options.types == ["all"]]
        if not chosen:
            print(f"- {peer.name} is not measured: it has none of {', '.join(options.types)}", flush=True)
        return chosen
    tried = {}
    for kind in peer.types:
        engine = PeerWithType(peer, options, kind)
        try:
            sample = next(engine.measure(Setting(options.prompts[:1], options.threads[0], 0, options.prompts[0])))
            tried[engine] = sample.prompt / sample.prefill
        except Failed as reason:
            print(f"- {engine.label} is not measured: {reason}", flush=True)
    rates = ", ".join(f"{engine.kind} {rate:.1f}" for engine, rate in sorted(tried.items(), key=lambda pair: -pair[1]))
    if tried:
        print(f"- {peer.name}: tokens/s at {options.prompts[0]:,} tokens by type: {rates}", flush=True)
    return [max(tried, key=tried.get)] if tried else []


def samples_of(engines, setting, rounds):
    """Runs every engine once a round. An engine that fails is left out of the later rounds."""
    samples, engines = [], list(engines)
    for turn in range(rounds):
        start = turn % max(len(engines), 1)
        for index, engine in enumerate(engines[start:] + engines[:start]):
            where = f"{setting.threads} threads, round {turn + 1} of {rounds}, {index + 1} of {len(engines)}: {engine.label}"
            print(f"\r{where}\033[K", end="", file=sys.stderr, flush=True)
            try:
                samples += engine.measure(setting)
            except Failed as reason:
                if isinstance(engine, Ours):
                    raise
                print(f"\r- {engine.label} failed in round {turn + 1}: {reason}", flush=True)
                engines = [other for other in engines if other is not engine]
    print("\r\033[K", end="", file=sys.stderr)
    return samples


def medians(samples, value):
    """Returns {(engine, weights): {prompt: the median of its values}}."""
    values = {}
    for sample in samples:
        if value(sample) is not None:
            values.setdefault((sample.engine, sample.weights), {}).setdefault(sample.prompt, []).append(value(sample))
    return {row: {prompt: statistics.median(found) for prompt, found in prompts.items()} for row, prompts in values.items()}


def print_table(samples, setting):
    """Prefills of all prompts, and steps after the shortest and the longest. A cell has tokens a second and its ratio to the fastest peer's."""
    prefill, step = medians(samples, lambda s: s.prompt / s.prefill), medians(samples, lambda s: s.step and 1 / s.step)
    columns = [(f"{prompt:,}", prefill, prompt) for prompt in setting.prompts]
    if step:
        columns += [(f"decode after {prompt:,}", step, prompt) for prompt in sorted({min(setting.prompts), max(setting.prompts)})]
    print(f"\n| {setting.threads} thread{'s' * (setting.threads > 1)} | weights | " + " | ".join(title for title, _, _ in columns) + " |")
    print("|---|---|" + "---:|" * len(columns))
    for row in sorted(prefill, key=lambda row: row[0] != "lazyprune"):
        cells = []
        for _, rates, prompt in columns:
            best = max((found[prompt] for (engine, _), found in rates.items() if engine != "lazyprune" and prompt in found), default=None)
            rate = rates.get(row, {}).get(prompt)
            cells.append("" if rate is None else f"{rate:.1f}" + (f" ({rate / best:.2f}x)" if best else ""))
        print(f"| {row[0]} | {row[1]} | " + " | ".join(cells) + " |", flush=True)


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        lines = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines())
    lines = {key.strip(): value.strip() for key, value in lines.items()}
    flags = lines.get("flags", "").split()
    return f"{lines.get('model name', 'unknown processor')}, {' '.join(flag for flag in FLAGS if flag in flags)}"


def numbers(text):
    return [int(number) for number in text.split(",")]


def parse_arguments():
    parser = argparse.ArgumentParser(description="Compares lazyprune with other engines on the same random weights.")
    parser.add_argument("directory", help="the folder that make_models.py wrote")
    parser.add_argument("--shape", default="tinyllama-1.1b", help="how the names in the folder begin (default: tinyllama-1.1b)")
    parser.add_argument("--program", default="build/examples/lazyprune")
    parser.add_argument("--peers", default=",".join(PEERS), help="(default: " + ",".join(PEERS) + ")")
    parser.add_argument("--venvs", default="build/peers", help="the folder that install.py wrote (default: build/peers)")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH", help="the Python of a peer; may be given several times")
    parser.add_argument("-P", "--prompts", type=numbers, default=[512, 2048, 4096, 8192])
    parser.add_argument("-n", "--generate", type=int, default=32, help="tokens after each prompt; 0: none (default: 32)")
    parser.add_argument("-t", "--threads", type=numbers, default=[1, 2])
    parser.add_argument("--types", default="best",
                        help="the peers' types of weights, `all`, or `best`: each peer's fastest (default: best)")
    parser.add_argument("--ours", default="BF16", help="our types of weights, some of " + ", ".join(OURS) + " (default: BF16)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=512, help="tokens read before each timed prompt, at most (default: 512)")
    parser.add_argument("--stages", action="append",
                        help="stages of a pruned row; may be given several times; none: dense alone (default: " + " and ".join(STAGES) + ")")
    parser.add_argument("-o", "--output", help="also write the samples to this file, as JSON")
    options = parser.parse_args()
    options.peers, options.types, options.ours = options.peers.split(","), options.types.split(","), options.ours.split(",")
    if unknown := [kind for kind in options.ours if kind not in OURS]:
        parser.error(f"--ours: {unknown[0]} is not one of our types: expected some of {', '.join(OURS)}")
    if unknown := [name for name in [*options.peers, *(text.split("=")[0] for text in options.python)] if name not in PEERS]:
        parser.error(f"{unknown[0]} is not a peer: expected some of {', '.join(PEERS)}")
    options.python = dict(text.split("=", 1) for text in options.python)
    options.stages = [stages for stages in options.stages or STAGES if stages != "none"]
    if max(options.threads) > len(os.sched_getaffinity(0)):
        parser.error(f"--threads: this process may use {len(os.sched_getaffinity(0))} processors")
    return options


def measure(options):
    ours = [Ours(options, kind) for kind in options.ours]
    print(f"- machine: {machine()}\n- lazyprune: {output_of([options.program, '--version'], 1).strip()}", flush=True)
    found = list(found_peers(options))
    known = {kind for peer in found for kind in peer.types}
    if found and options.types not in (["best"], ["all"]) and (unknown := [kind for kind in options.types if kind not in known]):
        raise Failed(f"--types: no peer has {unknown[0]}: expected best, all or some of {', '.join(sorted(known))}")
    peers = list(checked_peers(found, ours, options))
    engines = [engine for peer in peers for engine in chosen_types(peer, options)]
    results = []
    for threads in options.threads:
        setting = Setting(options.prompts, threads, options.generate, options.warm_up)
        samples = samples_of([*ours, *engines], setting, options.rounds)
        print_table(samples, setting)
        results += [{"threads": threads, **vars(sample)} for sample in samples]
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


def main():
    options = parse_arguments()
    try:
        measure(options)
    except Failed as reason:
        raise SystemExit(f"error: {reason}") from reason


if __name__ == "__main__":
    main()
