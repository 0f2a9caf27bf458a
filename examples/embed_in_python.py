# SPDX-License-Identifier: MIT
"""A whole engine that prunes: numpy computes a Llama with grouped heads, and the C library plans. EMBEDDING.md explains each step.

embed_in_python.py LIBRARY MODEL_FOLDER "IDS" [POLICY] [TOKENS] [CHUNK]   writes to stdout the trace that `lazyprune compare` reads
"""

import json
import pathlib
import sys

import numpy as np
import lazyprune as lp

library, folder, ids, policy, tokens, chunk = (*sys.argv[1:], *("lazyllm --stages 2:0.5,4:0.5", "5", "0")[len(sys.argv) - 4 :])
c = json.loads(pathlib.Path(folder, "config.json").read_text())
file = pathlib.Path(folder, "model.safetensors").read_bytes()
header = 8 + int.from_bytes(file[:8], "little")


def tensor(name):  # converts from bfloat16 to float64
    entry = json.loads(file[8:header])[name + ".weight"]
    bits = np.frombuffer(file[header:], "<u2")[entry["data_offsets"][0] // 2 : entry["data_offsets"][1] // 2]
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64).reshape(entry["shape"])


names = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
         "input_layernorm", "post_attention_layernorm")  # fmt: skip
weights = [[tensor(f"model.layers.{layer}.{name}") for name in names] for layer in range(c["num_hidden_layers"])]
embeddings, last_norm, head = tensor("model.embed_tokens"), tensor("model.norm"), tensor("lm_head")
n, heads, kv_heads, dim = c["max_position_embeddings"], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
all_ids = np.zeros(n, np.uint32)
# The arrays begin as NaN. So a read of memory that was never written shows at once.
keys, values = (np.full((len(weights), n, kv_heads, dim), np.nan) for _ in range(2))
store, waiting = (np.full((n, c["hidden_size"]), np.nan) for _ in range(2))
session = lp.Library(library).session(policy, len(weights), n, checks=lp.CHECK_ATTENTION)
trace = session.trace(sys.stdout)


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * weight


def rope(x, positions):  # x: (rows, heads, dim). RoPE uses the position of each row in the text
    angle = positions[:, None, None] * c["rope_theta"] ** (-np.arange(0, dim, 2) / dim)
    a, b = x[..., : dim // 2], x[..., dim // 2 :]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def forward(new, phase, outputs):
    known, x = session.state.known, None
    all_ids[known : known + len(new)] = new
    for layer in range(session.begin(len(new), phase, outputs=outputs)):
        plan, (wq, wk, wv, wo, gate, up, down, norm1, norm2) = session.enter(layer), weights[layer]
        memory = {lp.EMBEDDING: embeddings[all_ids], lp.CARRIED: x, lp.STORED: store, lp.WAITING: waiting}
        x = np.array([memory[origin][index] for origin, index in zip(plan.origin, plan.index)]).reshape(-1, c["hidden_size"])
        h = norm(x, norm1)
        keys[layer, plan.rows] = rope((h @ wk.T).reshape(-1, kv_heads, dim), plan.rows)
        values[layer, plan.rows] = (h @ wv.T).reshape(-1, kv_heads, dim)
        first = len(plan.rows) - plan.finish  # the rows before need only keys and values
        query = rope((h[first:] @ wq.T).reshape(-1, heads, dim), plan.rows[first:])
        k, v = (np.repeat(cache[layer, plan.active], heads // kv_heads, 1) for cache in (keys, values))
        hidden = plan.active[None, None, :] > plan.rows[first:, None, None]  # a row sees the active tokens up to itself
        p = np.exp(np.where(hidden, -np.inf, np.einsum("qhd,khd->qhk", query, k) / np.sqrt(dim)))
        p /= p.sum(-1, keepdims=True)
        y = x[first:] + np.einsum("qhk,khd->qhd", p, v).reshape(-1, heads * dim) @ wo.T
        h = norm(y, norm2)
        x[first:] = y + (h @ gate.T / (1 + np.exp(-(h @ gate.T))) * (h @ up.T)) @ down.T
        shown = {"data": np.ascontiguousarray(p[-1], np.float32)} if plan.wants else {}  # the last query's attention (heads, active)
        for row, slot, origin, to in session.leave(plan.wants, **shown):
            (waiting if to == lp.WAITING else store)[slot] = (waiting if origin == lp.WAITING else x)[row]
    session.finish()
    return head @ norm(x[-1], last_norm) if outputs else None


prompt = new = [int(i) for i in ids.split()]
while 0 < int(chunk) < len(new):  # a chunk has no outputs, since more of the prompt follows
    forward(new[: int(chunk)], lp.PREFILL, 0)
    new = new[int(chunk) :]
logits = forward(new, lp.PREFILL, 1)
trace.write(prompt, logits)
for _ in range(1, int(tokens)):
    best = int(np.argmax(logits))
    logits = forward([best], lp.DECODE, 1)
    trace.write([best], logits)
