# SPDX-License-Identifier: MIT
"""Checks that examples/embed_in_python.py keeps the tokens that `lazyprune run` keeps.

Also checks that each mistake in the guide's table shows as the table says. The test plants a mistake by replacing some text of the engine.

embed_in_python.py LIBRARY PROGRAM SOURCE_FOLDER
"""

import os
import pathlib
import subprocess
import sys
import tempfile

LIBRARY, PROGRAM, ROOT = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
ENGINE = (ROOT / "examples/embed_in_python.py").read_text()
MODEL = str(ROOT / "examples/pocket/model")
IDS = [3 + i * 7919 % 2300 for i in range(60)]
FLAGS = ["--stages", "2:0.5,4:0.5"]

ROTATED = ("plan.rows)\n    ", "np.searchsorted(plan.active, plan.rows))\n    ")
ROTATED_QUERIES = ("plan.rows[first:])\n        k, v", "np.searchsorted(plan.active, plan.rows[first:]))\n        k, v")
SAVED = "(waiting if to == lp.WAITING else store)[slot] ="
NAN = ("evidence: data: ", "NaN at position ")
SHOWN = "np.ascontiguousarray(p[-1], np.float32)"

# Each key is a mistake in the guide's words. Its value is a list of runs of the engine. Each run has the replacements (old text, new text)
# that plant the mistake, the number of tokens in a chunk (0: no chunks), the texts that must be seen, and the texts that must not be seen.
# The output of the engine and of `compare --against` is searched for these texts. A tuple of texts (an error's place and values) must be in
# one line. A text that begins with "ids" says whether the engine's token ids are those of the correct engine.
MISTAKES = {
    "spills are not saved": [
        ([(SAVED, "_ =")], 0, ["after 1 line", NAN], []),
        ([(SAVED, "_ =")], 23, ["after 0 lines", NAN], []),
        ([(SAVED, "_ ="), ("np.nan", "0.0")], 0, ["step 1, layer 4: another selection than the scores imply"], [NAN]),
    ],
    "waiting rows are saved in the Aux Cache, because `to` is ignored": [([(SAVED, "store[slot] =")], 23, ["after 0 lines", NAN], [])],
    "keys are written at the row's index, not at its position": [
        ([("values[layer, plan.rows]", "values[layer, np.arange(len(plan.rows))]"), ("keys[layer, plan.rows]", "keys[layer, np.arange(len(plan.rows))]")],
         0, [NAN], []),
    ],
    "keys and queries are rotated by the index among the active tokens": [
        ([ROTATED, ROTATED_QUERIES], 0, ["ids begin alike", "step 0, layer 4: another selection than the scores imply"], []),
    ],
    "the mask compares row numbers, not positions": [
        ([("plan.active[None, None, :] > plan.rows[first:, None, None]",
           "np.arange(len(plan.active))[None, None, :] > (len(plan.active) - len(plan.rows) + np.arange(len(plan.rows)))[first:, None, None]")],
         0, ["ids alike", "step 1, layer 4: another selection than the scores imply"], []),
    ],
    "a row's input is saved, not the layer's output for it": [
        ([('reshape(-1, c["hidden_size"])\n', 'reshape(-1, c["hidden_size"])\n        before = x.copy()\n'),
          ("origin == lp.WAITING else x)[row]", "origin == lp.WAITING else before)[row]")],
         0, ["ids begin alike", "step 1, layer 4: another selection than the scores imply"], []),
    ],
    "a chunk was begun with an output": [
        ([("lp.PREFILL, 0)", "lp.PREFILL, 1)")], 0, ["\nalike\n"], []),
        ([("lp.PREFILL, 0)", "lp.PREFILL, 1)")], 23, ["step 0, layer 2: another selection than the scores imply", "are kept instead"],
         ["are left out"]),
    ],
    "logits are shown instead of probabilities": [
        ([("np.exp(np.where(hidden, -np.inf, np", "np.exp(np.where(hidden, -np.inf, z := np"), (SHOWN, "np.ascontiguousarray(z[-1], np.float32)")],
         0, [("evidence: data: ", "found -")], []),
    ],
    "the layer attends over the whole cache": [
        ([("cache[layer, plan.active]", "cache[layer, : known + len(new)]"), ("plan.active[None, None, :]", "np.arange(known + len(new))[None, None, :]")],
         0, [("evidence: data: ", "(heads, active 30)", "(4, 60)")], []),
    ],
    "the evidence is the first query's, not the last one's": [
        ([(SHOWN, "np.ascontiguousarray(p[0], np.float32)")], 0, ["step 0, layer 2: another selection than the scores imply", "are left out"], []),
    ],
    "query heads read the wrong key heads": [
        ([("np.repeat(cache[layer, plan.active], heads // kv_heads, 1)", "np.tile(cache[layer, plan.active], (1, heads // kv_heads, 1))")],
         0, ["step 0, layer 2: another selection than the scores imply", "dense differs"], []),
    ],
}


