#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Estimates the time of each kernel of the cuda backend on an A100, an H100 and an H200. Nothing here is measured.

The estimate of a kernel uses its operations, the bytes that it moves, and the peak rate that bounds it. It assumes that the kernel reaches a
certain share of this rate.

  roofline.py [--shape llama-2-7b] [-P 3376] > tables in Markdown

bench/cuda/README.md has the tables that this script prints without flags. report.py compares measurements with the estimates.
"""
import argparse
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """The peak rates in NVIDIA's data sheets (SXM, 80 GB for A100 and H100), and the expected share of the bound for each kind of kernel."""

    name: str
    full_name: str  # as nvidia-smi prints it
    tensor: float  # floating-point operations per second, bf16, dense
    memory: float  # bytes per second
    link: float  # bytes per second between host and device
    launch: float  # seconds from the end of a kernel to the beginning of the next one in the same stream
    shares: dict

    def ridge(self):
        return self.tensor / self.memory


@dataclass(frozen=True)
class Shape:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int

    @property
    def q(self):
        return self.hidden

    @property
    def kv(self):
        return self.hidden // self.heads * self.kv_heads


SHAPES = {
    "llama-2-7b": Shape(4096, 32, 32, 32, 11008, 32000),
    "llama-3-8b": Shape(4096, 32, 32, 8, 14336, 128256),
}

# The share of its bound (a peak rate) that a kernel should reach: on A100, on H100 and H200, and the reason. The second numbers of product, single,
# rows and split were measured on an H100, by ncu, for Llama-2-7B's shape at 3,376 tokens (nvidia-h100-80gb-hbm3.md). Nothing was measured on the other
# two GPUs.
SHARES = {
    "product": (0.75, 0.74, "cuBLASLt's kernels reach this share with a few thousand rows, near the power limit of the H100"),
    "single": (0.80, 0.71, "`multiply_rows` reads the weight once, by all multiprocessors; this is 82 % for the two matrices of a gate, and 65 % for the "
               "others together"),
    "attention": (0.40, 0.42, "half of each tile on the diagonal is wasted; on the A100, each tile has two barriers, and the softmax is between the products; "
                  "on the H100, the softmax and the products of `wgmma` overlap, as in cuDNN's kernel, which reaches 47 % on this shape"),
    "rows": (0.75, 0.90, "the kernel passes over the memory once, and a thread moves 8 or 16 bytes at a time; a part of its input is still in the L2 cache"),
    "split": (0.25, 0.48, "a block has one warp and takes 64 keys or more of one head, so few loads are in flight"),
    "small": (0.10, 0.10, "there is too little work to fill the device; in the probe, one thread reads a whole key"),
    "one block": (0.005, 0.005, "one thread block chooses the tokens, on one multiprocessor"),
    "link": (0.50, 0.50, "some KiB are copied, and the host waits for them"),
}

# On compute capability 9.0, a kernel begins while the one before it ends (launch_early in launch.hpp).
A100 = Gpu("A100", "NVIDIA A100-SXM4-80GB", 312e12, 2039e9, 25e9, 2e-6, {k: v[0] for k, v in SHARES.items()})
H100 = Gpu("H100", "NVIDIA H100 80GB HBM3", 989e12, 3352e9, 50e9, 0, {k: v[1] for k, v in SHARES.items()})
H200 = Gpu("H200", "NVIDIA H200", 989e12, 4800e9, 50e9, 0, H100.shares)  # an H100 with faster memory
GPUS = (A100, H100, H200)

SHORTEST = 3e-6  # seconds that a kernel takes at least; on the H100, ncu measured 3.3 to 6.4 us for those with little work
STOP = 60e-6  # seconds that the device waits while the host reads choices or logits, checks them, and launches again
LISTS = 3e-6  # seconds to copy positions, slots and addresses of an operation to the device, if they are not there already
BLOCK_ROWS = 2048  # rows that a layer's operations take at a time (cuda::block_rows)

# The share of tokens kept at each pruning layer of a model with 32 layers. `drawn` is the schedule drawn in the paper's Figure 4, and `2.3x` is
# the schedule that bench/end_to_end/run.sh calls so.
SCHEDULES = {"dense": {}, "drawn": {9: 0.7, 19: 0.7, 28: 0.7}, "2.3x": {9: 0.35, 19: 0.35, 28: 0.35}}


