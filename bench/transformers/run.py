#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the time to the first token of a model in transformers, plain and under `lazyprune.prune`, in one process, and the predicted speedup.

  run.py [--layers 22 --hidden 2048 --ffn 5632 --heads 32 --kv-heads 4 --vocabulary 32000] [-P 2048,4096] [--dtype float32] [--device cpu]
         [--threads N] [--rounds 3] [--policy "lazyllm --stages 6:0.7,13:0.7,19:0.7" --policy ...] [--profile]

Weights are random; the default shape is TinyLlama-1.1B's. Every round runs each column once. Each round starts with another column. A cell
is the median of its rounds. `promised` is the speedup of the cost model (include/lazyprune/model/cost_model.hpp). It is the number of
floating-point operations of the plain prefill, which computes all rows of every layer, divided by the number for the rows that the pruned
prefill computed.

`--profile` prints, for each column, which share of the time each kind of operation takes. Norms, RoPE and activations are among the `other
operations`. Pruning takes additional time in the scores, the gathers and scatters, and the copies to the host.
"""
import argparse
import statistics
import time

import torch
import transformers

import lazyprune

# The schedule drawn in the paper's Figure 4, and one for which the cost model predicts 2.3x at 2,048 tokens.
POLICIES = ["lazyllm --stages 6:0.7,13:0.7,19:0.7", "lazyllm --stages 6:0.355,13:0.355,19:0.355"]


def operations(config, rows, finish):
    """Floating-point operations of a prefill whose layer l computes rows[l] tokens. In the last layer, only the last `finish` rows are computed beyond keys
    and values."""
    hidden, ffn, head_dim = config.hidden_size, config.intermediate_size, config.hidden_size // config.num_attention_heads
    q, kv = config.num_attention_heads * head_dim, config.num_key_value_heads * head_dim
    total = 2.0 * hidden * config.vocab_size
    for layer, all_rows in enumerate(rows):
        finished = finish if layer + 1 == len(rows) else all_rows
        pairs = finished * (2.0 * (all_rows - finished) + finished + 1.0) / 2.0
        total += all_rows * 4.0 * hidden * kv + finished * 2.0 * hidden * (2.0 * q + 3.0 * ffn) + pairs * 4.0 * q
    return total


def synchronize(device):
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def parser_of_shapes(description, prompts):
    """Returns a parser with the flags that all measurements of this folder have."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--ffn", type=int, default=5632)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("-P", "--prompts", default=prompts)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--policy", action="append")
    return parser


def config_of(flags):
    return transformers.LlamaConfig(
        vocab_size=flags.vocabulary, hidden_size=flags.hidden, intermediate_size=flags.ffn, num_hidden_layers=flags.layers,
        num_attention_heads=flags.heads, num_key_value_heads=flags.kv_heads, max_position_embeddings=1 << 20, eos_token_id=None,
    )


def first_token(model, policy, ids):
    """Returns the seconds until the first token, and the rows of each layer (None without a policy)."""
    synchronize(model.device.type)
    begin = time.perf_counter()
    if policy is None:
        model.generate(ids, max_new_tokens=1, do_sample=False)
        rows = None
    else:
        with lazyprune.prune(model, policy) as pruned:
            model.generate(ids, max_new_tokens=1, do_sample=False)
        rows = pruned.statistics.prefill_rows
    synchronize(model.device.type)
    return time.perf_counter() - begin, rows


def main():
    parser = parser_of_shapes(__doc__, "2048,4096")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--profile", action="store_true")
    flags = parser.parse_args()
    if flags.profile and flags.device != "cpu":
        parser.error(f"--profile: expected --device cpu, found {flags.device}")
    if flags.threads:
        torch.set_num_threads(flags.threads)

    config = config_of(flags)
    torch.manual_seed(0)
    torch.set_default_dtype(getattr(torch, flags.dtype))
    model = transformers.LlamaForCausalLM(config).eval().to(flags.device)
    columns = [None, *(flags.policy or POLICIES)]

    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {flags.dtype} on {flags.device}, {torch.get_num_threads()} threads")
    print("| prompt | policy | time to first token | speedup | promised | share |\n|---:|---|---:|---:|---:|---:|")
    for tokens in map(int, flags.prompts.split(",")):
        ids = torch.randint(3, flags.vocabulary, (1, tokens), device=flags.device)
        for policy in columns:
            first_token(model, policy, ids[:, :64])
        times, rows = {policy: [] for policy in columns}, {}
        for i in range(flags.rounds):
            for policy in columns[i % len(columns) :] + columns[: i % len(columns)]:
                seconds, rows[policy] = first_token(model, policy, ids)
                times[policy].append(seconds)
        plain = statistics.median(times[None])
        for policy in columns:
            seconds = statistics.median(times[policy])
            if policy is None:
                print(f"| {tokens} | transformers alone | {seconds:.2f} s | | | |", flush=True)
                continue
            promised = operations(config, [tokens] * flags.layers, tokens) / operations(config, rows[policy], 1)
            speedup = plain / seconds
            print(f"| | `{policy}` | {seconds:.2f} s | {speedup:.2f}x | {promised:.2f}x | {speedup / promised:.2f} |", flush=True)
        if flags.profile:
            for policy in columns:
                profile(policy, lambda: first_token(model, policy, ids))


KINDS = {
    "products": ("aten::addmm", "aten::mm", "aten::linear"),
    "attention": ("scaled_dot_product",),
    "scores": ("aten::bmm", "aten::softmax", "aten::_softmax"),
    "gathers and scatters": ("aten::index", "aten::gather"),
    "to the host and back": ("aten::item", "Memcpy"),
}


def profile(policy, work):
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    with profiler(activities=[ProfilerActivity.CPU]) as p:
        work()
    total, shares = 0.0, dict.fromkeys([*KINDS, "other operations"], 0.0)
    for event in p.key_averages():
        kind = next((k for k, names in KINDS.items() if any(name in event.key for name in names)), "other operations")
        shares[kind] += event.self_cpu_time_total
        total += event.self_cpu_time_total
    print(f"  {policy or 'transformers alone'}: " + ", ".join(f"{kind} {100 * share / total:.1f} %" for kind, share in shares.items()))


if __name__ == "__main__":
    main()
