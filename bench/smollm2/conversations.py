#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures conversations of four turns about four places of one long text, dense and pruned: a later turn may ask for tokens that an earlier one dropped.

  conversations.py TOKENS N SEED FILE.csv --setting dense="--policy dense" [--setting NAME=FLAGS ...]
         [--program build/examples/lazyprune] [--model MODEL] [-t THREADS]

The first turn contains the text with four needles, hidden as in RULER, and asks for one of them. Each later turn asks for another needle, in
random order. A row of FILE.csv has a conversation, turn, setting and answer. An answer is `right` if it has the number that its turn asks for.
Otherwise it is `earlier` or `later` if it has the number of an earlier or a later turn, and `none` if it has no number of the conversation. For
each setting, standard output has the right answers per turn, the right answers in all, and the answers with an earlier turn's number. Then
follow the percentage points of right answers lost against the first setting: over all turns, over the first half and over the second half.
Beside each loss is half the width of its 95 % interval over the conversations. If a run is interrupted, the next one with the same
arguments continues from FILE.csv.unfinished.
"""
import argparse
import csv
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
from dataclasses import dataclass

from make_tasks import Counter, add_model_arguments, fitted, hidden, names, needle, numbers, prose, spread

TURNS = 4
COLUMNS = ["conversation", "turn", "setting", "answer"]
ANSWER = 48  # tokens
TURN = 100   # tokens of a question, its answer and the template's words around them


@dataclass(frozen=True)
class Conversation:
    text: str
    questions: list
    answers: list

    def lines(self):
        """The user's turns, one line each, as the program reads them."""
        return [f"{self.text} {self.questions[0]}", *self.questions[1:]]

    def prompt(self):
        return self.lines()[0]


def conversation(r, size, depth):
    draw_key, draw_value = names(r), numbers(r)
    held = [(next(draw_key), next(draw_value)) for _ in range(TURNS)]
    order = r.sample(range(TURNS), TURNS)
    text = " ".join(hidden(prose(r, size), [needle(*pair, "number") for pair in held], spread(depth, TURNS)))
    return Conversation("Some special magic numbers are hidden within the following text. Make sure to memorize it. I will quiz you about "
                        f"the numbers afterwards. {text}",
                        [f"What is the special magic number for {held[i][0]} mentioned in the provided text?" for i in order],
                        [held[i][1] for i in order])


def answers_of(options, flags, talk):
    command = [options.program, "run", "-m", options.model, "--chat", "--json", "-n", str(ANSWER), *flags]
    if options.threads:
        command += ["-t", str(options.threads)]
    said = "".join(line + "\n" for line in talk.lines())
    done = subprocess.run(command, input=said, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return [json.loads(line)["text"] for line in done.stdout.splitlines()]


def kind_of(said, answers, turn):
    if answers[turn] in said:
        return "right"
    if any(number in said for number in answers[:turn]):
        return "earlier"
    return "later" if any(number in said for number in answers[turn + 1:]) else "none"


def begun(path):
    """Starts the table. If an interrupted run left one, keeps its whole conversations. Returns the kind of each answer in it, by conversation,
    turn and setting."""
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
    rows = list(csv.reader(text[:text.rfind("\n") + 1].splitlines()))[1:]
    whole = rows[:len(rows) // TURNS * TURNS]
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *whole])
    return {(int(conversation) - 1, int(turn) - 1, name): kind for conversation, turn, name, kind in whole}


def print_summary(found, settings, n):
    def right(i, name, turns):
        return sum(found[i, turn, name] == "right" for turn in turns)

    def lost(name, turns):
        points = [100 * (right(i, settings[0], turns) - right(i, name, turns)) / len(turns) for i in range(n)]
        half = f"{1.96 * statistics.stdev(points) / n ** 0.5:.1f}" if n > 1 else "?"
        return f"{statistics.mean(points):.1f} +- {half}"

    print(f"{n} conversations. Each setting has: the right answers in turns 1 to {TURNS}, the right answers in all, the answers with an earlier turn's "
          f"number, and the points lost compared with {settings[0]} over all turns, over the first half and over the second half")
    turns = range(TURNS)
    for name in settings:
        of_turns = [sum(right(i, name, [turn]) for i in range(n)) for turn in turns]
        earlier = sum(found[i, turn, name] == "earlier" for i in range(n) for turn in turns)
        halves = [lost(name, some) for some in (turns, turns[:TURNS // 2], turns[TURNS // 2:])]
        print(f"{name}: {' '.join(map(str, of_turns))}, {sum(of_turns)}, {earlier}, {', '.join(halves)}")


def setting(text):
    name, found, flags = text.partition("=")
    if not name or not found:
        raise argparse.ArgumentTypeError(f"expected NAME=FLAGS, found {text}")
    return name, shlex.split(flags)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Conversations of four turns about four places of one long text.")
    parser.add_argument("tokens", type=int, help="tokens of a whole conversation, at most")
    parser.add_argument("n", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("output", help="the .csv file to write")
    parser.add_argument("--setting", dest="settings", metavar="NAME=FLAGS", type=setting, action="append", required=True,
                        help="flags of lazyprune run, under a name for the table; may be given several times")
    parser.add_argument("-t", "--threads", type=int, help="default: all that the process may use")
    add_model_arguments(parser)
    options = parser.parse_args()
    names_given = [name for name, _ in options.settings]
    if len(set(names_given)) < len(names_given):
        parser.error(f"--setting: expected a name for each, found {', '.join(names_given)}")
    return options


def main():
    options = parse_arguments()
    depths = [(i + 0.5) / options.n for i in range(options.n)]

    def make(i, size):
        return conversation(random.Random(f"{options.seed} conversation {i}"), size, depths[i])

    talks = fitted(make, options.n, options.tokens - TURNS * TURN, Counter(options.program, options.model, plain=False))
    unfinished = options.output + ".unfinished"
    found = begun(unfinished)
    with open(unfinished, "a", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        for i, (talk, _) in enumerate(talks):
            for name, flags in options.settings:
                if (i, 0, name) in found:
                    continue
                print(f"\rconversation {i + 1} of {options.n}, {name} ", end="", file=sys.stderr, flush=True)
                for turn, said in zip(range(TURNS), answers_of(options, flags, talk), strict=True):
                    found[i, turn, name] = kind_of(said, talk.answers, turn)
                table.writerows([i + 1, turn + 1, name, found[i, turn, name]] for turn in range(TURNS))
                file.flush()
    print(file=sys.stderr)
    os.replace(unfinished, options.output)
    print_summary(found, [name for name, _ in options.settings], options.n)


if __name__ == "__main__":
    main()
