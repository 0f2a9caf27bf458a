#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ik_llama.cpp, the fork with faster kernels for CPUs (ik-llama-cpp-python). Its wheels use only AVX2, so install.py compiles its library for the machine.

The types that end in "repacked" interleave rows when they are loaded, as ik_llama.cpp's option -rtr does.
"""
import importlib.metadata
import os
import sys

import peer

NATIVE = os.path.join(sys.prefix, "native", "src", "libllama.so")
if os.path.exists(NATIVE):
    os.environ.setdefault("IK_LLAMA_CPP_LIB_PATH", NATIVE)

from ik_llama_cpp import _ctypes_api as ik  # noqa: E402  after its environment


class IkLlamaCpp(peer.Peer):
    name = "ik_llama.cpp"
    types = ("BF16", "Q8_0", "Q8_0 repacked", "Q4_0", "Q4_0 repacked", "Q4_K_M", "Q6_K", "F32")

    @staticmethod
    def version():
        build = "compiled for this machine" if os.environ.get("IK_LLAMA_CPP_LIB_PATH") else "its wheel, which uses only AVX2"
        return f"ik-llama-cpp-python {importlib.metadata.version('ik-llama-cpp-python')}, {build}"

    def __init__(self, request):
        ik.llama_backend_init()
        options = ik.llama_model_default_params()
        options.n_gpu_layers = 0
        options.repack_tensors = request.type.endswith("repacked")
        self.model = ik.llama_model_load_from_file(request.gguf.encode(), options)
        if not self.model:
            raise SystemExit(f"{request.gguf}: ik_llama.cpp cannot load it")
        self.vocabulary = ik.llama_vocab_n_tokens(ik.llama_model_get_vocab(self.model))
        options = ik.llama_context_default_params()
        options.n_ctx = options.n_batch = request.tokens
        options.n_threads = options.n_threads_batch = request.threads
        options.flash_attn = True
        self.context = ik.llama_init_from_model(self.model, options)
        if not self.context:
            raise SystemExit(f"ik_llama.cpp cannot make a context of {request.tokens} tokens")
        self.batch = ik.llama_batch_init(request.tokens, 0, 1)

    def decode(self, ids, position):
        """Reads the tokens at `position` and the places after it. Returns the logits after the last token."""
        self.batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            self.batch.token[i], self.batch.pos[i], self.batch.n_seq_id[i], self.batch.seq_id[i][0] = token, position + i, 1, 0
            self.batch.logits[i] = i + 1 == len(ids)
        status = ik.llama_decode(self.context, self.batch)
        if status != 0:
            raise SystemExit(f"llama_decode of {len(ids)} tokens: {status}")
        return ik.llama_get_logits_ith(self.context, len(ids) - 1)

    def times(self, ids, count):
        ik.llama_kv_cache_clear(self.context)
        return peer.seconds_of(lambda: self.decode(ids, 0), lambda i: self.decode(ids[:1], len(ids) + i), count)

    def logits(self, ids):
        ik.llama_kv_cache_clear(self.context)
        return self.decode(ids, 0)[: self.vocabulary]


if __name__ == "__main__":
    peer.main(IkLlamaCpp)