@dataclass
class Kernel:
    name: str
    kind: str  # a key of SHARES
    operations: float  # floating-point
    bytes: float  # read and written in device memory; for the kind link, copied to the host
    launches: int = 1  # how often the kernel is started
    lists: int = 0  # lists copied to the device for it (see LISTS)

    def bound(self, gpu):
        if self.kind == "link":
            return "link"
        return "tensor cores" if self.kind in ("product", "attention") and self.operations / self.bytes > gpu.ridge() else "memory"

    def seconds(self, gpu):
        share = gpu.shares[self.kind]
        bound = self.bound(gpu)
        if bound == "link":
            return self.bytes / (share * gpu.link)
        seconds = self.operations / (share * gpu.tensor) if bound == "tensor cores" else self.bytes / (share * gpu.memory)
        return max(seconds, SHORTEST * self.launches)


# The kernels, in the order in which include/lazyprune/model/transformer.hpp calls them.


def blocks(rows):
    return math.ceil(rows / BLOCK_ROWS)


FEW_ROWS = 4  # up to this many rows, one kernel of ours multiplies and gates (products::are_few)


def product(name, rows, inputs, outputs, moved_by_output=2.0):
    """Returns the kernel that multiplies rows in bf16 by weights in bf16. `moved_by_output` is the number of bytes for each result: 2 if it is
    written in bf16, 4 in float, 8 if it is added to the residual stream."""
    times = blocks(rows)
    moved = 2.0 * rows * inputs + 2.0 * times * inputs * outputs + moved_by_output * rows * outputs
    return Kernel(f"product {name}", "product" if rows > 1 else "single", 2.0 * rows * inputs * outputs, moved, times)


def rows_kernel(name, rows, numbers, lists=0):
    """A kernel that moves `numbers` bytes per row."""
    return Kernel(name, "rows" if rows > 16 else "small", 0, float(rows) * numbers, blocks(rows), lists)


def pairs_of(rows, finish):
    """The number of pairs of a query and a key to which the query attends. The queries are the last `finish` rows."""
    return finish * (2.0 * (rows - finish) + finish + 1.0) / 2.0


