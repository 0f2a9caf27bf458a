# SPDX-License-Identifier: MIT
"""The sections of report.py about other measurements of portable.sh: ceilings, transformers, attention alone, and the kernels of a layer and a step.

The functions `ceilings`, `transformers`, `attention`, `decode` and `kernels` take the folder of the results and yield lines of Markdown. They
yield nothing if the folder lacks their file.
"""
import csv
import json
import os

import roofline


def read(folder, name, step):
    path = os.path.join(folder, name + ".json")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [entry for entry in json.load(file)[step] if "seconds" in entry]


def ceilings(folder, gpu):
    entries = read(folder, "ceilings", "ceilings")
    if not entries:
        return
    yield from ["", "## The card's ceilings", "", "Measured with PyTorch (`peers.py ceilings`). Each rate is the median of several calls:", ""]
    for entry in entries:
        if entry["what"] == "copy":
            share = f", {100 * entry['gb_per_s'] * 1e9 / gpu.memory:.0f} % of the data sheet" if gpu else ""
            yield f"- a copy within the device's memory: {entry['gb_per_s']:,.0f} GB/s, read and written{share}"
        elif entry["what"] == "square product":
            yield f"- a bf16 product of {entry['rows']:,} rows, inputs and outputs: {entry['tflop_per_s']:.0f} TFLOP/s"
    rows = sorted({entry["rows"] for entry in entries if entry["what"] == "product"})
    yield ""
    yield "The products of a layer in bf16, with bf16 results, by number of rows. The rates are in TFLOP/s; with one row they are in GB/s read from memory:"
    yield ""
    lines = {}
    for entry in entries:
        if entry["what"] == "product" and entry["output"] == "bf16":
            rate = f"{entry['gb_per_s']:,.0f}" if entry["rows"] == 1 else f"{entry['tflop_per_s']:.0f}"
            lines.setdefault((entry["shape"], entry["product"]), {})[entry["rows"]] = rate
    yield from roofline.table(["<shape", "<product"] + [f"{n:,}" for n in rows],
                              [[shape, product] + [rates.get(n, "") for n in rows] for (shape, product), rates in lines.items()])


def transformers(folder, shape, runs):
    """Yields a table of the program's runs and of transformers' runs, for the same shape and prompts."""
    theirs = {(entry["what"], entry["prompt"]): entry["seconds"] for entry in read(folder, f"transformers_{shape}", "transformers") if "prompt" in entry}
    if not theirs:
        return
    best = {}  # the program's shortest seconds, by test, prompt and schedule
    for (_, prompt, _), _, rows in runs:
        for row in rows:
            key = (row["test"][:2], prompt, row["schedule"])
            best[key] = min(best.get(key, row["seconds"]), row["seconds"])
    decoded = {int(row["test"][2:].split()[0]) for _, _, rows in runs for row in rows if row["test"].startswith("tg")}
    tokens = decoded.pop() if len(decoded) == 1 else None
    yield from ["", f"## {shape}, beside transformers", "", "transformers runs dense, in bf16 with sdpa, without compilation (`peers.py transformers`). Columns with `x` "
                "are speedups over it:", ""]
    lines = []
    for prompt in sorted({p for _, p in theirs}):
        dense, prefill, step = best.get(("pp", prompt, "dense")), theirs.get(("prefill", prompt)), theirs.get(("decode", prompt))
        if not dense or not prefill:
            continue
        line = [f"{prompt:,}", roofline.time(prefill), roofline.time(dense), f"{prefill / dense:.2f}x"]
        for schedule in ("drawn", "2.3x"):
            pruned = best.get(("pp", prompt, schedule))
            line += [f"{prefill / pruned:.2f}x"] if pruned else [""]
        own = best.get(("tg", prompt, "dense"))
        line += [roofline.time(step), roofline.time(own / tokens), f"{step * tokens / own:.2f}x"] if own and step and tokens else ["", "", ""]
        lines.append(line)
    yield from roofline.table(["prompt", "transformers", "lazyprune, dense", "faster", "drawn", "2.3x", "a step: transformers", "lazyprune", "faster"], lines)


def attention(folder):
    entries = read(folder, "sdpa", "sdpa")
    if not entries:
        return
    yield from ["", "## Attention alone", "", "Causal attention of a layer by PyTorch's `scaled_dot_product_attention`, in TFLOP/s (`peers.py sdpa`):", ""]
    backends = list(dict.fromkeys(entry["backend"] for entry in entries))
    prompts = sorted({entry["prompt"] for entry in entries})
    rates = {(entry["shape"], entry["backend"], entry["prompt"]): f"{entry['tflop_per_s']:.0f}" for entry in entries}
    lines = [[shape, backend, *(rates.get((shape, backend, prompt), "") for prompt in prompts)]
             for shape in dict.fromkeys(entry["shape"] for entry in entries) for backend in backends]
    yield from roofline.table(["<shape", "<backend"] + [f"{prompt:,}" for prompt in prompts], lines)


# The kernels of a block of rows, in the transformer's order, under the names of roofline.py.
LAYER = ["norm", "product k", "product v", "put, with RoPE", "product q", "attention", "product o", "norm, of the feed-forward", "product gate and up",
         "gate", "product down"]
