# SPDX-License-Identifier: MIT
"""Compares the bundled model in transformers with `lazyprune run`. On 20 prompts, both keep, compute and revive the same tokens at every layer
of every step, and give the same answers.

traces.py FOLDER_OF_THE_PACKAGE PROGRAM REPOSITORY [TOKENS]     TOKENS: how many of each prompt's last tokens are used; 0: all
"""

import json
import pathlib
import subprocess
import sys
import tempfile

package, program, repository = sys.argv[1:4]
most = int(sys.argv[4]) if len(sys.argv) > 4 else 300
sys.path.insert(0, package)

try:
    import torch
    import transformers
except ImportError:
    print("skipped: needs python3 with torch and transformers")
    sys.exit(77)

import lazyprune

transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
MODEL = pathlib.Path(repository) / "examples/pocket/model"
TASKS = ("single_doc_qa", "multi_doc_qa", "passage_retrieval", "few_shot", "code_completion")
POLICIES = (
    "lazyllm --stages 2:0.5,4:0.3",
    "lazyllm_blocks --stages 3:0.3 --decode dense",
    "custom --scorer value_weighted_attention --stages 2:0.5",
    "pyramid_kv",
)
CHUNKS = (None, 37, 100)
NEW_TOKENS = 4
# The tolerance of logits. transformers computes RoPE and norms in float32, even in a float64 model. The reference computes them in double.
LOGITS = "1e-3"


def run(*words, text=None, codes=(0,)):
    done = subprocess.run([program, *words], capture_output=True, text=True, input=text)
    if done.returncode not in codes:
        sys.exit(f"traces: {' '.join(words[:2])}: exit code {done.returncode}: {done.stderr.strip()}{done.stdout.strip()}")
    return done


def prompts():
    requests = []
    for task in TASKS:
        lines = (pathlib.Path(repository) / f"examples/pocket/prompts/pocket_{task}.jsonl").read_text().splitlines()
        for record in (json.loads(lines[7 * i]) for i in range(4)):
            requests.append(json.dumps({"text": f"{record['context']} {record['input']}"}))
    out = run("tokenize", "--jsonl", "-", text="\n".join(requests) + "\n").stdout
    return [json.loads(line)["ids"][-most:] for line in out.splitlines()]


def main():
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float64)
    revived = 0
    with tempfile.TemporaryDirectory() as folder:
        ours, expected = f"{folder}/ours.jsonl", f"{folder}/expected.jsonl"
        for i, ids in enumerate(prompts()):
            policy, chunk = POLICIES[i % len(POLICIES)], CHUNKS[i % len(CHUNKS)]
            recorder = lazyprune.TraceRecorder(logits=True)
            with lazyprune.prune(model, policy, trace=recorder) as pruned:
                options = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "eos_token_id": None, "prefill_chunk_size": chunk}
                model.generate(torch.tensor([ids]), **options)
            recorder.write(ours)
            revived += pruned.statistics.revived
            flags = policy.removeprefix("custom ").split()
            flags = flags if flags[0].startswith("--") else ["--policy", *flags]
            options = ["-n", str(NEW_TOKENS), "--ignore-eos", "--backend", "reference", "--trace", expected, "--trace-logits"]
            run("run", "--ids", ",".join(map(str, ids)), *options, *flags)
            comparison = run("compare", ours, expected, "--tolerance", LOGITS, codes=(0, 2))
            if comparison.returncode:
                sys.exit(f"traces: prompt {i}, {len(ids)} tokens, {policy}, chunks of {chunk}: {comparison.stdout}")
    if revived < 20:
        sys.exit(f"traces: expected at least 20 revived rows, found {revived}")
    print(f"traces: the same tokens in all 20 prompts; {revived} rows were revived")


if __name__ == "__main__":
    main()
