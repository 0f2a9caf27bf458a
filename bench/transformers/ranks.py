#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures tensor parallel on CPUs: N ranks with one thread each beside one process with N threads, both plain and under `lazyprune.prune`.

  ranks.py [--ranks 2] [--layers 22 --hidden 2048 --ffn 5632 --heads 32 --kv-heads 4 --vocabulary 32000] [-P 2048] [--rounds 3]
           [--policy "lazyllm --stages 6:0.7,13:0.7,19:0.7" --policy ...] [--folder FOLDER]

The model has random weights in float32, from a checkpoint that the script writes to FOLDER, or else to a temporary folder. Every round runs
each column once in one process and once on the ranks, in turn. A cell is the median of its rounds. `speedup` is the time without a policy,
divided by that with the policy. `kept` says whether the ranks keep the tokens of one process in each layer. If not, it says where they first
differ, in how many tokens, and the margin of this choice: the score of the last kept token minus that of the first dropped one.

The second table has the times of gloo's sums: those of a layer's rows, which transformers needs, and those that pruning adds.
"""
import contextlib
import multiprocessing.connection
import os
import statistics
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import transformers
from run import POLICIES, config_of, first_token, parser_of_shapes

import lazyprune
from lazyprune.interface import tensor_parallel_group
from lazyprune.ranks import Ranks


class Choices(lazyprune.TraceRecorder):
    """Also records the margin of the choice before each layer."""

    def begin(self, *step):
        super().begin(*step)
        self.margins = []

    def look(self, part, layer):
        super().look(part, layer)
        self.margins.append(part.text.session.margin)


class Worker:
    """One process with the model, or one rank of several."""

    def __init__(self, folder, count, rank, threads):
        torch.set_num_threads(threads)
        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
        how = {}
        if count > 1:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count))
            dist.init_process_group("gloo", f"file://{folder}/store", timedelta(minutes=10), world_size=count, rank=rank)
            how = {"tp_plan": "auto"}
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **how)

    def ids(self, tokens):
        return torch.randint(3, self.model.config.vocab_size, (1, tokens), generator=torch.Generator().manual_seed(0))

    def seconds(self, policy, tokens):
        return first_token(self.model, policy, self.ids(tokens))[0]

    def choices(self, policy, tokens):
        """Returns the active tokens of each layer, and the margin of the choice before the layer."""
        recorder = Choices()
        with lazyprune.prune(self.model, policy, trace=recorder):
            self.model.generate(self.ids(tokens), max_new_tokens=1, do_sample=False)
        return [layer["active"] for layer in recorder.steps[0]["layers"]], recorder.margins

    def sum_of_rows(self, floats):
        return self._time(lambda: dist.all_reduce(torch.ones(floats)))

    def sum_of_scores(self, floats):
        ranks = Ranks(tensor_parallel_group(self.model))
        return self._time(lambda: ranks.sum(torch.ones(floats)))

    def comparison(self, _):
        ranks = Ranks(tensor_parallel_group(self.model))
        return self._time(lambda: ranks.expect_same("numbers", bytes(8), torch.device("cpu")))

    def _time(self, work):
        work()
        times = []
        for _ in range(20):
            dist.barrier()
            begin = time.perf_counter()
            work()
            times.append(time.perf_counter() - begin)
        return statistics.median(times)


def serve(pipe, *arguments):
    worker = Worker(*arguments)
    pipe.send("ready")
    while (call := pipe.recv()) is not None:
        name, *words = call
        pipe.send(getattr(worker, name)(*words))


class Group:
    """The processes that compute one model."""

    def __init__(self, folder, count, threads):
        spawn = multiprocessing.get_context("spawn")
        pairs = [spawn.Pipe() for _ in range(count)]
        self.pipes = [ours for ours, _ in pairs]
        for rank, (_, theirs) in enumerate(pairs):
            spawn.Process(target=serve, args=(theirs, folder, count, rank, threads), daemon=True).start()
            theirs.close()  # only the rank has it now, so the pipe breaks when the rank ends
        self._answers()

    def call(self, *call):
        """Returns the first rank's answer."""
        for pipe in self.pipes:
            pipe.send(call)
        return self._answers()[self.pipes[0]]

    def _answers(self):
        answers = {}
        while waiting := [pipe for pipe in self.pipes if pipe not in answers]:
            for pipe in multiprocessing.connection.wait(waiting):
                try:
                    answers[pipe] = pipe.recv()
                except EOFError:
                    raise SystemExit(f"error: rank {self.pipes.index(pipe)} of {len(self.pipes)} ended") from None
        return answers

    def end(self):
        for pipe in self.pipes:
            pipe.send(None)


