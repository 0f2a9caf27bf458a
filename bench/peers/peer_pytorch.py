#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch, through transformers with its scaled dot product attention (pip install torch transformers)."""
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
        read = self.model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True, logits_to_keep=1)
        self.cache = read.past_key_values
        return read.logits[0, -1]

    def times(self, ids, count):
        self.cache = None  # freeing the cache of an earlier prompt is not part of this one
        return peer.seconds_of(lambda: self.read(ids), lambda _: self.read(ids[:1], self.cache), count)

    def logits(self, ids):
        return self.read(ids).float().tolist()


if __name__ == "__main__":
    peer.main(PyTorch)
