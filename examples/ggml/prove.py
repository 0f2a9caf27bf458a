#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the engine on ggml with lazyprune and with llama.cpp. The exit code is 0 if all checks passed. It is 77 if they passed, but the
checks of SmolLM2 were skipped because its file is missing.

  prove.py [--engine build/ggml] [--program build/examples/lazyprune] [--smollm2 MODEL.gguf] [--threads 1]

1. The bundled model in F32: on 20 prompts, each read in four ways, the engine keeps the same tokens as `lazyprune run`. On five prompts,
   the scores and logits are also compared with lazyprune's reference in float64.
2. Every preset, and every kind of evidence that the library's own scorers ask for: on one prompt, the engine and `lazyprune run` keep the same
   tokens.
3. SmolLM2-135M-Instruct on 5 prompts with a needle each. With weights converted to F32, the engine keeps the same tokens as `lazyprune run`, or
   the first difference is at a choice whose margin is below MARGIN. With weights in Q4_1, ggml rounds activations to 8 bits, and lazyprune does
   not. The engine must then find the needles that `lazyprune run` finds. The share of tokens that both programs keep is printed.
4. If all tokens are kept, the engine's logits equal llama.cpp's.

write_gguf.py writes the files in F32 to the engine's folder. That script needs the packages numpy and gguf.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
POCKET = os.path.join(ROOT, "examples/pocket/model")
TASKS = "single_doc_qa multi_doc_qa passage_retrieval few_shot code_completion".split()
STAGES = "--stages 3:0.3,5:0.1"
OTHERS = ["lazyllm_blocks --stages 2:0.4,4:0.3", "static --stages 2:0.4,4:0.3", "random", "streaming", "fastv", "pyramid_drop",
          "tova --schedule budget:after=2,tokens=100", "pyramid_kv", "prompt_distill --schedule budget:after=2,tokens=300", "dense",
          "lazyllm --stages 2:0.4,4:0.5 --scorer value_weighted_attention", "lazyllm --stages 2:0.4,4:0.5 --scorer key_norm",
          "lazyllm --stages 2:0.4,4:0.5 --scorer accumulated_attention",
          "lazyllm --stages 2:0.4,4:0.5 --scorer prompt_window_attention:window=16", "lazyllm --stages 2:0.4,4:0.5 --scorer recency",
          "lazyllm --stages 2:0.4,4:0.5 --scorer calibrated_attention:window=16,following=1,probes=2.1.0.last.max.next@1/2.1.3.mean.mean@-0.5/4.3.2.max.max@1",
          "lazyllm --stages 2:0.4,4:0.5 --decode only", "lazyllm --stages 2:0.4,4:0.5 --store bounded:rows=200"]
NEEDLE_STAGES = "--stages 21:0.3"  # 400 answers show no loss with these stages (bench/smollm2)
MARGIN = 1e-4  # after thirty layers, F32 sums in another order may differ by this much
ROUNDING = 1e-6  # the largest r.m.s. difference of logits, relative to the logits, that rounding explains


