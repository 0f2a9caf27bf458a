# SPDX-License-Identifier: MIT
"""The evidence for the policies. Each layer computes its evidence on its device. If several ranks share the heads, one sum over the ranks gives
the evidence of all heads. One copy brings the evidence of all texts to the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from . import c
from .ranks import Ranks

if TYPE_CHECKING:
    from .step import Part, Step


def _float(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor in float32, or in float64 if it has that type. Scores decide which tokens stay, so half precision is not enough."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def probabilities(
    query: torch.Tensor, keys: torch.Tensor, seen: torch.Tensor | None, scaling: float
) -> torch.Tensor:
    """Returns the attention (heads, queries, active) of queries (heads, queries, head_dim) to keys (kv_heads, active, head_dim). This is one
    more product, since fused attention yields no probabilities. `seen` (queries, active) says which tokens each query sees. None means that each
    query sees all tokens."""
    heads, queries, head_dim = query.shape
    grouped = _float(query).reshape(keys.shape[0], -1, head_dim)  # the query heads of a group follow each other
    with torch.autocast(query.device.type, enabled=False):  # autocast would compute the product in half precision
        logits = (grouped @ _float(keys).mT).reshape(heads, queries, -1) * scaling
    if seen is not None:
        logits = logits.masked_fill(~seen, float("-inf"))
    return logits.softmax(-1)


def probed(
    plan: c.Plan, ranks: Ranks, query: torch.Tensor, keys: torch.Tensor, seen: torch.Tensor | None, scaling: float
) -> torch.Tensor:
    """Returns the rows (probes, active) of attention that plan.probes lists, each reduced over the queries. Only the probed heads of this
    rank are computed. The rows of other heads are zero. The other arguments are those of `probabilities`."""
    most, share = int(plan.probes["head"].max()), query.shape[0]
    if most >= share * ranks.count:
        raise ValueError(f"probe of layer {plan.layer}: expected a head below {share * ranks.count}, found {most}")
    probed_heads = plan.probes["head"].astype(np.int64) - share * ranks.rank
    here = np.flatnonzero((probed_heads >= 0) & (probed_heads < share))
    out = _float(query).new_zeros(len(probed_heads), keys.shape[1])
    if len(here):
        heads, row = np.unique(probed_heads[here], return_inverse=True)
        kv_heads = heads * keys.shape[0] // share
        p = probabilities(query[heads.tolist()], keys[kv_heads.tolist()], seen, scaling)
        ways = {c.LAST: lambda x: x[-1], c.MEAN: lambda x: x.mean(0), c.MAX: lambda x: x.amax(0)}
        for to, r, over in zip(here.tolist(), row.tolist(), plan.probes["over_queries"][here].tolist()):
            out[to] = ways[over](p[r])
    return out


def look(
    step: Step, part: Part, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, window: int | None, scaling: float
) -> dict[str, Any]:
    """Returns the evidence of the layer entered. query: (heads, finish, head_dim). keys, values: (kv_heads, active, head_dim). The heads are
    this rank's. The sum of all ranks' arrays is the evidence of all heads."""
    kind, ranks = part.plan.wants, step.decoder.ranks
    shown: dict[str, Any] = {"kind": kind}
    if kind in (c.ATTENTION, c.WINDOW, c.VALUES):
        queries = part.plan.window if kind == c.WINDOW else 1
        rows = part.rows.last(queries)
        seen = part.visible(rows, window, keys.device) if queries > 1 or window is not None else None
        p = probabilities(query[:, query.shape[1] - queries :], keys, seen, scaling)
        if step.scorer is not None:
            scores = step.scorer(ranks.sum(ranks.padded(p[:, 0], 0)), part.active.tensor(keys.device))
            found = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
            if found != (len(part.active),):
                raise ValueError(f"scorer: expected a tensor ({len(part.active)},), found {found}")
            p = ranks.first(scores)[None, None]
        elif part.plan.over_heads == c.MEAN:
            p = p.mean(0, keepdim=True) / ranks.count
        else:
            # The library itself takes the maximum of the ranks' maxima.
            p = ranks.padded(p.amax(0, keepdim=True) if part.plan.over_heads == c.MAX else p, 0)
        shown.update(heads=p.shape[0], queries=queries, stride=len(part.active), data=p.transpose(0, 1))
    if kind == c.PROBES:
        queries = part.plan.probe_rows
        seen = part.visible(part.rows.last(queries), window, keys.device) if queries > 1 or window is not None else None
        data = probed(part.plan, ranks, query[:, query.shape[1] - queries :], keys, seen, scaling)
        shown.update(stride=len(part.active), data=data)
    if kind == c.VALUES:
        values = ranks.padded(values, 0)
        shown.update(kv_heads=values.shape[0], head_dim=values.shape[2], values_stride=values.shape[0] * values.shape[2])
        shown.update(values=values.transpose(0, 1))
    if kind == c.KEYS:
        keys = ranks.padded(keys, 0)
        shown.update(kv_heads=keys.shape[0], head_dim=keys.shape[2], stride=keys.shape[0] * keys.shape[2], data=keys.transpose(0, 1))
    return shown


def to_host(step: Step, x: torch.Tensor) -> list[dict[str, Any]]:
    """Returns the evidence of each text in the form that the library reads, summed over the ranks. x (rows, hidden): the layer's output."""
    shown, ranks = [], step.decoder.ranks
    for part in step.parts:
        if part.plan.wants == c.HIDDEN:
            rows = ranks.first(x[part.first : part.first + len(part.rows)])
            part.shown = {"kind": c.HIDDEN, "hidden": x.shape[1], "stride": x.shape[1], "data": rows}
        elif part.plan.wants == c.IDS:
            part.shown = {"kind": c.IDS, "ids": part.text.ids, "ids_count": len(part.text.ids)}
        shown.append(part.shown)
        part.shown = {}
    tensors = [(text, name) for text in shown for name in ("data", "values") if isinstance(text.get(name), torch.Tensor)]
    if tensors:
        flat = ranks.sum(torch.cat([text[name].reshape(-1) for text, name in tensors])).float().cpu().numpy()
        if step.scorer is not None and np.isnan(flat).any():
            raise ValueError("scorer: expected numbers, found NaN")
        first = 0
        for text, name in tensors:
            count = text[name].numel()
            text[name] = flat[first : first + count]
            first += count
    return shown
