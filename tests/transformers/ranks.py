# SPDX-License-Identifier: MIT
"""Tests of tensor parallel: 2 and 4 ranks, which torchrun starts, keep the tokens that one process keeps, and give its answers. Ranks that do
not compute the same step, and ranks that lose another one, end with one line.

ranks.py FOLDER_OF_THE_PACKAGE
"""

import contextlib
import json
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from datetime import timedelta
from unittest import mock

PACKAGE = sys.argv.pop(1)
sys.path.insert(0, PACKAGE)

from small_models import FAMILIES, PRUNED, add_scorer_of_hidden_states, greedy, ids, padded, random_model  # first, since it skips without torch

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM, set_seed

import lazyprune
from lazyprune import evidence
from lazyprune.interface import CACHE

add_scorer_of_hidden_states(lazyprune.shared_library())
if not (dist.is_available() and dist.is_gloo_available()):
    print("skipped: needs a torch that has torch.distributed with gloo")
    sys.exit(77)

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/transformers/tensor_parallel.py"
POCKET = EXAMPLE.parents[1] / "pocket/model"
HEADS = {"num_attention_heads": 8, "num_key_value_heads": 4}
MODELS = {name: (lambda make=make: make(**HEADS)) for name, make in FAMILIES.items() if name != "llama, scaled"}
MODELS["llama, tied"] = lambda: random_model(tie_word_embeddings=True, **HEADS)
POLICIES = (
    PRUNED,
    "dense",
    "lazyllm_blocks --stages 2:0.5 --selector blocks:size=4 --decode dense",
    "streaming --schedule budget:after=0,tokens=20 --keep-first 2",
    "pyramid_kv --scorer window_attention:window=4",
    "custom --scorer last_query_attention:over=max --stages 2:0.5",
    "custom --scorer value_weighted_attention --stages 2:0.5",
    "custom --scorer accumulated_attention:over=max --stages 2:0.5",
    "custom --scorer calibrated_attention:window=5,block=4,probes=2.0.3.max.mean@2/2.1.0.last.max.next@1/2.1.6.mean.mean@-0.5 --stages 2:0.5",
    "custom --scorer key_norm --stages 2:0.5",
    "custom --scorer longest --stages 2:0.5",
    "random --stages 2:0.5",
)
SPARSE = ("lazyllm --stages 2:0.5",)  # where all other layers have a window, nothing is pruned after them


def loaded(folder, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # newer releases call the argument tp_plan old, but still take it
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, **how)


def loudest(attention, positions):
    return attention.amax(0)


def told(model, policy, work, **more):
    """Returns what `work` returned, and the rows that it cost."""
    with lazyprune.prune(model, policy, **more) as pruned:
        found = work(pruned)
    return [found.tolist(), pruned.statistics.rows]


def traced(model, policy, **more):
    """Returns the answer, and what each layer of each step saw, computed and revived."""
    recorder = lazyprune.TraceRecorder()
    text = told(model, policy, lambda _: greedy(model, ids(60), tokens=8), trace=recorder, **more)
    return [text, [step["layers"] for step in recorder.steps]]


def conversation(model, pruned):
    first = greedy(model, ids(30), tokens=6, return_dict_in_generate=True)
    return greedy(model, torch.cat([first.sequences, ids(9, seed=5)], 1), tokens=6, cache=first[CACHE])


def seeded(work):
    set_seed(7)
    return work()


def answers(name, model):
    """Returns what must be the same for any number of ranks."""
    found = {policy: traced(model, policy) for policy in (POLICIES if name == "llama" else SPARSE if "windows" in name else POLICIES[:2])}
    if name != "llama":
        return found
    batch, mask = padded()
    shapes = []

    def seen(attention, positions):
        shapes.append([tuple(attention.shape), tuple(positions.shape), attention.sum().round(decimals=9).item()])
        return loudest(attention, positions)

    found["scorer"] = traced(model, PRUNED, scorer=seen)
    found["heads that a scorer sees"] = shapes
    ways = {
        "batch": lambda _: greedy(model, batch, attention_mask=mask),
        "chunks": lambda _: greedy(model, batch, attention_mask=mask, prefill_chunk_size=16),
        "beams": lambda _: greedy(model, ids(30, 2), num_beams=3),
        "sampling": lambda _: seeded(lambda: model.generate(ids(30), max_new_tokens=9, do_sample=True, num_return_sequences=2)),
        "drafts": lambda _: greedy(model, ids(10).repeat(1, 3), prompt_lookup_num_tokens=4, eos_token_id=1),
        "conversation": lambda pruned: conversation(model, pruned),
        "document": lambda pruned: greedy(model, ids(50), cache=pruned.read(ids(40))),
    }
    return found | {way: told(model, PRUNED, work) for way, work in ways.items()}