def compared(ranks, alone):
    """ranks, alone: the choices. Returns the cell `kept`."""
    (found, _), (expected, margins) = ranks, alone
    first = next((layer for layer in range(len(expected)) if found[layer] != expected[layer]), None)
    if first is None:
        return "the same"
    others = len(set(expected[first]) - set(found[first]))
    return f"{others} others of {len(expected[first])} after {first} layers, margin {margins[first]:.1e}"


def main():
    parser = parser_of_shapes(__doc__, "2048")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--folder")
    flags = parser.parse_args()
    columns, prompts = [None, *(flags.policy or POLICIES)], list(map(int, flags.prompts.split(",")))
    with tempfile.TemporaryDirectory() if flags.folder is None else contextlib.nullcontext(flags.folder) as folder:
        if not os.path.exists(f"{folder}/config.json"):
            torch.manual_seed(0)
            transformers.LlamaForCausalLM(config_of(flags)).save_pretrained(folder)
        with contextlib.suppress(FileNotFoundError):
            os.remove(f"{folder}/store")
        alone, ranks = Group(folder, 1, flags.ranks), Group(folder, flags.ranks, 1)
        print(f"torch {torch.__version__}, transformers {transformers.__version__}, float32, gloo")
        n = flags.ranks
        print(f"| prompt | policy | 1 process, {n} threads | speedup | {n} ranks, 1 thread each | speedup | ranks / process | kept |")
        print("|---:|---|---:|---:|---:|---:|---:|---|")
        for tokens in prompts:
            times = {(policy, group): [] for policy in columns for group in (alone, ranks)}
            for policy, group in times:
                group.call("seconds", policy, 64)
            for i in range(flags.rounds):
                for policy in columns[i % len(columns) :] + columns[: i % len(columns)]:
                    for group in (alone, ranks) if i % 2 == 0 else (ranks, alone):
                        times[policy, group].append(group.call("seconds", policy, tokens))
            median = {key: statistics.median(seconds) for key, seconds in times.items()}
            for policy in columns:
                one, several = median[policy, alone], median[policy, ranks]
                if policy is None:
                    print(f"| {tokens} | transformers alone | {one:.2f} s | | {several:.2f} s | | {several / one:.2f} | |", flush=True)
                    continue
                speedups = median[None, alone] / one, median[None, ranks] / several
                kept = compared(ranks.call("choices", policy, tokens), alone.call("choices", policy, tokens))
                cells = f"{one:.2f} s | {speedups[0]:.2f}x | {several:.2f} s | {speedups[1]:.2f}x | {several / one:.2f} | {kept}"
                print(f"| | `{policy}` | {cells} |", flush=True)
        print("\n| gloo | bytes | time |\n|---|---:|---:|")
        for rows in (1, 64, 512, *prompts):
            seconds = ranks.call("sum_of_rows", rows * flags.hidden)
            print(f"| sum of {rows} rows, twice a layer | {rows * flags.hidden * 4} | {1e3 * seconds:.2f} ms |")
        for tokens in prompts:
            print(f"| sum of the scores of {tokens} tokens | {tokens * 4} | {1e3 * ranks.call('sum_of_scores', tokens):.2f} ms |")
        print(f"| comparison of a hash | 8 | {1e3 * ranks.call('comparison', None):.2f} ms |")
        alone.end()
        ranks.end()


if __name__ == "__main__":
    main()
