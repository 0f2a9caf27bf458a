# SPDX-License-Identifier: MIT
"""Tests every call of the Python binding (examples/c_library/lazyprune.py). Needs only numpy.

python_calls.py LIBRARY
"""

import array
import ctypes
import gc
import io
import json
import math
import multiprocessing
import pathlib
import subprocess
import sys
import threading

import numpy as np

try:
    import torch
except ImportError:
    torch = None

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples/c_library"))
import lazyprune as lp

LAYERS = 4


def expect(fact, what):
    """Ends the test with an error if `fact` is false. `what` names what was checked."""
    if not fact:
        sys.exit(f"python_calls: not as expected: {what}")


def is_at(fault, place, *values):
    """Whether an error begins with "PLACE: expected" and contains these values. The other words of the sentence may change."""
    where, _, sentence = f": {fault}".partition(": expected ")
    return where == f": {place}" and all(str(value) in sentence for value in values)


def fails(code, place, call, *values):
    try:
        call()
    except lp.Error as fault:
        expect(fault.code == code and is_at(fault, place, *values), f"an error with code {code} at {place!r} with {values}, found {fault.code} {fault}")
    else:
        sys.exit(f"python_calls: expected an error at {place!r}")


def drive(session, tokens, phase=lp.PREFILL, outputs=1, show=None):
    """Runs one step with made-up evidence. Returns the active positions of each layer."""
    session.check(tokens, phase, outputs=outputs)
    active = []
    for layer in range(session.begin(tokens, phase, outputs=outputs)):
        plan = session.enter(layer)
        before = [plan.active.copy(), plan.rows.copy(), plan.origin.copy(), plan.index.copy()]
        active.append(plan.active.tolist())
        expect(session.pages(2).tolist() == sorted({t // 2 for t in active[-1]}), "pages")
        expect(len(plan.origin) == len(plan.index) == len(plan.rows), "a source for each row")
        expect(plan.finish == (outputs if layer == LAYERS - 1 else len(plan.rows)), "finish: all rows, and in the last layer the outputs")
        spills = session.leave(plan.wants, **(show(plan, session.state.known) if plan.wants else {}))
        for row, _, origin, to in spills:
            expect(to in (lp.STORED, lp.WAITING) and (origin == lp.WAITING or row < len(plan.rows)), "where spills go")
        held.append((plan, before, spills, spills.copy()))
    session.finish()
    return active


held = []  # every plan and its spills, with copies of their numbers; later calls must not change the originals


def attention(plan, known):
    return {"data": np.array([[1.0 / (1 + t % 3) for t in plan.active]], np.float32)}


inherited = []  # a library and a session that child processes go on with


def plans_of_inherited(_):
    """The plans of a clone of the session, and those of a new session."""
    library, session = inherited[0]
    return drive(session.clone(), 1, lp.DECODE, show=attention), drive(library.session("lazyllm --stages 2:0.5", LAYERS), 9, show=attention)


class Tensor:
    """The members of a torch tensor that the binding uses."""

    def __init__(self, array, device="cpu"):
        self.array, self.device, self.shape = array, device, array.shape
        self.dtype = f"torch.{array.dtype}"

    def data_ptr(self):
        return self.array.ctypes.data

    def is_contiguous(self):
        return self.array.flags.c_contiguous


def main():
    library = lp.Library(sys.argv[1])
    expect(library.version.count(".") == 2, "a version")
    expect("presets: lazyllm: " in library.policy_help(), "help")
    expect(library.policy_text("lazyllm --stages 2:0.5", LAYERS).startswith("--stages 2:0.5 --scorer "), "a policy's text")
    fails(1, "--policy", lambda: library.session("lazy", LAYERS), "lazyllm, ", "found lazy")
    fails(5, "--stages: 1:0.5", lambda: library.session("lazyllm --stages 1:0.5", LAYERS, attention_after=[2]), "after 2", "after 1")

    # Reads a document, asks a question in a clone, rolls back, abandons a step, and adopts tokens. Then tests losses and take_over.
    scratch = library.scratch()
    document = library.session("lazyllm --stages 2:0.5", LAYERS, max_tokens=64, scratch=scratch)
    expect(document.chunk_layers() == 2, "a chunk's layers")
    drive(document, 12, outputs=0)
    try:
        document.begin(1)
    except TypeError as fault:
        expect("outputs" in str(fault), "outputs have no default")
    else:
        sys.exit("python_calls: expected a TypeError if outputs are missing")
    expect(document.state.waiting == 12, "rows that wait")
    question = document.clone()
    del document, scratch
    active = drive(question, 4, show=attention)
    expect([len(a) for a in active] == [16, 16, 8, 8], "half of the tokens")
    expect(question.statistics.rows == 16 * 2 + 8 * 2 and question.statistics.steps == 2, "rows counted")
    expect(question.statistics.prefill_rows.tolist() == [16, 16, 8, 8], "rows by layer")
    lost = next(t for t in range(16) if t not in active[2])
    expect(question.token(lost).place == lp.STORED and question.token(lost).frontier == 2, "a token put aside")
    drive(question, 1, lp.DECODE, show=attention)
    question.truncate(15)
    expect(question.state.known == 15, "a rollback")
    question.begin(1, outputs=1)
    question.enter(0)
    question.abandon()
    expect(question.state.known == 15, "a step given up")
    question.adopt(3)
    expect(question.state.known == 18 and question.token(17).frontier == LAYERS, "tokens adopted")
    fails(3, "session: adopt", lambda: question.adopt(1000), 1000)
    question.reserve(2000)
    question.reset()
    expect(question.state.known == 0, "nothing known")
    stream = library.session("streaming --schedule budget:after=0,tokens=6 --keep-first 2", LAYERS)
    for _ in range(3):
        drive(stream, 4)
    expect(len(stream.losses) and stream.losses.tolist() == [4, 5, 6, 7][: len(stream.losses)], "losses")
    first, other = library.session("dense", LAYERS), library.session("lazyllm --stages 2:0.5", LAYERS)
    other.begin(2, outputs=0)
    other.abandon()
    drive(other, 5, outputs=0)
    again = library.session("lazyllm --stages 3:0.5", LAYERS)
    again.take_over(other)
    expect(again.state.waiting == 5, "taken over")

    # Passes whole numbers that ctypes would truncate.
    for wrong in (2**32 + 6, -1):
        fails(1, "layers", lambda: library.session("dense", wrong), "0 to 4294967295", wrong)
        fails(1, "position", lambda: again.token(wrong), "0 to 4294967295", wrong)
        fails(1, "phase", lambda: again.begin(1, wrong, outputs=1), "0 to 4294967295", wrong)
        fails(1, "layer", lambda: again.enter(wrong), "0 to 4294967295", wrong)
        fails(1, "attention_after[1]", lambda: library.session("dense", LAYERS, 0, [1, wrong]), "0 to 4294967295", wrong)
        fails(1, "scorer: window", lambda: library.add_scorer("w", None, lp.WINDOW, wrong), "0 to 4294967295", wrong)
        fails(1, "schedule: first", lambda: library.add_schedule("w", None, wrong), "0 to 4294967295", wrong)
    for call in (again.begin, again.check):
        fails(1, "tokens", lambda: call(4.0, outputs=1), "4.0")
        fails(1, "outputs", lambda: call(4, outputs=-1), "0 to 18446744073709551615", -1)
        fails(1, "request: outputs", lambda: call(4, outputs=2**64 - 1))
    for call, place in {again.truncate: "tokens", again.adopt: "tokens", again.reserve: "max_tokens", again.pages: "size"}.items():
        fails(1, place, lambda: call(-1), "0 to 18446744073709551615", -1)

    # Makes calls in wrong order, with wrong evidence and with wrong arrays. The error names the argument and the fault. The layer can still
    # be left.
    fails(2, "session: enter", lambda: first.enter(0))
    other.begin(1, outputs=1)
    plan = other.enter(0)
    expect((plan.quota, plan.needs_scores, plan.row_is_score, plan.stores_dropped) == (0, False, False, False), "no choice after layer 0")
    fails(2, "session: leave", lambda: other.leave(chosen=[0]), "layer 0", "quota")
    expect(other.counts().size == 0, "no counts without a quota")
    other.leave()
    plan = other.enter(1)
    expect((plan.quota, plan.quota_page) == (3, 1), "an engine may choose 3 of 6 tokens")
    expect((plan.needs_scores, plan.row_is_score, plan.stores_dropped) == (False, True, True), "what the choice needs, and what is stored")
    expect(other.counts().tolist() == [(2, 0, 3, 3, 3), (3, 0, 3, 1, 3)], "the counts of the last two layers")
    expect(other.slots(3).tolist() == [0, 1, 2], "the slots of the dropped rows")
    fails(1, "count", lambda: other.slots(-1), -1)
    expect(other.standing().tolist() == [lp.OPEN] * 5 + [lp.REQUIRED], "only the query token is required")
    expect(plan.over_heads == lp.MEAN, "the mean over the heads is all that the scorer reads")
    fails(1, "evidence", lambda: other.leave(lp.KEYS), "attention", "keys")
    n = len(plan.active)
    good = np.full((2, n), 1 / n, np.float32)
    for (place, *values), fields in {
        ("evidence: data", "float64", ".astype(numpy.float32)"): {"data": np.ones((2, n))},
        ("evidence: data", "float32", "list"): {"data": [[1.0] * n]},
        ("evidence: data", "float32", "uint8"): {"data": memoryview(bytes(64))},
        ("evidence: data", "C-contiguous", "(2, 6)"): {"data": np.full((6, 2), 1 / n, np.float32).T},
        ("evidence: data", "C-contiguous", "(6,)"): {"data": np.ones(12, np.float32)[::2], "heads": 1, "stride": n},
        ("evidence: data", "(heads, active 6)", "(2, 5)"): {"data": np.ones((2, 5), np.float32)},
        ("evidence: data", "(heads, active 6)", "(2, 1, 6)"): {"data": np.ones((2, 1, n), np.float32)},
        ("evidence: heads", "2 as data", "(2, 6)", "heads=32"): {"data": good, "heads": 32},
        ("evidence: stride", "6 as data", "(2, 6)", "stride=24", "(strides count floats, not bytes)"):
            {"data": good, "stride": 24},
        ("evidence: data", "queries 1 x heads 32 x active 6", "32 rows of 6 numbers, 6 apart", "found 12"):
            {"data": good.ravel(), "heads": 32, "stride": n},
        ("evidence: data", "6 numbers, 24 apart", "found 12", "(strides count floats, not bytes)"): {"data": good.ravel(), "heads": 2, "stride": 24},
        ("evidence: stride", "6.0"): {"data": good.ravel(), "heads": 2, "stride": 6.0},
        ("evidence: heads", "0 to 18446744073709551615", "-1"): {"data": good.ravel(), "heads": -1, "stride": n},
        ("evidence: data", "CPU", "cuda:0"): {"data": Tensor(good, "cuda:0")},
        ("evidence: data", "float16", ".float()"): {"data": Tensor(good.astype(np.float16))},
        ("evidence: data", "C-contiguous", "(2, 6)", ".contiguous()"):
            {"data": Tensor(np.asfortranarray(good))},
        ("evidence: query", "queries 1 x heads 2 x head_dim 4", "1 rows of 8 numbers, 8 apart", "found 4"):
            {"query": good.ravel()[:4], "heads": 2, "head_dim": 4, "keys": np.ones((n, 1, 4), np.float32)},
        ("evidence: keys", "(active 6, kv_heads, head_dim)", "(5, 1, 2)"):
            {"query": np.ones((2, 2), np.float32), "keys": np.ones((5, 1, 2), np.float32)},
        ("evidence: keys", "key_slots", "10 x kv_heads 1 x head_dim 2"):
            {"query": np.ones((2, 2), np.float32), "keys": np.ones((9, 1, 2), np.float32), "key_slots": [*range(n - 1), 9]},
        ("evidence: key_slots", "6", "found 5"):
            {"query": np.ones((2, 2), np.float32), "keys": np.ones((9, 1, 2), np.float32), "key_slots": range(n - 1)},
        ("evidence: key_slots[1]", "0 to 4294967295", "4294967302"):
            {"query": np.ones((2, 2), np.float32), "keys": np.ones((9, 1, 2), np.float32), "key_slots": [0, 2**32 + 6]},
        ("evidence: key_slots", "float64"): {"key_slots": np.ones(n)},
        ("evidence: head_dim", "3 as keys", "(6, 1, 3)", "2 in query", "(1, 2, 2)"):
            {"query": np.ones((2, 2), np.float32), "keys": np.ones((n, 1, 3), np.float32)},
        ("evidence: data", "NaN", "position 3", "head 1"):
            {"data": np.where(np.arange(2 * n).reshape(2, n) == n + 3, np.float32(np.nan), good)},
        ("evidence: data", "a query and keys", "found null"): {},
        ("evidence: data", "null"): {"data": good, "chosen": [0, 2, 5]},
        ("session: leave", "3", "found 2"): {"chosen": [0, 5]},
        ("session: leave", "required", "position 5"): {"chosen": [0, 1, 2]},
        ("evidence: chosen_scores", "6", "found 5"): {"chosen": [0, 1, 5], "chosen_scores": np.ones(5, np.float32)},
    }.items():
        fails(1, place, lambda: other.leave(lp.ATTENTION, **fields), *values)
    try:
        other.leave(lp.ATTENTION, attention=good)
    except TypeError as fault:
        expect("found attention" in str(fault), "the name of the wrong field")
    else:
        sys.exit("python_calls: expected a TypeError for an unknown field")
    tensors = []
    if torch:
        tensors = [{"data": torch.from_numpy(good)}, {"data": torch.from_numpy(good).clone().requires_grad_()}]
        fails(1, "evidence: data", lambda: other.leave(lp.ATTENTION, data=torch.from_numpy(good).bfloat16()), "bfloat16: convert it with .float()")
        fails(1, "evidence: data", lambda: other.leave(lp.ATTENTION, data=torch.ones(n, 2).T), "copy it with .contiguous()")
    for taken in (
        *tensors,
        {"data": Tensor(good)},
        {"data": memoryview(array.array("f", [1.0] * n)).toreadonly(), "stride": n, "heads": 1},
        {"data": (ctypes.c_float * n)(), "stride": n, "heads": 1},
        {"data": good[None]},
        {"query": np.ones((2, 2), np.float32), "keys": np.ones((n, 1, 2), np.float32)},
        {"chosen": [0, 2, 5]},
        {"chosen": [1, 4, 5], "chosen_scores": np.arange(n, dtype=np.float32)},
        {"query": np.ones((1, 2, 2), np.float32), "keys": np.ones((9, 1, 2), np.float32), "key_slots": np.arange(n)[::-1]},
    ):
        fork = library.session("lazyllm --stages 2:0.5", LAYERS)
        drive(fork, 5, outputs=0)
        fork.begin(1, outputs=1)
        fork.enter(0)
        fork.leave()
        fork.enter(1)
        fork.leave(lp.ATTENTION, **taken)
        expect(fork.enter(2).active.size == 3, "half of the tokens")
    other.leave(lp.ATTENTION, data=good * np.arange(n, dtype=np.float32))
    expect(math.isfinite(other.margin), "a margin where tokens were chosen")
    other.abandon()
    checked = library.session("lazyllm --stages 1:0.5", LAYERS, checks=lp.CHECK_ATTENTION)
    checked.begin(4, outputs=1)
    checked.enter(0)
    fails(1, "evidence: data", lambda: checked.leave(lp.ATTENTION, data=np.array([[0.25] * 4, [0.5] * 4], np.float32)), "found 2", "head 1")
    checked.abandon()

    # A custom scorer gets every kind of evidence as the engine showed it.
    def shown_as(kind):
        def show(plan, known):
            n, rows = len(plan.active), len(plan.rows)
            numbers = lambda *shape: (np.arange(np.prod(shape), dtype=np.float32) % 7).reshape(shape)
            shown = {
                lp.ATTENTION: {"data": numbers(2, n)}, lp.WINDOW: {"data": numbers(plan.window, 2, n)}, lp.KEYS: {"data": numbers(n, 2, 3)},
                lp.VALUES: {"data": numbers(2, n), "values": numbers(n, 2, 3)}, lp.HIDDEN: {"data": numbers(rows, 3)},
                lp.IDS: {"ids": np.arange(known)},
            }[kind]
            last_shown.clear()
            last_shown.update(shown)
            return shown

        return show

    seen, last_shown = [], {}
    for kind in range(lp.NOTHING, lp.IDS + 1):
        def score(shown, kind=kind):
            expect(shown.kind == kind and shown.active == len(shown.positions) == 8, "the kind of evidence")
            for name in ("data", "values", "ids"):
                found, expected = getattr(shown, name), last_shown.get(name)
                expect((found is None) == (expected is None) and (found is None or np.array_equal(found, expected)), f"{name} of kind {kind}")
            seen.append(kind)
            return shown.ids[shown.positions] if kind == lp.IDS else shown.positions

        library.add_scorer(f"kind_{kind}", score, wants=kind, window=3 if kind == lp.WINDOW else 0)
        session = library.session(f"custom --scorer kind_{kind} --stages 2:0.5", LAYERS)
        expect(drive(session, 8, show=shown_as(kind))[2] == [4, 5, 6, 7], f"the last half by scorer {kind}")
    expect(seen == list(range(7)), "every scorer was asked")

    # A scorer that wants every layer gets memory.
    gathered = []

    def gather(shown):
        shown.memory[shown.positions] += shown.data.sum(0)
        gathered.append(shown.memory.copy())
        return shown.memory[shown.positions]

    library.add_scorer("gather", gather, every_layer=True)
    drive(library.session("custom --scorer gather --stages 3:0.5", LAYERS), 8, show=attention)
    expect(len(gathered) == 3 and np.allclose(gathered[2], 3 * gathered[0]), "what is gathered over the layers")

    # A custom schedule decides how many tokens go on.
    library.add_schedule("halves", lambda layer, scores: layer.active // 2 if layer.done == 2 else None, first=2)
    expect([len(a) for a in drive(library.session("custom --schedule halves", LAYERS), 8, show=attention)] == [8, 8, 4, 4], "halves")
    library.add_schedule("mean", lambda layer, scores: int((scores > 0.5).sum()), sees_scores=True)
    expect(len(drive(library.session("custom --schedule mean", LAYERS), 9, show=attention)[1]) == 3, "a schedule that sees scores")

    # An exception in a callback is raised by the call that needed the callback. Nothing is dropped, and the session goes on.
    def raises(kind, said, policy):
        session = library.session(policy, LAYERS)
        drive(session, 6, outputs=0)
        before = [(t.frontier, t.place, t.lost) for t in map(session.token, range(6))]
        try:
            drive(session, 8, show=attention)
        except kind as fault:
            expect(is_at(fault, *said) if isinstance(said, tuple) else str(fault) == said, f"the error {said!r}, found {fault}")
        else:
            sys.exit(f"python_calls: expected {kind.__name__} under {policy}")
        fails(2, "session: finish", session.finish, "abandon() or reset()")
        session.abandon()
        expect(before == [(t.frontier, t.place, t.lost) for t in map(session.token, range(6))], "nothing dropped")
        expect(session.state.known == 6 and len(session.losses) == 0, "nothing dropped")

    def broken(shown):
        raise ValueError("broken")

    def interrupted(*_):
        raise KeyboardInterrupt

    library.add_scorer("broken", broken)
    library.add_scorer("short", lambda shown: np.zeros(shown.active - 1))
    library.add_scorer("interrupted", interrupted)
    library.add_schedule("real", lambda layer, scores: layer.active * 0.5, first=2)
    library.add_schedule("negative", lambda layer, scores: -1, first=2)
    library.add_schedule("interrupted", interrupted, first=2)
    for store in ("", " --store none:for_good=true", " --store bounded:rows=1"):
        raises(ValueError, "broken", "custom --scorer broken --stages 2:0.5" + store)
    raises(ValueError, ("scorer short", "(14,)", "(13,)"), "custom --scorer short --stages 2:0.5")
    raises(KeyboardInterrupt, "", "custom --scorer interrupted --stages 2:0.5")
    raises(lp.Error, ("schedule real", "7.0"), "custom --schedule real")
    raises(lp.Error, ("schedule negative", "0 to 18446744073709551615", "-1"), "custom --schedule negative")
    raises(KeyboardInterrupt, "", "custom --schedule interrupted")

    # Each thread has its own exception.
    def in_a_thread(number):
        mine = lp.Library(sys.argv[1])
        def fail(shown):
            raise ValueError(str(number))
        mine.add_scorer("fail", fail)
        for _ in range(20):
            session = mine.session("custom --scorer fail --stages 2:0.5", LAYERS)
            try:
                drive(session, 8, show=attention)
            except ValueError as fault:
                right.append(str(fault) == str(number))
            session.abandon()

    right = []
    threads = [threading.Thread(target=in_a_thread, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(right == [True] * 80, "each thread's own exception")

    # Callbacks live as long as the library may call them, and no longer.
    gc.collect()
    alive = len(lp._kept_alive)
    short_lived = lp.Library(sys.argv[1])
    short_lived.add_scorer("last", lambda shown: shown.positions)
    fails(1, "registry: last", lambda: short_lived.add_scorer("last", lambda shown: shown.positions))
    session = short_lived.session("custom --scorer last --stages 2:0.5", LAYERS)
    del short_lived
    gc.collect()
    expect(len(lp._kept_alive) == alive + 1, "a callback that a session has")
    expect(drive(session, 8, show=attention)[2] == [4, 5, 6, 7], "a session outlives the library's object")
    del session
    gc.collect()
    expect(len(lp._kept_alive) == alive, "callbacks that are gone")
    fails(1, "--policy", lambda: library.session("\u00e9" * 2000, LAYERS), "lazyllm, ")
    fails(1, "registry: name", lambda: library.add_scorer("Mine", broken), "Mine")

    # In a trace, chunks belong to the line of their prompt. An abandoned step is left out. A clone of the session continues the trace.
    file = io.StringIO()
    session = library.session("lazyllm --stages 2:0.5", LAYERS)
    trace = session.trace(file)
    fails(1, "trace: tokens", lambda: trace.write([], next=1), "the 0 tokens")
    drive(session, 5, outputs=0)
    session.begin(2, outputs=0)
    session.enter(0)
    session.abandon()
    session = session.clone()
    session.trace(trace)
    active = drive(session, 3, show=attention)
    fails(1, "trace: tokens", lambda: trace.write([1, 2, 3], next=1), "the 8 tokens", "found 3")
    fails(1, "trace: logits", lambda: trace.write(range(8), [0.0, math.nan]), "nan", "id 1")
    trace.write(range(8), [0.5, 2.0, 2.0])
    drive(session, 1, lp.DECODE, show=attention)
    trace.write([1], next=7)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    expect([line["step"] for line in lines] == [0, 1] and [line["next"] for line in lines] == [1, 7], "steps, and the lower id of equal logits as next")
    expect(lines[0]["tokens"] == list(range(8)) and lines[0]["logits"] == [0.5, 2.0, 2.0] and "logits" not in lines[1], "tokens and logits")
    expect([layer["active"] for layer in lines[0]["layers"]] == active, "active")
    expect([len(layer["rows"]) for layer in lines[0]["layers"]] == [8, 8, 4, 4], "rows")
    expect(lines[0]["margin"][0] is None and lines[0]["margin"][1] is not None and len(lines[0]["margin"]) == LAYERS - 1, "margins")

    # If a session is reset, its steps without a line are left out.
    file = io.StringIO()
    session = library.session("dense", LAYERS)
    trace = session.trace(file)
    drive(session, 3, show=attention)
    session.reset()
    drive(session, 2, show=attention)
    trace.write([1, 2], next=1)
    expect([layer["active"] for layer in json.loads(file.getvalue())["layers"]] == [[0, 1]] * LAYERS, "only the steps after the reset")

    # A session goes on in a child of fork(), for example in a process of multiprocessing, as in its parent.
    session = library.session("lazyllm --stages 2:0.5", LAYERS)
    drive(session, 9, show=attention)
    inherited.append((library, session))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        expect(pool.map(plans_of_inherited, range(4)) == [plans_of_inherited(0)] * 4, "sessions in child processes")

    fails(1, "policy", lambda: library.policy_text("lazyllm --stages 2:0.5\0 --scorer nonsense", LAYERS), "NUL")
    fails(1, "scorer", lambda: library.add_scorer("a\0b", lambda shown: None), "NUL")

    # A library and a session may outlive their module when Python ends.
    late = ("import sys; sys.path.insert(0, sys.argv[1]); import lazyprune as lp, numpy; library = lp.Library(sys.argv[2]);"
            "library.add_scorer('late', lambda shown: None); numpy.late = (library, library.session('custom --stages 1:0.5 --scorer late', 4))")
    ended = subprocess.run([sys.executable, "-c", late, sys.path[0], sys.argv[1]], capture_output=True, text=True)
    expect((ended.returncode, ended.stderr) == (0, ""), f"an end without complaints, found {ended.returncode} {ended.stderr}")

    for plan, before, spills, same in held:
        expect(all(np.array_equal(a, b) for a, b in zip((plan.active, plan.rows, plan.origin, plan.index), before)), "a plan that is held")
        expect(np.array_equal(spills, same), "spills that are held")
    print("all calls do what their docs say")


if __name__ == "__main__":
    main()
