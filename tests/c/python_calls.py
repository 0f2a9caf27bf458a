# SPDX-License-Identifier: MIT
"""Every call of the Python binding (examples/c_library/lazyprune.py), with nothing but Python.

python_calls.py LIBRARY
"""

import array
import contextlib
import io
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples/c_library"))
import lazyprune as lp

LAYERS = 4


def expect(fact, what):
    if not fact:
        sys.exit(f"python_calls: {what}")


def fails(code, text, call):
    try:
        call()
    except lp.Error as fault:
        expect(fault.code == code and text in str(fault), f"expected code {code} and {text!r}, found {fault.code} {fault}")
    else:
        sys.exit(f"python_calls: expected an error with {text!r}")


def drive(session, tokens, phase=lp.PREFILL, outputs=1, show=None):
    """One step with made-up evidence. Returns the active positions of each layer."""
    session.check(tokens, phase, outputs)
    active = []
    for layer in range(session.begin(tokens, phase, outputs)):
        plan = session.enter(layer)
        here = list(plan.active)
        active.append(here)
        expect(session.pages(2) == sorted({t // 2 for t in here}), "pages")
        expect(len(plan.sources) == len(plan.rows) and plan.finish <= len(plan.rows), "a source for each row")
        spills = session.leave(plan.wants, **(show(plan, session.state.known) if plan.wants else {}))
        expect(all(to in (lp.STORED, lp.WAITING) for *_, to in spills), "where spills go")
    session.finish()
    return active


def attention(plan, known):
    return {"data": array.array("f", [1.0 / (1 + t % 3) for t in plan.active]), "stride": len(plan.active), "heads": 1}


def main():
    library = lp.Library(sys.argv[1])
    expect(library.version.count(".") == 2, "a version")
    expect("presets: lazyllm; " in library.policy_help(), "help")
    expect(library.policy_text("lazyllm --stages 2:0.5", LAYERS).startswith("--stages 2:0.5 --scorer "), "a policy's text")
    fails(1, "expected one of lazyllm", lambda: library.session("lazy", LAYERS))
    fails(5, "pruning after 2 layers", lambda: library.session("lazyllm --stages 1:0.5", LAYERS, attention_after=[2]))

    # A document, two questions from clones, a rollback, a step that is given up, tokens that are adopted.
    scratch = library.scratch()
    document = library.session("lazyllm --stages 2:0.5", LAYERS, max_tokens=64, scratch=scratch)
    expect(document.chunk_layers() == 2, "a chunk's layers")
    drive(document, 12, outputs=0)
    expect(document.state.waiting == 12, "rows that wait")
    question = document.clone()
    del document, scratch
    active = drive(question, 4, show=attention)
    expect([len(a) for a in active] == [16, 16, 8, 8], "half of the tokens")
    expect(question.statistics.rows == 16 * 2 + 8 * 2 and question.statistics.steps == 2, "rows counted")
    expect(list(question.statistics.prefill_rows[:LAYERS]) == [16, 16, 8, 8], "rows by layer")
    lost = next(t for t in range(16) if t not in active[2])
    expect(question.token(lost).place == lp.STORED and question.token(lost).frontier == 2, "a token put aside")
    drive(question, 1, lp.DECODE, show=attention)
    question.truncate(15)
    expect(question.state.known == 15, "a rollback")
    question.begin(1)
    question.enter(0)
    question.abandon()
    expect(question.state.known == 15, "a step given up")
    question.adopt(3)
    expect(question.state.known == 18 and question.token(17).frontier == LAYERS, "tokens adopted")
    fails(3, "reserved", lambda: question.adopt(1000))
    question.reserve(2000)
    question.reset()
    expect(question.state.known == 0, "nothing known")
    stream = library.session("streaming --schedule budget:after=0,tokens=6 --keep-first 2", LAYERS)
    for _ in range(3):
        drive(stream, 4)
    expect(stream.losses == [4, 5, 6, 7][: len(stream.losses)] and stream.losses, "losses")
    first, other = library.session("dense", LAYERS), library.session("lazyllm --stages 2:0.5", LAYERS)
    other.begin(2, outputs=0)
    other.abandon()
    drive(other, 5, outputs=0)
    again = library.session("lazyllm --stages 3:0.5", LAYERS)
    again.take_over(other)
    expect(again.state.waiting == 5, "taken over")

    # Wrong order, wrong evidence, wrong arrays.
    fails(2, "a step that was begun", lambda: first.enter(0))
    other.begin(1)
    other.enter(0)
    other.leave()
    plan = other.enter(1)
    expect(plan.over_heads == lp.MEAN, "the mean over the heads is all that the scorer reads")
    fails(1, "expected attention, as the plan wants, found keys", lambda: other.leave(lp.KEYS))
    for wrong in ({"attention": []}, {"data": array.array("d", [1.0])}, {"data": memoryview(bytes(64))}):
        try:
            other.leave(lp.ATTENTION, **wrong)
        except TypeError:
            continue
        sys.exit(f"python_calls: expected a TypeError of {wrong}")
    read_only = memoryview(array.array("f", [1.0] * len(plan.active))).toreadonly()
    other.leave(lp.ATTENTION, data=read_only, stride=len(plan.active), heads=1)
    expect(math.isfinite(other.margin), "a margin where tokens were chosen")
    other.abandon()

    # Policies of one's own: every kind of evidence reaches a scorer as it was shown.
    def shown_as(kind):
        def show(plan, known):
            n = len(plan.active)
            numbers = lambda count: array.array("f", [float(i % 7) for i in range(count)])
            window = plan.window or 1
            return {
                "data": numbers(window * 2 * n if kind != lp.HIDDEN else len(plan.rows) * 3), "stride": 3 if kind == lp.HIDDEN else max(n, 4),
                "heads": 2, "queries": window, "kv_heads": 2, "head_dim": 2, "hidden": 3, "values": numbers(4 * n), "values_stride": 4,
                "ids": array.array("I", range(known)), "ids_count": known,
            } | ({"data": numbers(4 * n), "stride": 4} if kind == lp.KEYS else {}) | (
                {"data": numbers(window * 2 * max(n, 4))} if kind in (lp.ATTENTION, lp.WINDOW, lp.VALUES) else {})

        return show

    seen = []
    for kind in range(lp.NOTHING, lp.IDS + 1):
        def score(shown, scores, kind=kind):
            evidence = shown.evidence.contents if shown.evidence else None
            expect((evidence is None) == (kind == lp.NOTHING) and (evidence is None or evidence.kind == kind), "the kind of evidence")
            for i in range(shown.active):
                scores[i] = evidence.ids[shown.positions[i]] if kind == lp.IDS else shown.positions[i]
            seen.append(kind)

        library.add_scorer(f"kind_{kind}", score, wants=kind, window=3 if kind == lp.WINDOW else 0)
        session = library.session(f"custom --scorer kind_{kind} --stages 2:0.5", LAYERS)
        expect(drive(session, 8, show=shown_as(kind))[2] == [4, 5, 6, 7], f"the last half by scorer {kind}")
    expect(seen == list(range(7)), "every scorer was asked")

    # A schedule; and what goes wrong in a callback is printed, and prunes nothing.
    library.add_schedule("halves", lambda layer, scores: layer.active // 2 if layer.done == 2 else None, first=2)
    expect([len(a) for a in drive(library.session("custom --schedule halves", LAYERS), 8, show=attention)] == [8, 8, 4, 4], "halves")
    library.add_schedule("mean", lambda layer, scores: sum(s > 0.5 for s in scores), sees_scores=True)
    expect(len(drive(library.session("custom --schedule mean", LAYERS), 9, show=attention)[1]) == 3, "a schedule that sees scores")
    library.add_schedule("real", lambda layer, scores: layer.active * 0.5)
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        expect(len(drive(library.session("custom --schedule real", LAYERS), 8, show=attention)[3]) == 8, "nothing pruned")
    expect("TypeError" in errors.getvalue(), "what went wrong")

    def broken(shown, scores):
        scores[0] = 5.0
        raise ValueError("broken")

    library.add_scorer("broken", broken)
    with contextlib.redirect_stderr(errors):
        drive(library.session("custom --scorer broken --stages 2:0.5", LAYERS), 8, show=attention)
    expect("ValueError: broken" in errors.getvalue(), "what went wrong in a scorer")
    def interrupted(*_):
        raise KeyboardInterrupt

    library.add_schedule("interrupted", interrupted)
    session = library.session("custom --schedule interrupted", LAYERS)
    try:
        drive(session, 8, show=attention)
    except KeyboardInterrupt:
        session.abandon()
    else:
        sys.exit("python_calls: expected KeyboardInterrupt out of a schedule")
    before = []
    library.add_scorer("one", lambda shown, scores: before.append(list(scores)) or scores.__setitem__(0, 9.0))
    drive(library.session("custom --scorer one --stages 1:0.9,2:0.5", LAYERS), 8, show=attention)
    expect(len(before) == 2 and not any(sum(before, [])), "scores that are 0 before")
    fails(1, "expected one of lazyllm", lambda: library.session("\u00e9" * 2000, LAYERS))
    fails(1, "lower-case letters", lambda: library.add_scorer("Mine", broken))
    print("every call does what it says")


if __name__ == "__main__":
    main()
