# SPDX-License-Identifier: MIT
"""Tensor parallel: several processes (ranks) compute one model, and each has a share of the heads. Every rank has its own sessions. All
sessions see the same evidence, bit for bit, so all ranks keep the same tokens."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
import torch
import torch.distributed as dist


class RanksError(RuntimeError):
    """The ranks do not compute the same step, or a rank is lost. Its text is one line."""


class Ranks:
    """The ranks that share a model's heads: rank r has the r-th part of them. Without a group, this process alone has all heads. Then there is
    nothing to sum or to compare."""

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self._group = group
        self.rank, self.count = (dist.get_rank(group), dist.get_world_size(group)) if group is not None else (0, 1)

    def padded(self, share: torch.Tensor, dim: int) -> torch.Tensor:
        """Returns the tensor of all heads (along `dim`) in which only this rank's share is not zero. `sum` then gives all shares."""
        if self.count == 1:
            return share
        size = share.shape[dim]
        whole = share.new_zeros([n * self.count if d == dim else n for d, n in enumerate(share.shape)])
        whole.narrow(dim, self.rank * size, size).copy_(share)
        return whole

    def first(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the tensor on the first rank, and zeros on the others. `sum` then gives the tensor of the first rank."""
        return tensor if self.rank == 0 else torch.zeros_like(tensor)

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the sum over the ranks. The first rank computes it and sends it to the others. So all ranks have the same bits, for every
        backend of torch.distributed."""
        if self.count > 1:
            root = dist.get_global_rank(self._group, 0)
            dist.reduce(tensor, root, group=self._group)
            dist.broadcast(tensor, root, group=self._group)
        return tensor

    def expect_same(self, what: str, digest: bytes, device: torch.device) -> None:
        """Raises RanksError on every rank if the digests (8 bytes) differ. `what` names for the error what was digested."""
        if self.count == 1:
            return
        mine = torch.from_numpy(np.frombuffer(digest, np.int64).copy()).to(device)
        found = [torch.empty_like(mine) for _ in range(self.count)]
        dist.all_gather(found, mine, group=self._group)
        digests = torch.cat(found).tolist()
        others = [str(rank) for rank, other in enumerate(digests) if other != digests[0]]
        if others:
            name = f"rank {others[0]}" if len(others) == 1 else f"ranks {', '.join(others)}"
            raise RanksError(f"tensor parallel: expected the same {what} on every rank, found others on {name} than on rank 0")

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Turns the errors that torch.distributed raises for a lost or late rank into RanksError."""
        try:
            yield
        except RuntimeError as error:
            # The collectives of gloo raise a plain RuntimeError, whose text names the source file.
            if self.count == 1 or not (isinstance(error, dist.DistError) or "gloo" in str(error)):
                raise
            line = next(iter(str(error).splitlines()), type(error).__name__)
            raise RanksError(f"tensor parallel: rank {self.rank} lost another of the {self.count} ranks: {line}") from error


class Digest:
    """Digests arrays one after the other. The result depends on their order, lengths and bytes."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=8)

    def add(self, arrays: Iterable[np.ndarray]) -> None:
        for array in arrays:
            self._hash.update(len(array).to_bytes(8, "little"))
            self._hash.update(np.ascontiguousarray(array))

    def bytes(self) -> bytes:
        return self._hash.digest()