KINDS = {"norm": "norm_rows", "put": "put_rows", "attention": "attend_", "gate": "gate_rows"}


def fits(name, kernel):
    """True if a kernel may be the entry `name` of LAYER. cuBLASLt names the kernels of products, so every kernel without one of our names may be
    a product."""
    kind = KINDS.get(name.split()[0].rstrip(","))
    return kind in kernel if kind else not any(own in kernel for own in KINDS.values())


def profiled(folder, name):
    """Reads the output of ncu --csv. Returns the kernels in order: name, blocks, seconds, and bytes of device memory read and written."""
    path = os.path.join(folder, f"kernels.{name}.log")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", errors="replace") as file:
        rows = list(csv.DictReader(line for line in file if line.startswith('"')))
    kernels = {}
    for row in rows:
        kernel = kernels.setdefault(row["ID"], {"name": row["Kernel Name"], "blocks": int(row["Grid Size"].strip("()").split(",")[0]), "bytes": 0})
        value = float(row["Metric Value"].replace(",", ""))
        if row["Metric Name"].startswith("gpu__time_duration"):
            kernel["seconds"] = value * {"ns": 1e-9, "us": 1e-6, "usecond": 1e-6, "nsecond": 1e-9, "ms": 1e-3, "msecond": 1e-3}[row["Metric Unit"]]
        else:
            kernel["bytes"] += value * {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}[row["Metric Unit"]]
    return list(kernels.values())


def step_of(kernels):
    """Returns the kernels of one decode step, from one embedding to the next; None if the profile has no complete step."""
    begins = [i for i, kernel in enumerate(kernels) if "embed_rows" in kernel["name"]]
    if len(begins) < 2:
        return None
    return kernels[begins[0]:begins[1]]


def decode(folder, shape):
    """A table of a decode step's kernels, summed by name, the longest first."""
    step = step_of(profiled(folder, "decode"))
    if step is None:
        return
    yield from ["", f"## The kernels of a decode step: {shape}, after 3,376 tokens", "", "Measured by ncu in one dense step:", ""]
    together = {}
    for kernel in step:
        name = kernel["name"].split("(")[0].removeprefix("void ").replace("lazyprune::", "").replace("v0::", "").replace("device::", "")
        count, seconds = together.get(name, (0, 0))
        together[name] = (count + 1, seconds + kernel["seconds"])
    lines = [[name, f"{count}", roofline.time(seconds / count), roofline.time(seconds)]
             for name, (count, seconds) in sorted(together.items(), key=lambda item: -item[1][1])]
    lines.append(["all", f"{len(step)}", "", roofline.time(sum(kernel["seconds"] for kernel in step))])
    yield from roofline.table(["<kernel", "times", "each", "together"], lines)


def layer_of(kernels, rows):
    """Returns the seconds and bytes of each kernel of a layer over `rows` rows, summed over the blocks of rows; None if the profile has no complete
    layer."""
    size = len(LAYER)
    at = 0
    while at + size <= len(kernels):
        layer, left = [dict(name=name, seconds=0, bytes=0) for name in LAYER], rows
        first = at
        while left > 0 and first + size <= len(kernels) and all(fits(n, k["name"]) for n, k in zip(LAYER, kernels[first:])) \
                and kernels[first]["blocks"] == min(left, roofline.BLOCK_ROWS):
            for part, kernel in zip(layer, kernels[first:]):
                part["seconds"] += kernel["seconds"]
                part["bytes"] += kernel["bytes"]
            left -= kernels[first]["blocks"]
            first += size
        if left == 0:
            return layer
        at += 1
    return None


def kernels(folder, gpu, shape, rows=3376):
    """A table of the kernels of the first complete layer in the profile, each beside its estimate by roofline.py."""
    layer = layer_of(profiled(folder, "layer"), rows)
    if layer is None or gpu is None:
        return
    expected = {k.name: k for k in roofline.layer(roofline.SHAPES[shape], rows, rows)}
    yield from ["", f"## The kernels of a dense layer: {shape}, {rows:,} tokens", "", "Measured by ncu, beside the estimates of [roofline.py](roofline.py):", ""]
    lines = []
    for part in layer:
        paper = expected[part["name"]]
        rate = f"{paper.operations / part['seconds'] / 1e12:.0f} TFLOP/s" if paper.operations else f"{paper.bytes / part['seconds'] / 1e9:,.0f} GB/s"
        lines.append([part["name"], roofline.time(part["seconds"]), roofline.time(paper.seconds(gpu)), f"{part['seconds'] / paper.seconds(gpu):.2f}", rate,
                      roofline.size(part["bytes"]), roofline.size(paper.bytes)])
    whole, paper = sum(part["seconds"] for part in layer), sum(k.seconds(gpu) for k in expected.values())
    lines.append(["all", roofline.time(whole), roofline.time(paper), f"{whole / paper:.2f}", "", "", ""])
    yield from roofline.table(["<kernel", "measured", "on paper", "ratio", "rate", "bytes moved", "on paper"], lines)
