#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the measurements of run.sh or portable.sh as tables: OUT.csv for programs and OUT.md for people.

  report.py RESULTS --gpu NAME --note TEXT... --out OUT      a folder of run.sh
  report.py time.tar.gz --note TEXT... --out OUT             an archive of portable.sh

For each shape and schedule, the folder holds a file SHAPE_SCHEDULE.json with the rows that `lazyprune bench --after-each` wrote for all
prompts. If a prompt has no rows, SHAPE_SCHEDULE_PROMPT.json has the reason: {"error": "no room"}. If roofline.py knows the GPU, its
estimates are shown beside the measurements.
"""
import argparse
import contextlib
import csv
import json
import os
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import beside  # noqa: E402  found through sys.path
import roofline  # noqa: E402

FIELDS = ["shape", "prompt", "schedule", "policy", "test", "tokens_per_s", "seconds", "share_of_peak", "speedup", "predicted_speedup",
          "measured_over_predicted", "predicted_with_memory", "measured_over_with_memory", "overhead_share", "peak_bytes", "expected_seconds", "measured_over_expected", "seconds_to_load"]


def fail(where, expected, found):
    raise SystemExit(f"error: {where}: expected {expected}, found {found}")


def gpu_named(name):
    """Returns the GPU of roofline.py with exactly this name. Cards with similar names, as H100 PCIe or GH200, have other rates."""
    return next((gpu for gpu in roofline.GPUS if gpu.full_name == name), None)


def expected_seconds(gpu, shape, prompt, schedule, test):
    """Returns the seconds that roofline.py expects for a first token, or for dense steps after the prompt; None if it does not know them."""
    if gpu is None or shape not in roofline.SHAPES or schedule not in roofline.SCHEDULES:
        return None
    if test.startswith("pp"):
        return roofline.first_token(gpu, roofline.SHAPES[shape], prompt, roofline.SCHEDULES[schedule]).total()
    if schedule != "dense":  # the steps of a pruned run revive tokens, and how many depends on the text
        return None
    return int(test[2:].split()[0]) * roofline.expected(gpu, roofline.decode(roofline.SHAPES[shape], prompt)).total()


def prompt_of(test):
    """The prompt's length in "pp3376" or "tg68 @ d3376"."""
    return int(test[2:] if test.startswith("pp") else test.split("@ d")[1])


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as problem:
        return fail(path, "JSON", problem)


def runs_of(path, gpu):
    """Returns a list with an entry for each prompt of a file: the key (shape, prompt, schedule), the reason why there are no rows (None if there are
    rows), and the rows with FIELDS."""
    shape, *rest = os.path.basename(path)[: -len(".json")].split("_")
    schedule = rest[0]
    table = read_json(path)
    if isinstance(table, dict):
        return [((shape, int(rest[1]), schedule), table["error"], [])]
    runs = {}
    for row in table:
        pruned, prompt = row["policy"] != "dense", prompt_of(row["test"])
        made = {field: row.get(field) for field in FIELDS}
        made.update(shape=shape, prompt=prompt, schedule=schedule if pruned else "dense")
        if row.get("speedup") and row.get("predicted_speedup"):
            made["measured_over_predicted"] = row["speedup"] / row["predicted_speedup"]
        if row.get("speedup") and row.get("predicted_with_memory"):
            made["measured_over_with_memory"] = row["speedup"] / row["predicted_with_memory"]
        expected = expected_seconds(gpu, shape, prompt, made["schedule"], row["test"])
        if expected:
            made["expected_seconds"] = expected
            made["measured_over_expected"] = row["seconds"] / expected
        runs.setdefault((shape, prompt, schedule), []).append(made)
    return [(key, None, rows) for key, rows in runs.items()]


def results_in(folder, gpu):
    order = list(roofline.SCHEDULES)
    paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".json") and "_" in name and not name.startswith("transformers_")]
    if not paths:
        fail(folder, "results of run.sh or portable.sh", "none")
    runs = [run for path in paths for run in runs_of(path, gpu)]
    return sorted(runs, key=lambda run: (run[0][0], order.index(run[0][2]) if run[0][2] in order else len(order), run[0][1]))


def cell(value, form):
    return form(value) if value is not None else ""


def percent(value):
    return f"{100 * value:.1f} %"


def times(value):
    return f"{value:.2f}x"


def ratio(value):
    return f"{value:.2f}"


