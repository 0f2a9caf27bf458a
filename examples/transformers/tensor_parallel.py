# SPDX-License-Identifier: MIT
"""A model whose heads are split over several processes: torchrun --nproc-per-node 2 tensor_parallel.py MODEL (a folder, or a model's name)."""

import sys
from datetime import timedelta

import torch
import torch.distributed
from transformers import AutoModelForCausalLM, AutoTokenizer

import lazyprune

MODEL = sys.argv[1]
# No rank waits longer than this for another one. transformers waits for hours if it makes the group itself.
torch.distributed.init_process_group(timeout=timedelta(minutes=5))
model = AutoModelForCausalLM.from_pretrained(MODEL, tp_plan="auto")
tokenizer = AutoTokenizer.from_pretrained(MODEL)
inputs = tokenizer("The old council met in the hall beside the river. " * 40 + "Where did it meet?", return_tensors="pt").to(model.device)
try:
    with lazyprune.prune(model, "lazyllm --stages 2:0.5,4:0.5") as pruned:
        answer = model.generate(**inputs, max_new_tokens=8, do_sample=False)
except lazyprune.RanksError as error:
    sys.exit(str(error))
if torch.distributed.get_rank() == 0:
    print(tokenizer.decode(answer[0, inputs.input_ids.shape[1] :]))
    print(pruned.statistics.rows, "rows of", pruned.statistics.dense_rows)
torch.distributed.destroy_process_group()