def error_of(work):
    try:
        work()
    except (ValueError, lazyprune.RanksError) as error:
        return str(error)
    return "no error"


def disagreements(model, rank):
    """Returns the errors when one rank does not do what the others do."""
    errors = {}
    with lazyprune.prune(model, PRUNED):
        errors["tokens"] = error_of(lambda: greedy(model, ids(40, seed=rank)))
        torch.manual_seed(rank)
        errors["sampling"] = error_of(lambda: model.generate(ids(40), max_new_tokens=20, do_sample=True))
        host = evidence.to_host

        def reversed_here(step, x):
            shown = host(step, x)
            for text in shown if rank == 1 else ():
                text.update(data=text["data"].max() - text["data"]) if "data" in text else None
            return shown

        with mock.patch.object(evidence, "to_host", reversed_here):
            errors["evidence"] = error_of(lambda: greedy(model, ids(40)))
        errors["afterwards"] = error_of(lambda: greedy(model, ids(40)))
    with lazyprune.prune(model, PRUNED if rank else "lazyllm --stages 2:0.4"):
        errors["policies"] = error_of(lambda: greedy(model, ids(40)))
    generator = torch.Generator().manual_seed(rank)
    with lazyprune.prune(model, PRUNED, scorer=lambda attention, positions: torch.rand(len(positions), generator=generator)):
        errors["scorers"] = error_of(lambda: greedy(model, ids(40)))
    with mock.patch.object(model, "_tp_plan", {**model.tp_plan, "model.layers.*.self_attn.k_proj": "colwise_gather_output"}):
        errors["plan"] = error_of(lambda: lazyprune.prune(model))
    return errors


def work_of_a_rank(folder):
    count, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    result = {"answers": {name: answers(name, loaded(folder / name, tp_plan="auto")) for name in MODELS}}
    result["errors"] = disagreements(loaded(folder / "llama", tp_plan="auto"), rank)
    result["errors"]["heads"] = error_of(lambda: lazyprune.prune(loaded(folder / "odd", tp_plan="auto")))
    (folder / f"{count}.{rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


def torchrun(count, *words):
    flags = ["--standalone", "--nproc-per-node", str(count)]
    environment = {**os.environ, "PYTHONPATH": PACKAGE, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *flags, *map(str, words)], capture_output=True, text=True, env=environment, timeout=540
    )


