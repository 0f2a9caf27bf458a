#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds the retrieval heads of SmolLM2-135M-Instruct by their published recipe (arXiv 2404.15574).

  retrieval_heads.py MODEL.gguf SAMPLES.jsonl... > heads.csv      (pip: torch, transformers, gguf)

The samples are of needle tasks (make_tasks.py). The model reads the prompt, RULER's `answer_prefix` and the first expected answer; it generates
nothing. In the step that predicts a token of the answer, a head copies this token if its largest probability is on the same token in the hidden
answer. A head's score is the share of the answer's distinct tokens that it copies, averaged over the samples. In the paper, a head with a score
above 0.1 is a retrieval head. heads.csv has a line for each head, the highest score first. Layers and heads count from 0.
"""
import csv
import json
import os
import sys
from collections import defaultdict

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def copied(model, tokenizer, sample):
    """Yields (layer, head, share of the answer's tokens that the head copies)."""
    answer = sample["outputs"][0]
    chat = [{"role": "user", "content": sample["input"]}]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) + sample["answer_prefix"] + " "
    prompt = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    ids, begin = prompt["input_ids"], text.index(answer)
    needle = {i for i, (first, end) in enumerate(prompt["offset_mapping"]) if end > begin and first < begin + len(answer)}
    asked = tokenizer(answer, add_special_tokens=False)["input_ids"]
    steps = torch.tensor([ids + asked[:-1]])
    with torch.no_grad():
        before = model(steps[:, : len(ids) - 1], use_cache=True, logits_to_keep=1).past_key_values
        attentions = model(steps[:, len(ids) - 1 :], past_key_values=before, use_cache=True, output_attentions=True).attentions
    for layer, attention in enumerate(attentions):
        for head, places in enumerate(attention[0].argmax(-1).tolist()):
            got = {token for token, place in zip(asked, places, strict=True) if place in needle and ids[place] == token}
            yield layer, head, len(got) / len(set(asked))


def main():
    folder, file = os.path.split(sys.argv[1])
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, attn_implementation="eager", dtype=torch.float32).eval()
    shares = defaultdict(list)
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as samples:
            for line in samples:
                for layer, head, share in copied(model, tokenizer, json.loads(line)):
                    shares[layer, head].append(share)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["layer", "head", "score"])
    scores = {place: sum(all_shares) / len(all_shares) for place, all_shares in shares.items()}
    table.writerows([*place, f"{scores[place]:.3f}"] for place in sorted(scores, key=scores.get, reverse=True))


if __name__ == "__main__":
    main()
