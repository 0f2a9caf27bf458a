# SPDX-License-Identifier: MIT
"""The engine of engine.c in Python: numpy computes, and the C library plans, called through ctypes.

engine.py LIBRARY MODEL_FOLDER IDS_FILE [--policy TEXT] [--tokens N] [--chunk N] [--fork N] [--fused]
"""

import argparse
import copy
import json
import pathlib
import sys

import numpy as np

import lazyprune as lp


def load(folder):
    """Returns the config, and all tensors in float64."""
    config = json.loads((folder / "config.json").read_text())
    file = (folder / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(file[:8], "little")
    tensors = {}
    for name, tensor in json.loads(file[8:begin]).items():
        if name == "__metadata__":
            continue
        first, end = tensor["data_offsets"]
        bits = np.frombuffer(file, "<u2", (end - first) // 2, begin + first).astype(np.uint32) << 16
        tensors[name] = bits.view(np.float32).astype(np.float64).reshape(tensor["shape"])
    return config, tensors


class Sequence:
    """The state of one sequence: token ids, keys and values by position, and saved hidden states."""

    def __init__(self, config, tensors, session):
        self.c, self.tensors, self.session = config, tensors, session
        n, kv = config["max_position_embeddings"], (config["num_key_value_heads"], config["head_dim"])
        layers, hidden = config["num_hidden_layers"], config["hidden_size"]
        self.ids = np.zeros(n, np.uint32)
        self.keys, self.values = np.zeros((layers, n, *kv)), np.zeros((layers, n, *kv))
        self.aux, self.waiting = np.zeros((n, hidden)), np.zeros((n, hidden))
        angles = np.arange(n)[:, None] * config["rope_theta"] ** (-2.0 * np.arange(kv[1] // 2) / kv[1])
        self.cos, self.sin = np.cos(angles), np.sin(angles)

    def fork(self):
        other = copy.copy(self)
        for name in ("ids", "keys", "values", "aux", "waiting"):
            setattr(other, name, getattr(self, name).copy())
        other.session = self.session.clone()
        return other

    def norm(self, x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.c["rms_norm_eps"]) * weight

    def rope(self, x, positions):
        """Applies RoPE to x (rows, heads, head_dim), with each token's position in the text."""
        half = x.shape[-1] // 2
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, ids, phase, outputs, fused):
        """Computes a step. Returns the last token's hidden state after all layers of the step, or None if the last layer has no rows."""
        c, known = self.c, self.session.state.known
        heads, kv_heads, head_dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        self.ids[known : known + len(ids)] = ids
        x = None
        for layer in range(self.session.begin(len(ids), phase, outputs=outputs)):
            weight = lambda name: self.tensors[f"model.layers.{layer}.{name}.weight"]
            plan = self.session.enter(layer)
            active, rows, origin, index = plan.active, plan.rows, plan.origin, plan.index

            # 1. Gather the rows.
            before, x = x, np.zeros((len(rows), c["hidden_size"]))
            memories = (self.tensors["model.embed_tokens.weight"], before, self.aux, self.waiting)
            for place, memory in enumerate(memories):
                here = origin == place
                if here.any():
                    x[here] = memory[self.ids[index[here]] if place == lp.EMBEDDING else index[here]]

            # 2. Compute keys and values of all rows.
            h = self.norm(x, weight("input_layernorm"))
            self.keys[layer, rows] = self.rope((h @ weight("self_attn.k_proj").T).reshape(-1, kv_heads, head_dim), rows)
            self.values[layer, rows] = (h @ weight("self_attn.v_proj").T).reshape(-1, kv_heads, head_dim)

            # 3. Compute the rest of the layer for the last `finish` rows. Each row attends to the active tokens up to itself.
            first = len(rows) - plan.finish
            query = self.rope((h[first:] @ weight("self_attn.q_proj").T).reshape(-1, heads, head_dim), rows[first:])
            keys, values = (np.repeat(cache[layer, active], heads // kv_heads, 1) for cache in (self.keys, self.values))
            logits = np.einsum("qhd,khd->qhk", query, keys) / np.sqrt(head_dim)
            logits[np.broadcast_to((active[None, :] > rows[first:, None])[:, None], logits.shape)] = -np.inf
            p = np.exp(logits - logits.max(-1, keepdims=True)) if len(query) else logits
            p /= p.sum(-1, keepdims=True)
            attended = np.einsum("qhk,khd->qhd", p, values).reshape(-1, heads * head_dim)
            y = x[first:] + attended @ weight("self_attn.o_proj").T
            h = self.norm(y, weight("post_attention_layernorm"))
            gate = h @ weight("mlp.gate_proj").T
            x[first:] = y + (gate / (1 + np.exp(-gate)) * (h @ weight("mlp.up_proj").T)) @ weight("mlp.down_proj").T

            # 4. Show the evidence that the policy wants, and save the rows that the session asks for.
            for row, slot, place, to in self.session.leave(**self.look(plan, layer, active, query, p, fused)):
                (self.waiting if to == lp.WAITING else self.aux)[slot] = (self.waiting if place == lp.WAITING else x)[row]
        self.session.finish()
        return x[-1] if x is not None and len(x) else None

    def look(self, plan, layer, active, query, p, fused):
        """Returns the evidence that the plan wants, for all kinds that the library's own policies ask for."""
        as_floats = lambda array: np.ascontiguousarray(array, np.float32)
        if plan.wants == lp.KEYS:
            return {"kind": lp.KEYS, "data": as_floats(self.keys[layer, active])}
        shown = {"kind": plan.wants}
        if plan.wants in (lp.ATTENTION, lp.WINDOW, lp.VALUES, lp.PROBES):
            queries = {lp.WINDOW: plan.window, lp.PROBES: plan.probe_rows}.get(plan.wants, 1)
            if fused or plan.wants == lp.PROBES:  # the library computes the rows of probes itself
                shown.update(query=as_floats(query[-queries:]), keys=as_floats(self.keys[layer, active]))
            else:
                shown.update(data=as_floats(p[-queries:]))
        if plan.wants == lp.VALUES:
            shown.update(values=as_floats(self.values[layer, active]))
        return shown

    def logits(self, x):
        return self.tensors["lm_head.weight"] @ self.norm(x, self.tensors["model.norm.weight"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("ids", type=pathlib.Path, help="token ids between white space")
    parser.add_argument("--policy", default="lazyllm")
    parser.add_argument("--tokens", type=int, default=8, help="how many tokens to generate")
    parser.add_argument("--chunk", type=int, default=0, help="how many tokens of the prompt to read at a time")
    parser.add_argument("--fork", type=int, default=0, help="how many tokens at the beginning are a document; a fork of its session reads the rest")
    parser.add_argument("--fused", action="store_true", help="show the policy queries and keys instead of probabilities")
    flags = parser.parse_args()

    config, tensors = load(flags.model)
    prompt = [int(i) for i in flags.ids.read_text().split()]
    library = lp.Library(flags.library)
    s = Sequence(config, tensors, library.session(flags.policy, config["num_hidden_layers"], config["max_position_embeddings"]))
    trace = s.session.trace(sys.stdout)
    read = 0
    if 0 < flags.fork < len(prompt):
        s.forward(prompt[: flags.fork], lp.PREFILL, 0, flags.fused)
        s = s.fork()
        s.session.trace(trace)
        read = flags.fork
    while 0 < flags.chunk < len(prompt) - read:
        s.forward(prompt[read : read + flags.chunk], lp.PREFILL, 0, flags.fused)
        read += flags.chunk
    logits = s.logits(s.forward(prompt[read:], lp.PREFILL, 1, flags.fused))
    trace.write(prompt, logits)
    for _ in range(1, flags.tokens):
        ids = [int(np.argmax(logits))]
        logits = s.logits(s.forward(ids, lp.DECODE, 1, flags.fused))
        trace.write(ids, logits)
    cost = s.session.statistics
    print(f"{cost.rows} rows computed, {cost.revived} of them revived; the dense model computes {cost.dense_rows}", file=sys.stderr)


if __name__ == "__main__":
    main()