class SameAsOneProcess(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        for name, make in MODELS.items():
            make().save_pretrained(cls.folder / name)
        random_model(num_attention_heads=9, num_key_value_heads=3, hidden_size=72).save_pretrained(cls.folder / "odd")
        alone = {name: answers(name, loaded(cls.folder / name)) for name in MODELS}
        cls.alone = json.loads(json.dumps(alone))

    def check(self, count):
        done = torchrun(count, __file__, PACKAGE, "--rank", self.folder)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        for rank in range(count):
            found = json.loads((self.folder / f"{count}.{rank}.json").read_text())
            for name, cases in self.alone.items():
                for case, expected in cases.items():
                    with self.subTest(ranks=count, rank=rank, model=name, case=case):
                        self.assertEqual(found["answers"][name][case], expected)
            errors = found["errors"]
            with self.subTest(ranks=count, rank=rank):
                others = "rank 1" if count == 2 else "ranks 1, 2, 3"
                tokens = "tensor parallel: expected the same policy and tokens (ranks that sample need the same seed) on every rank, "
                for case in ("tokens", "policies"):
                    self.assertEqual(errors[case], f"{tokens}found others on {others} than on rank 0")
                self.assertIn("ranks that sample need the same seed", errors["sampling"])
                kept = "tensor parallel: expected the same kept tokens on every rank, found others on rank 1 than on rank 0"
                self.assertEqual(errors["evidence"], kept)
                self.assertEqual((errors["afterwards"], errors["scorers"]), ("no error", "no error"))
                self.assertEqual(errors["heads"], f"model: expected numbers of heads that {count} ranks divide, found 9 query heads and 3 key heads")
                self.assertIn('expected a tp_plan that splits the heads, as "auto" does, found k_proj: colwise_gather_output', errors["plan"])

    def test_two_ranks(self):
        self.check(2)

    @unittest.skipUnless(os.environ.get("LAZYPRUNE_TEST_IN_FULL"), "runs if LAZYPRUNE_TEST_IN_FULL is set")
    def test_four_ranks(self):
        self.check(4)

    def test_the_evidence_prunes(self):
        """The comparisons above would show nothing if no policy pruned, or if all kept the same tokens."""
        kept = {policy: self.alone["llama"][policy][1][0][3]["active"] for policy in POLICIES if "2:0.5" in policy}
        self.assertTrue(all(len(active) == 30 for policy, active in kept.items() if "blocks" not in policy))
        self.assertGreaterEqual(len({tuple(active) for active in kept.values()}), 6)
        self.assertEqual(self.alone["llama"]["heads that a scorer sees"][0][:2], [[8, 60], [60]])

    def test_the_example(self):
        alone, two = (torchrun(count, EXAMPLE, POCKET) for count in (1, 2))
        self.assertEqual((alone.returncode, two.returncode), (0, 0), two.stderr[-2000:])
        answer, cost = two.stdout.splitlines()
        self.assertEqual(answer, alone.stdout.splitlines()[0])
        self.assertIn("rows of", cost)  # the model is in bfloat16, so a few rows may differ


TIMEOUT = 4  # seconds that a rank waits for another one


def forked_rank(rank, fault, folder, said):
    """One of two ranks. At its second choice, rank 1 has the fault. Sends the line with which the rank ends."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("gloo", f"file://{folder}/store.{fault.__name__}", timedelta(seconds=TIMEOUT), world_size=2, rank=rank)
    model, calls = loaded(pathlib.Path(folder) / "llama", tp_plan="auto"), []

    def scorer(attention, positions):
        calls.append(1)
        if rank == 1 and len(calls) == 2:
            fault()
        return loudest(attention, positions)

    with lazyprune.prune(model, PRUNED, scorer=scorer):
        try:
            greedy(model, ids(60))
        except (lazyprune.RanksError, ArithmeticError) as error:
            said.send(str(error))


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)


def failed():
    raise ArithmeticError("no score")


@unittest.skipUnless(hasattr(os, "fork"), "needs fork")
class LostRanks(unittest.TestCase):
    def lose(self, fault):
        """Returns the lines of both ranks, and the seconds until rank 0 ended."""
        fork = multiprocessing.get_context("fork")
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            random_model(**HEADS).save_pretrained(f"{folder}/llama")
            pipes = [fork.Pipe(False) for _ in range(2)]
            ranks = [fork.Process(target=forked_rank, args=(rank, fault, folder, pipes[rank][1])) for rank in range(2)]
            begin = time.monotonic()
            for rank in ranks:
                rank.start()
                stack.callback(rank.kill)
            ranks[0].join(60)
            seconds = time.monotonic() - begin
            self.assertEqual(ranks[0].exitcode, 0)
            if fault is not stopped:
                ranks[1].join(60)
            return [reader.recv() if reader.poll() else None for reader, _ in pipes], seconds

    def test_a_rank_that_is_killed(self):
        (line, other), seconds = self.lose(killed)
        self.assertRegex(line, r"^tensor parallel: rank 0 lost another of the 2 ranks: .*$")
        self.assertIsNone(other)

    def test_a_rank_that_stops(self):
        (line, _), seconds = self.lose(stopped)
        self.assertRegex(line, r"^tensor parallel: rank 0 lost another of the 2 ranks: .*$")
        self.assertGreaterEqual(seconds, TIMEOUT)

    def test_a_rank_that_fails(self):
        (line, other), _ = self.lose(failed)
        self.assertRegex(line, r"^tensor parallel: rank 0 lost another of the 2 ranks: .*$")
        self.assertEqual(other, "no score")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        work_of_a_rank(pathlib.Path(sys.argv[2]))
    else:
        unittest.main()