def layer(shape, rows, finish, active=None, same=False):
    """Returns the kernels of a layer over `rows` tokens. The last `finish` rows are computed to the end, the others only to keys and values.
    `active` is the number of tokens that a decode step attends to; None for a prefill. `same` says that the tokens are those of the layer
    before, so positions, slots and ranges are on the device already. A prefill still copies the addresses of its new keys and values. Attention
    rotates queries, and the kernel that puts keys and values into the cache rotates keys."""
    h, q, kv, f = shape.hidden, shape.q, shape.kv, shape.ffn
    pairs = pairs_of(rows, finish) if active is None else float(rows * active)
    keys = rows if active is None else active
    table = 4.0 * h / shape.heads  # bytes of cosines and sines for a row
    kernels = [rows_kernel("norm", rows, 6.0 * h), *(product(name, rows, h, kv) for name in "kv")]
    lists = 0 if same else blocks(rows)
    kernels.append(rows_kernel("put, with RoPE", rows, 8.0 * kv + table, lists if active is not None else blocks(rows)))
    kernels.append(product("q", finish, h, q))
    lists = lists or (0 if finish == rows else 1)  # or the lists of the last row alone
    if finish > 16:
        kernels.append(Kernel("attention", "attention", 4.0 * q * pairs, finish * (4.0 * q + table) + 4.0 * keys * kv, blocks(finish), lists))
    else:
        splits = math.ceil(keys / max(64, math.ceil(keys / 64)))  # attention_layer::splits_of
        parts = 4.0 * splits * finish * shape.heads * (2 + h // shape.heads)
        kernels.append(Kernel("attention, keys split", "split", 4.0 * q * pairs, finish * (2.0 * q + table) + 4.0 * keys * kv + parts, 1, lists))
        kernels.append(Kernel("join of the splits", "small", 0, parts + 2.0 * finish * q))
    kernels += [product("o", finish, q, h, 8.0), rows_kernel("norm, of the feed-forward", finish, 6.0 * h)]
    if finish > FEW_ROWS:
        kernels += [product("gate and up", finish, h, 2 * f), rows_kernel("gate", finish, 6.0 * f)]
    else:
        kernels.append(product("gate and up", finish, h, 2 * f, 1.0))  # two products make one result
    return kernels + [product("down", finish, f, h, 8.0)]


def choice(shape, rows, kept):
    """Returns the kernels that compute the last token's attention probabilities, sum them over the heads, and choose the tokens that stay."""
    scores = 4.0 * shape.heads * rows
    return [
        Kernel("probe", "small", 2.0 * shape.q * rows, 2.0 * rows * shape.kv + scores),
        Kernel("softmax of the probe", "small", 0, 4 * scores),
        Kernel("sum over heads", "small", 0, scores + 4.0 * rows),
        Kernel("copy of the sums", "small", 0, 8.0 * rows),
        Kernel("choice of tokens", "one block", 0, 32.0 * rows),  # writes the keys of all tokens, and reads them seven times
        Kernel("positions of the chosen", "small", 0, 12.0 * kept),
    ]


def moves(shape, rows, kept):
    """Returns the kernels that store the pruned rows in bf16, and move the kept rows to the front through scratch memory."""
    return [
        Kernel("lists of moves", "small", 0, 20.0 * rows, 2, 1),  # the addresses of the stored rows come from the host
        Kernel("rows put aside", "rows", 0, 6.0 * (rows - kept) * shape.hidden),
        Kernel("rows moved together", "rows", 0, 16.0 * kept * shape.hidden, 2),
    ]


def rows_by_layer(shape, tokens, stages):
    rows, now = [], tokens
    for l in range(shape.layers):
        now = math.ceil(now * stages.get(l, 1.0) - 1e-9)
        rows.append(now)
    return rows


def prefill(shape, tokens, stages):
    """The kernels of a prefill, from the ids to the logits of the last token."""
    rows = rows_by_layer(shape, tokens, stages)
    kernels = [rows_kernel("embed", tokens, 6.0 * shape.hidden, 1)]
    for l, n in enumerate(rows):
        if l in stages:
            kernels += choice(shape, rows[l - 1], n) + moves(shape, rows[l - 1], n)
        kernels += layer(shape, n, 1 if l + 1 == shape.layers else n, same=l > 0 and l not in stages)
    choices = sum(rows[l - 1] + rows[l] for l in stages)
    return kernels + ([Kernel("choices to the host", "link", 0, 4.0 * choices)] if stages else []) + logits(shape)


def logits(shape):
    return [
        rows_kernel("norm, of the logits", 1, 6.0 * shape.hidden),
        product("logits", 1, shape.hidden, shape.vocabulary, 4.0),
        Kernel("logits to the host", "link", 0, 4.0 * shape.vocabulary),
    ]


def decode(shape, known):
    """The kernels of a dense step of one token after `known` others."""
    kernels = [rows_kernel("embed", 1, 6.0 * shape.hidden, 1)]
    for l in range(shape.layers):
        kernels += layer(shape, 1, 1, active=known + 1, same=l > 0)
    return kernels + logits(shape)


def operations(shape, rows):
    """The operations that the cost model counts (include/lazyprune/model/cost_model.hpp), all at the same cost."""
    total = 2.0 * shape.hidden * shape.vocabulary
    for l, n in enumerate(rows):
        finish = 1 if l + 1 == len(rows) else n
        total += n * 4.0 * shape.hidden * shape.kv + finish * 2.0 * shape.hidden * (2.0 * shape.q + 3.0 * shape.ffn)
        total += pairs_of(n, finish) * 4.0 * shape.q
    return total


@dataclass
class Expected:
    products: float = 0
    attention: float = 0
    other: float = 0
    launches: float = 0
    stops: float = 0

    def total(self):
        return self.products + self.attention + self.other + self.launches + self.stops


def expected(gpu, kernels):
    """The expected seconds of the kernels. The device stops once for the logits, and once for the choices of all stages."""
    e = Expected(stops=sum(k.kind == "link" for k in kernels) * STOP)
    for k in kernels:
        e.launches += (0 if k.kind == "link" else k.launches * gpu.launch) + k.lists * LISTS
        if k.name.startswith("product"):
            e.products += k.seconds(gpu)
        elif k.name.startswith("attention"):
            e.attention += k.seconds(gpu)
        else:
            e.other += k.seconds(gpu)
    return e


def first_token(gpu, shape, tokens, stages):
    return expected(gpu, prefill(shape, tokens, stages))


# The tables.


def scaled(value, units):
    """Formats a value with three digits and a unit."""
    for factor, unit in units:
        if value >= 0.9995 * factor:
            break
    number = value / factor
    return f"{number:.{max(0, 2 - int(math.floor(math.log10(number)))) if number > 0 else 0}f} {unit}".replace("1000 us", "1.00 ms")


def count(value):
    return "-" if value == 0 else scaled(value, ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K"), (1, "")))


def size(value):
    return scaled(value, ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1, "B")))


