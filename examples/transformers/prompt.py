# SPDX-License-Identifier: MIT
"""A long prompt to a model of transformers, plain and pruned: the answers, and the times to their first tokens.

prompt.py MODEL FILE [--gguf FILE_OF_THE_MODEL] [--policy "lazyllm --stages 9:0.7,19:0.7" --policy ...] [--tokens N] [--press NAME --ratio R]

`--press` also runs the prompt under a press of kvpress (https://github.com/NVIDIA/kvpress), which must be installed.
"""

import argparse
import contextlib
import pathlib
import time

import torch
import transformers

import lazyprune


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a folder, or a model's name")
    parser.add_argument("file", type=pathlib.Path, help="the user's turn: a long text that ends with a question")
    parser.add_argument("--gguf", help="the file in that folder, where the model is one of GGUF")
    parser.add_argument("--policy", action="append")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--press", help="SnapKVPress, ExpectedAttentionPress, ...")
    parser.add_argument("--ratio", type=float, default=0.7, help="of keys and values, that the press drops")
    flags = parser.parse_args()

    transformers.utils.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(flags.model, gguf_file=flags.gguf)
    model = transformers.AutoModelForCausalLM.from_pretrained(flags.model, gguf_file=flags.gguf, dtype="auto")
    chat = [{"role": "user", "content": flags.file.read_text()}]
    if tokenizer.chat_template:
        inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True).to(model.device)
    else:
        inputs = tokenizer(chat[0]["content"], return_tensors="pt").to(model.device)
    tokens = inputs["input_ids"].shape[1]

    ways = {"transformers alone": contextlib.nullcontext}
    for policy in flags.policy or ["lazyllm"]:
        ways[policy] = lambda policy=policy: lazyprune.prune(model, policy)
    if flags.press:
        import kvpress

        ways[f"kvpress {flags.press}, {flags.ratio:.0%} dropped"] = lambda: getattr(kvpress, flags.press)(flags.ratio)(model)
    for name, way in ways.items():
        with way():
            begin = time.perf_counter()
            model.generate(**inputs, max_new_tokens=1, do_sample=False)
            seconds = time.perf_counter() - begin
            answer = model.generate(**inputs, max_new_tokens=flags.tokens, do_sample=False)
        print(f"{name}: first token of {tokens} after {seconds:.2f} s")
        print(f"  {tokenizer.decode(answer[0, tokens:], skip_special_tokens=True)!r}")


if __name__ == "__main__":
    main()