class Proof:
    def __init__(self, options, folder):
        self.engine = os.path.join(options.engine, "lazyprune_ggml")
        self.bench = os.path.join(options.engine, "lazyprune_ggml_bench")
        self.program, self.threads, self.folder = options.program, str(options.threads), folder
        self.failed = 0

    def file(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    @staticmethod
    def run(command, codes=(0,), **options):
        done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
        if done.returncode not in codes:
            sys.exit(f"{' '.join(command[:4])} ...: exit code {done.returncode}\n{done.stderr[-2000:]}")
        return done

    def tell(self, what, good, found=""):
        print(("as expected: " if good else "NOT AS EXPECTED: ") + what + (f" ({found})" if found else ""), flush=True)
        self.failed += not good

    def tokenize(self, requests, model):
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        return [json.loads(line)["ids"] for line in self.run([self.program, "tokenize", "-m", model, "--jsonl", "-"], input=lines).stdout.splitlines()]

    def ours(self, model, ids, policy, *flags):
        """Runs the engine. Returns the path of its trace."""
        ids = self.file("ids.txt", " ".join(map(str, ids)))
        command = [self.engine, "-m", model, "--ids", ids, "--policy", policy, "--threads", self.threads, *flags]
        return self.file("engine.jsonl", self.run(command).stdout)

    def theirs(self, model, ids, policy, tokens, *flags):
        path = self.file("program.jsonl")
        name, *rest = policy.split()
        self.run([self.program, "run", "-m", model, "--ids", ",".join(map(str, ids)), "--policy", name, *rest, "-n", str(tokens),
                  "--ignore-eos", "-t", self.threads, "--trace", path, *flags])
        return path

    def compare(self, *arguments):
        """Returns whether both traces agree, and the output of `lazyprune compare`."""
        done = self.run([self.program, "compare", *arguments], codes=(0, 2))
        return done.returncode == 0, done.stdout


def pocket_prompts(proof):
    requests = []
    for task in TASKS:
        with open(os.path.join(ROOT, f"examples/pocket/prompts/pocket_{task}.jsonl"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        requests += [{"text": records[7 * i]["context"] + " " + records[7 * i]["input"]} for i in range(4)]
    return proof.tokenize(requests, POCKET)


def prove_pocket(proof, model):
    prompts = pocket_prompts(proof)
    exact = ["--kv", "f32", "--tokens", "8"]
    policy = "lazyllm " + STAGES
    for name, flags in (("at once", []), ("in chunks of 250", ["--chunk", "250"]), ("without flash attention", ["--flash-attention", "off"]),
                        ("after chunks that are taken back", ["--forget", "50"])):
        alike = [proof.compare(proof.ours(model, ids, policy, *exact, *flags), proof.theirs(POCKET, ids, policy, 8, "--dtype", "f32"))[0]
                 for ids in prompts]
        proof.tell(f"{policy}, read {name}: keeps the tokens that lazyprune run keeps, in 8 steps", all(alike), f"{sum(alike)} of {len(alike)} prompts")
    held = [proof.compare(proof.ours(model, ids, policy, *exact, "--full"), "--against", POCKET, *STAGES.split())[0] for ids in prompts[::4]]
    proof.tell("selection, scores and logits are those of the reference in float64", all(held), f"{sum(held)} of {len(held)} prompts")
    for policy in OTHERS:
        alike = [proof.compare(proof.ours(model, prompts[1], policy, *exact, *flags),
                               proof.theirs(POCKET, prompts[1], policy, 8, "--dtype", "f32"))[0]
                 for flags in ([], ["--ubatch", "100"], ["--chunk", "333"])]
        proof.tell(f"{policy}: keeps the tokens that lazyprune run keeps, with any ubatch and chunks", all(alike))


def needles(proof, smollm2):
    """Returns prompts in the chat template, as token ids, and their answers."""
    samples = []
    for task, count in (("niah_single_1", 2), ("niah_single_2", 3)):
        path = proof.file(task + ".jsonl")
        proof.run([sys.executable, os.path.join(ROOT, "bench/smollm2/make_tasks.py"), task, "1000", str(count), "2026", path, "--program",
                   proof.program, "--model", smollm2])
        with open(path, encoding="utf-8") as file:
            samples += [json.loads(line) for line in file]
    chats = [{"messages": [{"role": "user", "content": sample["input"]}], "add_generation_prompt": True} for sample in samples]
    ids = proof.tokenize(chats, smollm2)
    begun = proof.tokenize([{"text": sample.get("answer_prefix", "")} for sample in samples], smollm2)
    return [(first + second, sample["outputs"]) for first, second, sample in zip(ids, begun, samples)]


def steps_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def prove_smollm2(proof, smollm2, widened):
    policy = "lazyllm " + NEEDLE_STAGES
    tokens, strict, found, kept = 16, [], [], []
    for ids, answers in needles(proof, smollm2):
        theirs = proof.theirs(smollm2, ids, policy, tokens, "--dtype", "f32", "--exact")
        alike, said = proof.compare(proof.ours(widened, ids, policy, "--kv", "f32", "--tokens", str(tokens)), theirs)
        margin = next((word for line in said.splitlines() if "margin" in line for word in line.split()[-20:]
                       if word.replace(".", "").replace("e-", "").isdigit()), None)
        strict.append("alike" if alike else f"differs first at a margin of {margin}")
        if not alike and (margin is None or float(margin) > MARGIN):
            strict[-1] += ", too wide"
        theirs = steps_of(theirs)
        ours = steps_of(proof.ours(smollm2, ids, policy, "--tokens", str(tokens)))
        text = [json.loads(proof.run([proof.program, "tokenize", "-m", smollm2, "--ids", ",".join(str(step["next"]) for step in steps), "--json"]).stdout)["text_plain"]
                for steps in (theirs, ours)]
        found.append([all(answer in words for answer in answers) for words in text])
        first, second = (set(steps[0]["layers"][-1]["active"]) for steps in (theirs, ours))
        kept.append(len(first & second) / len(first))
    proof.tell(f"SmolLM2 in F32, {policy}: keeps the tokens that lazyprune run keeps, in {tokens} steps", not any("wide" in s for s in strict), "; ".join(strict))
    proof.tell("SmolLM2 in Q4_1 finds the needles that lazyprune run finds", all(ours >= theirs for theirs, ours in found),
               f"lazyprune run {sum(f[0] for f in found)} of {len(found)}, the engine {sum(f[1] for f in found)}; after the last stage, "
               f"{min(kept):.1%} to {max(kept):.1%} of the kept tokens are the same")


def prove_logits(proof, models):
    for model, ids, kv, flash in models:
        command = [proof.bench, "-m", model, "--logits", "--threads", proof.threads, "--prompt", "300", "--kv", kv, "--flash-attention", flash]
        said = proof.run(command + (["--ids", ids] if ids else [])).stdout.splitlines()
        apart = [0.0 if line.endswith("every bit") else float(line.split(" of the logits")[0].split()[-1]) for line in said[1:3]]
        what = f"{os.path.basename(model)}, keys and values {kv}, flash attention {flash}: the logits equal llama.cpp's"
        proof.tell(what, max(apart) <= ROUNDING, "every bit" if max(apart) == 0 else f"{max(apart):.1e} apart")


def main():
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    parser = argparse.ArgumentParser(description="Compares the engine on ggml with lazyprune and with llama.cpp.")
    parser.add_argument("--engine", default=os.path.join(ROOT, "build/ggml"), help="the folder where examples/ggml was built")
    parser.add_argument("--program", default=os.path.join(ROOT, "build/examples/lazyprune"))
    parser.add_argument("--smollm2", default=os.path.join(cache, "lazyprune/SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--also", nargs="*", default=[], metavar="MODEL.gguf", help="more files whose logits are compared with llama.cpp's")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        proof = Proof(options, folder)
        pocket, widened = (os.path.join(options.engine, name) for name in ("pocket-F32.gguf", "smollm2-F32.gguf"))
        for source, out in ((POCKET, pocket), (options.smollm2, widened)):
            if os.path.exists(source) and not os.path.exists(out):
                proof.run([sys.executable, os.path.join(HERE, "write_gguf.py"), source, out])
        prove_pocket(proof, pocket)
        ids = proof.file("prompt.txt", " ".join(map(str, pocket_prompts(proof)[1])))
        models = [(pocket, ids, "f16", "on"), (pocket, ids, "f32", "off")]
        if os.path.exists(widened):
            prove_smollm2(proof, options.smollm2, widened)
            models += [(widened, None, "f32", "off"), (options.smollm2, None, "f16", "on")]
        else:
            print("skipped: needs SmolLM2-135M-Instruct.Q4_1.gguf (sh examples/smollm2.sh fetches it)")
        prove_logits(proof, models + [(model, None, "f16", "on") for model in options.also])
    sys.exit(f"{proof.failed} checks not as expected" if proof.failed else 0 if os.path.exists(widened) else 77)


if __name__ == "__main__":
    main()