def lines_of(runs, prefill):
    """Yields one line per run. The columns of the dense model come before those of the pruned one."""
    for (_, prompt, schedule), error, rows in runs:
        if error is not None:
            yield [f"{prompt:,}", schedule, error] + [""] * (11 if prefill else 7)
            continue
        of_kind = [row for row in rows if row["test"].startswith("pp" if prefill else "tg")]
        dense = next((row for row in of_kind if row["schedule"] == "dense"), None)
        pruned = next((row for row in of_kind if row["schedule"] != "dense"), None)
        if dense is None:
            continue
        get = lambda row, field, form: cell(row[field] if row else None, form)  # noqa: E731
        of_dense = [get(dense, "seconds", roofline.time) if prefill else f"{dense['tokens_per_s']:.1f}", get(dense, "share_of_peak", percent),
                    get(dense, "measured_over_expected", ratio)]
        of_pruned = [get(pruned, "seconds", roofline.time) if prefill else get(pruned, "tokens_per_s", lambda v: f"{v:.1f}"),
                     get(pruned, "share_of_peak", percent)]
        line = [f"{prompt:,}", schedule, *of_dense, *of_pruned]
        with_memory = [get(pruned, "predicted_with_memory", times), get(pruned, "measured_over_with_memory", ratio)]
        if prefill:
            line += [get(pruned, "speedup", times), get(pruned, "predicted_speedup", times), get(pruned, "measured_over_predicted", ratio), *with_memory,
                     get(pruned, "overhead_share", percent), get(pruned, "measured_over_expected", ratio)]
        else:
            line += [get(pruned, "speedup", times), *with_memory]
        yield line


def report(name, notes, runs, folder, by):
    gpu = gpu_named(name)
    yield f"# Measured on {name}"
    yield ""
    yield f"Measured by `sh bench/cuda/{by}`, with random weights in bf16. `over paper` is the measured time divided by the time that"
    yield "[roofline.py](roofline.py) expects. `predicted` is the speedup that the cost model expects, with costs per operation measured in the dense"
    yield "prefill. `with memory` also counts the time in which a product of few rows waits for its weights. A column `measured / ...` is the measured"
    yield "speedup divided by this prediction."
    yield ""
    for note in notes:
        yield f"- {note}"
    for shape in dict.fromkeys(run[0][0] for run in runs):
        of_shape = [run for run in runs if run[0][0] == shape]
        yield ""
        yield f"## {shape}"
        yield ""
        loads = [row["seconds_to_load"] for _, _, rows in of_shape for row in rows if row["seconds_to_load"] is not None]
        if loads:
            yield f"Drawing the weights and packing them on the device took {roofline.time(min(loads))} to {roofline.time(max(loads))}."
            yield ""
        yield "The first token:"
        yield ""
        yield from roofline.table(["prompt", "<schedule", "dense", "of tensor peak", "over paper", "pruned", "of tensor peak", "speedup", "predicted",
                                   "measured / predicted", "with memory", "measured / with memory", "overhead", "over paper"],
                                  lines_of(of_shape, True))
        decoded = list(lines_of(of_shape, False))
        if decoded:
            yield ""
            yield "Decoding after the prompt, in tokens per second:"
            yield ""
            yield from roofline.table(["prompt", "<schedule", "dense", "of memory peak", "over paper", "pruned", "of memory peak", "speedup", "with memory",
                                       "measured / with memory"], decoded)
        yield from beside.transformers(folder, shape, of_shape)
    yield from beside.kernels(folder, gpu, runs[0][0][0])
    yield from beside.decode(folder, runs[0][0][0])
    yield from beside.attention(folder)
    yield from beside.ceilings(folder, gpu)


def written(path, text):
    """Writes a file beside its place and renames it, so that it is never incomplete. `text` is a string, or a function that writes to the file."""
    with open(path + ".unfinished", "w", encoding="utf-8", newline="") as file:
        file.write(text) if isinstance(text, str) else text(file)
    os.replace(path + ".unfinished", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results")
    parser.add_argument("--gpu")
    parser.add_argument("--note", action="append", default=[])
    parser.add_argument("--out", required=True)
    flags = parser.parse_args()
    with unpacked(flags.results) as folder:
        write(flags, folder)


@contextlib.contextmanager
def unpacked(results):
    if os.path.isdir(results):
        yield results
        return
    if not os.path.isfile(results):
        fail(results, "a folder, or the archive of portable.sh", "none")
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tarfile.open(results) as archive:
                archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder)
        except tarfile.TarError as problem:
            fail(results, "an archive of portable.sh", problem)
        yield os.path.join(folder, "time")


def write(flags, folder):
    by, versions = "run.sh", os.path.join(folder, "versions.log")
    if os.path.exists(versions):  # written by portable.sh
        by = "portable.sh time"
        with open(versions, encoding="utf-8") as file:
            name, *facts = [fact.strip() for fact in file.readline().split(",")]
        flags.gpu = flags.gpu or name
        flags.note.append("driver, memory, highest clocks, power limit, compute capability: " + ", ".join(facts))
    if not flags.gpu:
        fail("--gpu", "the GPU's name", "none")
    runs = results_in(folder, gpu_named(flags.gpu))

    def as_csv(file):
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for _, _, rows in runs:
            writer.writerows(rows)

    written(flags.out + ".csv", as_csv)
    written(flags.out + ".md", "\n".join(report(flags.gpu, flags.note, runs, folder, by)) + "\n")


if __name__ == "__main__":
    main()
