# SPDX-License-Identifier: MIT
"""Compares SmolLM2-135M-Instruct in transformers with `lazyprune run`, both in float32, on five prompts of 1,700 tokens with a needle. It
compares the kept tokens and the answers. Run it by hand, since it takes minutes.

smollm2.py FOLDER_OF_THE_PACKAGE PROGRAM REPOSITORY MODEL.gguf

Two programs in float keep the same tokens if the last kept score and the first dropped score differ by more than the rounding of scores. The trace
records this difference as the margin of each choice. If the programs keep different tokens, this is an error only if the margin is above MARGIN.
MARGIN is a hundred times the rounding of a float, because rounding errors may add up over thirty layers. Different answers are always an error.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

package, program, repository, gguf = sys.argv[1:5]
sys.path.insert(0, package)

try:
    import torch
    import transformers
except ImportError:
    print("skipped: needs python3 with torch and transformers")
    sys.exit(77)

import lazyprune

POLICIES = ("lazyllm --stages 15:0.1,21:0.3", "lazyllm_blocks --stages 9:0.5,15:0.1 --decode dense")
NEW_TOKENS = 26
MARGIN = 1e-5


def run(*words):
    done = subprocess.run([program, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"smollm2: {' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def first_difference(ours, theirs):
    """Returns (step, layer, margin of the last choice before that layer), or None if there is no difference. The margin is inf
    if no choice came before."""
    for a, b in zip(ours, theirs):
        if a["tokens"] != b["tokens"]:
            sys.exit(f"smollm2: step {a['step']}: expected the same tokens, found others")
        for layer, (x, y) in enumerate(zip(a["layers"], b["layers"])):
            if any(x[name] != y[name] for name in ("active", "rows", "revived")):
                margins = [m for m in b["margin"][:layer] if m is not None]
                return a["step"], layer, margins[-1] if margins else math.inf
    return None


def main():
    path = pathlib.Path(gguf)
    model = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    alike = parted = steps = 0
    with tempfile.TemporaryDirectory() as folder:
        samples, messages, trace = f"{folder}/samples.jsonl", f"{folder}/messages.json", f"{folder}/trace.jsonl"
        maker = f"{repository}/bench/smollm2/make_tasks.py"
        make = [sys.executable, maker, "niah_single_2", "1900", "5", "17", samples, "--program", program, "--model", gguf]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        for i, sample in enumerate(map(json.loads, pathlib.Path(samples).read_text().splitlines())):
            pathlib.Path(messages).write_text(json.dumps([{"role": "user", "content": sample["input"]}]))
            ids = json.loads(run("tokenize", "-m", gguf, "--messages", messages, "--json"))["ids"]
            for policy in POLICIES:
                recorder = lazyprune.TraceRecorder()
                with lazyprune.prune(model, policy, trace=recorder):
                    whole = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
                    out = model.generate(**whole, max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=None)
                flags = ["--policy", *policy.split(), "--dtype", "f32", "--exact", "--trace", trace]
                run("run", "-m", gguf, "--ids", ",".join(map(str, ids)), "-n", str(NEW_TOKENS), "--ignore-eos", *flags)
                theirs = [json.loads(line) for line in pathlib.Path(trace).read_text().splitlines()]
                told = run("tokenize", "-m", gguf, "--ids", ",".join(map(str, out[0, len(ids) :].tolist())), "--json")
                text = json.loads(told)["text"]
                expected = [step["next"] for step in theirs]
                found = all(answer in text for answer in sample["outputs"])
                same = out[0, len(ids) :].tolist() == expected
                difference = first_difference(recorder.steps, theirs)
                steps += difference[0] if difference else len(theirs)
                print(f"{i}, {len(ids)} tokens, {policy}: {'found' if found else 'not found'}, {'the same' if same else 'another'} text, ", end="")
                print(f"the kept sets differ first at (step, layer, margin) {difference}" if difference else "the same kept sets", flush=True)
                if not same or difference and difference[2] > MARGIN:
                    sys.exit(f"smollm2: expected the same text and kept sets (up to a margin of {MARGIN}), found others")
                alike, parted = alike + (difference is None), parted + (difference is not None)
    print(f"smollm2: {alike} of {alike + parted} runs keep the same tokens in all steps. The others differ first at margins below {MARGIN}.")
    print(f"smollm2: {steps} steps have the same tokens")


if __name__ == "__main__":
    main()
