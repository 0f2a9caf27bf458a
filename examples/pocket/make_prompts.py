# SPDX-License-Identifier: MIT
"""Writes prompts for the pocket tasks (tasks.py) in LongBench's JSON Lines form. usage: make_prompts.py OUT_DIR [per_task=100] [tokens=1000,1900] [seed=1]"""
import json, os, random, sys
import sentencepiece
import tasks

out, per, sizes, seed = sys.argv[1], int((sys.argv[2:] or ["100"])[0]), [int(x) for x in (sys.argv[3:] or ["1000,1900"])[0].split(",")], int((sys.argv[4:] or ["1"])[0])
tok = sentencepiece.SentencePieceProcessor(model_file=os.path.dirname(os.path.abspath(__file__)) + "/model/tokenizer.model")
os.makedirs(out, exist_ok=True)
for name, make in tasks.TASKS.items():
    r = random.Random(f"{seed} {name}")
    with open(f"{out}/pocket_{name}.jsonl", "w") as f:
        for i in range(per):
            size = sizes[i % len(sizes)]; room = size - 40; filler = 0.1 + 0.5 * r.random()
            items = max(3, int(room * (1 - filler) / tasks.COST[name]))
            used = len(tok.encode(make(r, items, 0, 3)[1]))     # a task has a limited number of items; filler sentences take the rest of the room
            ins, doc, qs = make(r, items, max(0, (room - used) // tasks.FILL_COST), 3)
            q, words = r.choice(qs)
            context = ins + " " + doc
            f.write(json.dumps(dict(input=q, context=context, answers=[" ".join(w for w in words if w != ".")], length=len(tok.encode(context + " " + q)) + 1,
                                    dataset="pocket_" + name, language="en", all_classes=None, _id=f"{name}-{seed}-{i}")) + "\n")