def time(value):
    return scaled(value, ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")))


def table(heads, lines):
    right = [not h.startswith("<") for h in heads]
    heads = [h.lstrip("<") for h in heads]
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "|".join("---:" if r else "---" for r in right) + "|"
    for line in lines:
        yield "| " + " | ".join(line) + " |"


def kernel_lines(kernels):
    for k in kernels:
        intensity = f"{k.operations / k.bytes:,.0f}" if k.operations else "-"
        cells = [k.name, count(k.operations), size(k.bytes), intensity]
        for gpu in GPUS:
            cells += [k.bound(gpu), f"{100 * gpu.shares[k.kind]:.3g} %", time(k.seconds(gpu))]
        yield cells


KERNEL_HEADS = ["<kernel", "operations", "bytes", "operations a byte"] + [h for g in GPUS for h in (f"<{g.name}: bound", "share", "time")]


def tables(name, tokens):
    shape = SHAPES[name]
    yield f"### Kernels of a prefill: {name}, {tokens:,} tokens"
    yield ""
    yield f"The kernels of a dense layer ({time(sum(k.seconds(A100) for k in layer(shape, tokens, tokens)))} on the A100, " \
          f"{time(sum(k.seconds(H100) for k in layer(shape, tokens, tokens)))} on the H100), of a stage that keeps 70 % of the tokens, and of the beginning and end of a prefill:"
    yield ""
    kept = math.ceil(0.7 * tokens)
    once = [rows_kernel("embed", tokens, 6.0 * shape.hidden)]
    yield from table(KERNEL_HEADS, kernel_lines(once + layer(shape, tokens, tokens) + choice(shape, tokens, kept) + moves(shape, tokens, kept) + logits(shape)))
    yield ""
    yield f"### The first token: {name}, {tokens:,} tokens"
    yield ""
    lines = []
    for gpu in GPUS:
        dense = first_token(gpu, shape, tokens, {}).total()
        for schedule, stages in SCHEDULES.items():
            e = first_token(gpu, shape, tokens, stages)
            rows = rows_by_layer(shape, tokens, stages)
            work = operations(shape, rows)
            lines.append([gpu.name, schedule, *(time(t) for t in (e.products, e.attention, e.other, e.launches, e.stops, e.total())),
                          f"{100 * work / e.total() / gpu.tensor:.0f} %", f"{dense / e.total():.2f}x",
                          f"{operations(shape, rows_by_layer(shape, tokens, {})) / work:.2f}x"])
    yield from table(["<GPU", "<schedule", "products", "attention", "other kernels", "launches", "stops", "first token", "of peak", "speedup",
                      "operations alone"], lines)
    yield ""
    yield f"### By length, {name}"
    yield ""
    lines = []
    for n in (1024, 2048, 3376, 4096, 8192, 16384, 32768):
        cells = [f"{n:,}"]
        for gpu in GPUS:
            dense = first_token(gpu, shape, n, {}).total()
            cells += [time(dense), *(f"{dense / first_token(gpu, shape, n, SCHEDULES[s]).total():.2f}x" for s in ("drawn", "2.3x")),
                      time(expected(gpu, decode(shape, n)).total())]
        lines.append(cells)
    yield from table(["prompt"] + [h for g in GPUS for h in (f"{g.name}: dense", "drawn", "2.3x", "a token after it, dense")], lines)
    yield ""
    yield f"### A decoded token: {name}, after {tokens:,} tokens"
    yield ""
    yield from table(KERNEL_HEADS, kernel_lines(layer(shape, 1, 1, active=tokens + 1) + logits(shape)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=sorted(SHAPES), default="llama-2-7b")
    parser.add_argument("-P", "--prompt", type=int, default=3376)
    flags = parser.parse_args()
    if flags.prompt < 17:
        parser.error(f"-P: expected 17 tokens or more, found {flags.prompt}")
    print("\n".join(tables(flags.shape, flags.prompt)))
    print("\nThe expected shares on the A100 and on the H100 and H200, with the reason:\n")
    for kind, (a100, h100, why) in SHARES.items():
        print(f"- {kind}: {100 * a100:.3g} and {100 * h100:.3g} %: {why}.")


if __name__ == "__main__":
    main()
