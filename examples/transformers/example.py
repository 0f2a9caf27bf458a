# SPDX-License-Identifier: MIT
"""The lines of README.md, in one program that runs: example.py MODEL (a folder, or a model's name)."""

import copy
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import lazyprune

model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
document = "The old council met in the hall beside the river. " * 40
inputs = tokenizer(document + "Where did it meet?", return_tensors="pt")

# One line.
with lazyprune.prune(model, "lazyllm --stages 2:0.5,4:0.5") as pruned:
    answer = model.generate(**inputs, max_new_tokens=8, do_sample=False)
print(tokenizer.decode(answer[0, inputs.input_ids.shape[1] :]))
print(pruned.statistics.rows, "rows of", pruned.statistics.dense_rows)

# Several prompts.
tokenizer.pad_token, tokenizer.padding_side = tokenizer.eos_token, "left"
batch = tokenizer([document + "Where?", document + document + "When did they meet?"], return_tensors="pt", padding=True)
with lazyprune.prune(model, "lazyllm --stages 2:0.5,4:0.5"):
    answers = model.generate(**batch, max_new_tokens=8, do_sample=True, top_p=0.9)

# A conversation: the second turn continues the cache of the first.
with lazyprune.prune(model, "lazyllm --stages 2:0.5,4:0.5") as pruned:
    cache = pruned.cache()
    first = model.generate(**inputs, max_new_tokens=8, cache=cache)
    turn = torch.cat([first, tokenizer(" And who?", return_tensors="pt", add_special_tokens=False).input_ids], 1)
    second = model.generate(turn, max_new_tokens=8, cache=cache)

# One document, many questions: the layers below the first pruning layer read the document once, and each question continues a copy.
with lazyprune.prune(model, "lazyllm --stages 4:0.3") as pruned:
    text = tokenizer(document, return_tensors="pt").input_ids
    read = pruned.read(text)
    for question in ("Where did it meet?", "Who met?"):
        asked = tokenizer(question, return_tensors="pt", add_special_tokens=False).input_ids
        model.generate(torch.cat([text, asked], 1), max_new_tokens=8, cache=copy.deepcopy(read))


# Your own scorer: the attention of the loudest head.
def loudest_head(attention: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """attention (heads, active) of the last token, positions (active) in the text -> importance (active)"""
    return attention.amax(0)


with lazyprune.prune(model, "lazyllm --stages 2:0.5,4:0.5", scorer=loudest_head):
    model.generate(**inputs, max_new_tokens=8)

# Your own schedule, which the policy's text names: it keeps half of the tokens after three layers.
lazyprune.shared_library().add_schedule("halves", lambda layer, scores: layer.active // 2 if layer.done == 3 else None, first=3)
with lazyprune.prune(model, "custom --schedule halves"):
    model.generate(**inputs, max_new_tokens=8)
