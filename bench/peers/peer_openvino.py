#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""OpenVINO GenAI (pip install openvino-genai optimum-intel).

optimum-intel converts the Hugging Face folder when a type is first used: MODELS/SHAPE-openvino-FORMAT/. In INT8 and INT4 the weights have 8 or 4
bits, and activations are bf16 where the processor has it, or what the plugin makes of them. GenAI has no call for logits. So the logits come from
the same file in OpenVINO's runtime, and GenAI must choose their best token.
"""
import os
import shutil
import subprocess
import sys

import numpy as np
import openvino
import openvino_genai
import peer

# The formats of optimum-intel. It has no bf16. The weights fit into fp16, and the plugin computes in bf16. Without a format, optimum-intel would
# quantize a model of more than a billion parameters to int8.
FORMATS = {"BF16": "fp16", "INT8": "int8", "INT4": "int4", "F32": "fp32"}


def converted(request):
    folder = os.path.join(request.models, f"{request.shape}-openvino-{FORMATS[request.type]}")
    if not os.path.exists(folder):
        unfinished = folder + ".unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        command = [os.path.join(os.path.dirname(sys.executable), "optimum-cli"), "export", "openvino", "-m", request.hugging_face]
        command += ["--task", "text-generation-with-past", "--weight-format", FORMATS[request.type], unfinished]
        subprocess.run(command, check=True)
        os.rename(unfinished, folder)
    return folder


class OpenVino(peer.Peer):
    name = "OpenVINO GenAI"
    types = tuple(FORMATS)

    @staticmethod
    def version():
        return f"openvino-genai {openvino_genai.__version__}"

    def __init__(self, request):
        able = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        if request.type == "BF16" and "BF16" not in able:
            raise SystemExit("OpenVINO does not compute in bf16 on this processor")
        precision = "bf16" if request.type != "F32" and "BF16" in able else "f32"
        self.options = {"INFERENCE_NUM_THREADS": request.threads, "INFERENCE_PRECISION_HINT": precision}
        self.folder = converted(request)
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.max_num_batched_tokens = request.tokens  # a prompt in one step
        scheduler.enable_prefix_caching = False
        self.pipeline = openvino_genai.LLMPipeline(self.folder, "CPU", scheduler_config=scheduler, **self.options)

    def generate(self, ids, count):
        given = openvino_genai.TokenizedInputs(openvino.Tensor(np.array([ids])), openvino.Tensor(np.ones((1, len(ids)), dtype=np.int64)))
        return self.pipeline.generate(given, max_new_tokens=count, ignore_eos=True, do_sample=False)

    def times(self, ids, count):
        metrics = self.generate(ids, count + 1).perf_metrics
        return metrics.get_ttft().mean / 1000, metrics.get_tpot().mean / 1000 if count else 0.0

    def logits(self, ids):
        model = openvino.Core().compile_model(os.path.join(self.folder, "openvino_model.xml"), "CPU", self.options)
        given = {"input_ids": [ids], "attention_mask": [[1] * len(ids)], "position_ids": [list(range(len(ids)))], "beam_idx": [0]}
        names = {name for port in model.inputs for name in port.names}
        arrays = {name: np.array(given[name], dtype=np.int32 if name == "beam_idx" else np.int64) for name in given if name in names}
        logits = model.create_infer_request().infer(arrays)[0][0, -1]
        chosen = self.generate(ids, 1).tokens[0][0]
        if logits[chosen] < logits.max() - 0.1 * logits.std():
            raise SystemExit(f"GenAI chooses token {chosen}, which is not the best by the logits of the same file")
        return [float(value) for value in logits]


if __name__ == "__main__":
    peer.main(OpenVino)