def stop(what):
    sys.exit(f"embed_in_python: {what}")


def run(engine, chunk, folder, policy=" ".join(FLAGS)):
    file = folder / "engine.py"
    file.write_text(engine)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "examples/c_library")}
    arguments = [LIBRARY, MODEL, " ".join(map(str, IDS)), f"custom {policy}", "5", str(chunk)]
    result = subprocess.run([sys.executable, "-B", file, *arguments], capture_output=True, text=True, env=environment)
    (folder / "trace.jsonl").write_text(result.stdout)
    return result


def against(folder, flags=FLAGS):
    command = [PROGRAM, "compare", folder / "trace.jsonl", "--against", MODEL, *flags]
    return subprocess.run(command, capture_output=True, text=True)


def has(said, what):
    """Whether `said` has the text. For a tuple of texts: whether one line has all of them."""
    return what in said if isinstance(what, str) else any(all(part in line for part in what) for line in said.splitlines())


def ids_of(trace):
    return [line.partition('"next": ')[2].partition(",")[0] for line in trace.splitlines()]


def main():
    guide = (ROOT / "examples/EMBEDDING.md").read_text()
    told = [line.rstrip(" |").rpartition("| ")[2] for line in guide.split("| you see | the mistake |")[1].split("\n\n")[0].splitlines()[2:]]
    if sorted(told) != sorted(MISTAKES):
        stop(f"expected the guide's table to have the mistakes that are planted here, found {set(told) ^ set(MISTAKES)}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        command = [PROGRAM, "run", "-m", MODEL, "--ids", ",".join(map(str, IDS)), "-n", "5", "--ignore-eos", "--backend", "reference", *FLAGS]
        expected = folder / "expected.jsonl"
        if subprocess.run([*command, "--trace", expected, "--trace-logits"], capture_output=True).returncode:
            stop("the program does not run")
        ids = []
        for chunk in (0, 1, 23, 59):
            result = run(ENGINE, chunk, folder)
            beside = subprocess.run([PROGRAM, "compare", folder / "trace.jsonl", expected], capture_output=True, text=True)
            verdict = against(folder)
            if result.returncode or beside.returncode or verdict.returncode or "follow from the plan in 5 steps" not in verdict.stdout:
                stop(f"in chunks of {chunk}: {result.stderr}{beside.stdout}{verdict.stdout}{verdict.stderr}")
            ids = ids_of(result.stdout)
        result = run(ENGINE, 0, folder, "--policy dense")
        if result.returncode or against(folder, ["--policy", "dense"]).returncode:
            stop(f"dense: {result.stderr}")

        for mistake, ways in MISTAKES.items():
            for plants, chunk, seen, unseen in ways:
                engine = ENGINE
                for old, new in plants:
                    if old not in engine:
                        stop(f"{mistake}: the engine does not have: {old}")
                    engine = engine.replace(old, new)
                result = run(engine, chunk, folder)
                found = ids_of(result.stdout)
                said = f"after {len(found)} line{'' if len(found) == 1 else 's'}\n{result.stderr}"
                if found == ids:
                    said += "ids alike\n"
                elif found[:1] == ids[:1]:
                    said += "ids begin alike\n"
                if found:
                    said += against(folder).stdout
                if "dense differs" in seen:
                    run(engine, chunk, folder, "--policy dense")
                    said += "dense differs\n" if against(folder, ["--policy", "dense"]).returncode == 2 else ""
                for text in seen:
                    if not has(said, text):
                        stop(f"{mistake}: expected {text!r} in\n{said}")
                for text in unseen:
                    if has(said, text):
                        stop(f"{mistake}: expected no {text!r} in\n{said}")
    print(f"the engine keeps the same tokens, and {len(MISTAKES)} mistakes are seen as the guide says")


if __name__ == "__main__":
    main()
