#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch, through transformers with its scaled dot product attention (pip install torch transformers)."""
import time

import peer
import torch
import transformers


class PyTorch(peer.Peer):
    name = "PyTorch"
    types = ("BF16", "F32")

    @staticmethod
    def version():
        return f"torch {torch.__version__}, transformers {transformers.__version__}"

    def __init__(self, request):
        torch.set_num_threads(request.threads)
        kind = torch.float32 if request.type == "F32" else torch.bfloat16
        self.model = transformers.AutoModelForCausalLM.from_pretrained(request.hugging_face, dtype=kind, attn_implementation="sdpa").eval()

    @torch.inference_mode()
    def read(self, ids, cache=None):
        return self.model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True, logits_to_keep=1)

    def times(self, ids, count):
        start = time.perf_counter()
        cache = self.read(ids).past_key_values
        read = time.perf_counter()
        for _ in range(count):
            cache = self.read(ids[:1], cache).past_key_values
        return read - start, (time.perf_counter() - read) / max(count, 1)

    def logits(self, ids):
        return self.read(ids).logits[0, -1].float().tolist()


if __name__ == "__main__":
    peer.main(PyTorch)
