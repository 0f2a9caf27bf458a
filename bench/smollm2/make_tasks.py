#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes samples of RULER's tasks (arXiv 2404.06654), and of two tasks that ask for quotes, in RULER's JSON Lines form.

  make_tasks.py TASK TOKENS N SEED FILE.jsonl [--program build/examples/lazyprune] [--model MODEL] [--plain] [--reworded]
                [--chapters 1-18|1-9|10-18]

A prompt, including what the model's chat template adds, takes at most TOKENS minus the room for the answer. It takes at least 95 % of this
limit, or so much that one more unit of the haystack (a word, a line, a sentence) does not fit. The same arguments give the same samples. The N
samples spread the depths of their needles evenly over the text.
"""
import argparse
import bisect
import itertools
import json
import os
import random
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
FILLED = 0.95
TENTH_CHAPTER = "Other opportunities of making her observations could not fail to occur."

ADJECTIVES = """amber ancient brave bright calm clever copper crimson curious distant eager frozen gentle golden hidden humble jolly lively
lonely mellow misty narrow noble patient polished proud quiet rapid rustic scarlet secret silent silver simple sleepy steady sturdy velvet
wandering weathered""".split()
NOUNS = """badger beacon bridge candle canyon castle compass cottage falcon feather forest fountain garden hammer harbor harvest island
kettle ladder lantern lizard magnet meadow mirror otter pebble piano pigeon pillow planet pocket rabbit ribbon river saddle sparrow teapot
tunnel violin walrus""".split()
VERBS = "admires builds carries draws finds follows guards hears lifts mends paints passes remembers sells visits watches".split()
FIRST = """Agnes Basil Clara Dorian Edith Felix Greta Hugo Irma Jonas Lena Magnus Nadia Oscar Petra Quentin Rosa Silas Tilda Victor
Wanda""".split()
LAST = """Abbot Barlow Crane Dunmore Ellery Finch Garrick Holloway Ingram Jarvis Kessler Lomax Mercer Norwood Osborne Prescott Ravenel
Sutton Tanner Varga Whitlock Yarrow""".split()
TOWNS = [a + b for a in "Ash Bell Carr Dun East Fal Glen Hal Lin Mar Nor Oak Pir Rav Sund Tor Ul Var West Wex".split()
         for b in "bourne brook combe dale ford holt mere moor ton wick".split()]
TRADES = "baker barber botanist brewer carpenter clockmaker dentist gardener jeweller librarian painter pilot sailor tailor weaver".split()
ANIMALS = "beagle canary donkey falcon ferret goose hedgehog kitten lizard parrot pony rabbit raven spaniel tortoise turkey".split()
INSTRUMENTS = "banjo bassoon cello clarinet drums flute guitar harp lute mandolin piano trombone trumpet tuba viola violin".split()
WARES = "apricots barley candles carpets cheese copper garlic honey lanterns leather oysters pepper ribbons saffron salt walnuts".split()

NOISE = ["The grass is green.", "The sky is blue.", "The sun is yellow.", "Here we go.", "There and back again."]


@dataclass(frozen=True)
class Sample:
    input: str
    prefix: str  # the beginning of the answer
    outputs: list

    def prompt(self):
        return self.input + self.prefix


# Haystacks are lists of pieces. Needles are put between the pieces.


def chapters(named="1-18"):
    """The text of these chapters of haystack.txt, in one line."""
    with open(os.path.join(HERE, "haystack.txt"), encoding="utf-8") as file:
        text = " ".join(file.read().split())
    middle = text.index(TENTH_CHAPTER)
    return {"1-18": text, "1-9": text[:middle].rstrip(), "10-18": text[middle:]}[named]


def read_sentences(named="1-18"):
    return re.split(r"(?<=[.!?])\s(?=[\"A-Z])|(?<=[.!?]\")\s(?=[\"A-Z])", chapters(named))


SENTENCES = read_sentences()


def prose(r, words):
    """Returns sentences with this many words in all, from a random sentence on. The last sentence may be cut."""
    pieces = []
    for sentence in itertools.islice(itertools.cycle(SENTENCES), r.randrange(len(SENTENCES)), None):
        part = sentence.split()[:words]
        words -= len(part)
        pieces.append(" ".join(part))
        if words <= 0:
            return pieces


def noise(_, sentences):
    return list(itertools.islice(itertools.cycle(NOISE), sentences))


def spread(depth, count):
    """Returns `count` depths at equal distances, beginning with `depth`. After the end of the text they continue at its beginning."""
    return [(depth + i / count) % 1 for i in range(count)]


def hidden(pieces, needles, depths):
    """Returns the pieces with each needle at its depth, from 0 to 1."""
    ends = list(itertools.accumulate(map(len, pieces), initial=0))
    places = sorted(((bisect.bisect_left(ends, depth * ends[-1]), i) for i, depth in enumerate(depths)), reverse=True)
    out = list(pieces)
    for place, i in places:
        out.insert(place, needles[i])
    return out


def names(r):
    """Yields pairs of an adjective and a noun, each pair once. Ends the program if more are asked for."""
    pairs = [f"{a}-{n}" for a in ADJECTIVES for n in NOUNS]
    r.shuffle(pairs)
    yield from pairs
    sys.exit(f"error: a text of this length needs more than the {len(pairs)} names that there are")


def uuids(r):
    while True:
        yield str(uuid.UUID(int=r.getrandbits(128), version=4))


def numbers(r):
    while True:
        yield str(r.randrange(1_000_000, 10_000_000))


# RULER's tasks. Each task makes a sample from a random source, the size of the haystack, and the depth of the needle that is asked for.


@dataclass(frozen=True)
class Wording:
    """The sentences of a needle task. {kind} is number or uuid, {key} the name that is asked for, {keys} several of them."""
    needle: str
    one: tuple  # words before the text, question, and the beginning of the answer, if one value is asked for
    several: tuple


RULER = Wording(
    "One of the special magic {kind}s for {key} is: {value}.",
    ("A special magic {kind} is hidden within the following text. Make sure to memorize it. I will quiz you about the {kind} afterwards.",
     "What is the special magic {kind} for {keys} mentioned in the provided text?",
     " The special magic {kind} for {keys} mentioned in the provided text is"),
    ("Some special magic {kind}s are hidden within the following text. Make sure to memorize it. I will quiz you about the {kind}s "
     "afterwards.",
     "What are all the special magic {kind}s for {keys} mentioned in the provided text?",
     " The special magic {kind}s for {keys} mentioned in the provided text are"))
# No sentence has a form that RULER's sentences have.
REWORDED = Wording(
    "In the ledger, the entry of {key} reads {value}.",
    ("Read the text below with care. It says what the ledger has for a name, and you will have to find that entry.",
     "Which entry does the ledger have for {keys}?",
     " For {keys}, the ledger has the entry"),
    ("Read the text below with care. It says what the ledger has for some names, and you will have to find these entries.",
     "Which entries does the ledger have for {keys}? Name every one.",
     " For {keys}, the ledger has the entries"))
wording = RULER


def needle(key, value, kind):
    return wording.needle.format(key=key, value=value, kind=kind)


def niah(haystack=None, key=names, value=numbers, kind="number", keys=1, values=1, asked=1):
    """Returns a task with needles in a haystack, or among other needles if `haystack` is None. The question asks for the first `asked` keys; the
    other keys distract."""

    def make(r, size, depth):
        draw_key, draw_value = key(r), value(r)
        held = [(next(draw_key), [next(draw_value) for _ in range(values)]) for _ in range(keys)]
        needles = [needle(k, v, kind) for k, all_of_k in held for v in all_of_k]
        if haystack:
            pieces, glue = haystack(r, size), " "
        else:
            pieces, glue = [needle(next(draw_key), next(draw_value), kind) for _ in range(size)], "\n"
        text = glue.join(hidden(pieces, needles, spread(depth, len(needles))))
        wanted = [k for k, _ in held[:asked]]
        query = ", ".join(wanted[:-1]) + ", and " + wanted[-1] if asked > 1 else wanted[0]
        outputs = [v for _, all_of_k in held[:asked] for v in all_of_k]
        before, question, prefix = (words.format(kind=kind, keys=query)
                                    for words in (wording.several if len(outputs) > 1 else wording.one))
        return Sample(f"{before}\n{text}\n{question}", prefix, outputs)

    return make


def variable_tracking(r, size, depth):
    """A chain of assignments in noise, after a short example."""

    def chain(pieces, depths):
        variables = ["".join(r.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=5)) for _ in depths]
        value = str(r.randrange(10_000, 100_000))
        lines = [f"VAR {v} = {'VAR ' + variables[i - 1] if i else value}." for i, v in enumerate(variables)]
        text = " ".join(hidden(pieces, lines, sorted(depths)))
        return Sample(f"Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n{text}\nQuestion: Find all "
                      f"variables that are assigned the value {value} in the text above.",
                      f" Answer: According to the chain(s) of variable assignment in the text above, {len(variables)} variables are "
                      f"assigned the value {value}, they are: ", variables)

    example = chain(noise(r, 10), spread(0.1, 5))
    asked = chain(noise(r, size), spread(depth, 5))
    return Sample(f"{example.prompt()}{' '.join(example.outputs)}\n\n{asked.input}", asked.prefix, asked.outputs)


def common_words(tokens):
    """A numbered list of words, after a short example. Ten words are more frequent than the others. In short prompts both kinds
    of words are repeated less often."""
    often, seldom = (30, 3) if tokens >= 4096 else (6, 1)

    def make(r, size, _):
        vocabulary = sorted({word for s in SENTENCES for word in re.findall(r"\b[a-z]{4,8}\b", s)})
        r.shuffle(vocabulary)
        draw = iter(vocabulary)

        def listed(often, seldom, others):
            common = [next(draw) for _ in range(10)]
            words = common * often + [next(draw) for _ in range(others)] * seldom
            r.shuffle(words)
            numbered = " ".join(f"{i + 1}. {word}" for i, word in enumerate(words))
            return Sample("Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that "
                          f"appear most often.\n{numbered}\nQuestion: What are the 10 most common words in the above list?",
                          " Answer: The top 10 words that appear most often in the list are:", common)

        example = listed(3, 1, 10)
        asked = listed(often, seldom, size)
        answer = " ".join(f"{i + 1}. {word}" for i, word in enumerate(example.outputs))
        return Sample(f"{example.prompt()} {answer}\n\n{asked.input}", asked.prefix, asked.outputs)

    return make


def frequent_words(r, size, _):
    """Coded words. The frequency of the k-th word is proportional to 1 / k^2. The most frequent word is "...", and the question says to ignore it."""
    shares = [1 / k**2 for k in range(1, 200)]
    counts = [round(size * share / sum(shares)) for share in shares]
    coded = ["..."] + ["".join(r.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in counts[1:]]
    words = [word for word, count in zip(coded, counts) for _ in range(count)]
    r.shuffle(words)
    return Sample("Read the following coded text and track the frequency of each coded word. Find the three most frequently appeared "
                  f"coded words. {' '.join(words)}\nQuestion: Do not provide any explanation. Please ignore the dots '....'. What are the "
                  "three most frequently appeared words in the above coded text?",
                  " Answer: According to the coded text above, the three most frequently appeared words are:", coded[1:4])


PEOPLE = [f"{first} {last}" for first in FIRST for last in LAST]
# The facts of a document: a sentence, the question about it, and the possible answers.
PERSON = [("{name} was born in {answer}.", "In which town was {name} born?", TOWNS),
          ("By trade {name} is a {answer}.", "What is the trade of {name}?", TRADES),
          ("At home {name} keeps a {answer}.", "Which animal does {name} keep at home?", ANIMALS),
          ("In the evening {name} plays the {answer}.", "Which instrument does {name} play in the evening?", INSTRUMENTS)]
TOWN = [("{name} was founded in {answer}.", "In which year was {name} founded?", [str(year) for year in range(1100, 1800)]),
        ("The mayor of {name} is {answer}.", "Who is the mayor of {name}?", PEOPLE),
        ("The market of {name} is known for its {answer}.", "What is the market of {name} known for?", WARES)]


def invented_facts(r, size, depth):
    """Documents about four invented people or towns, among pages of prose, and a question about one of them."""
    people, towns = iter(r.sample(PEOPLE, len(PEOPLE))), iter(r.sample(TOWNS, len(TOWNS)))

    def document():
        name, facts = (next(people), PERSON) if r.random() < 0.7 else (next(towns), TOWN)
        answers = [r.choice(pool) for _, _, pool in facts]
        text = " ".join(sentence.format(name=name, answer=answer) for (sentence, _, _), answer in zip(facts, answers))
        asked = r.randrange(len(facts))
        return text, facts[asked][1].format(name=name), answers[asked]

    held = [document() for _ in range(4)]
    words = " ".join(prose(r, size)).split()
    pages = [" ".join(words[i : i + 60]) for i in range(0, len(words), 60)]
    documents = hidden(pages, [text for text, _, _ in held], spread(depth, len(held)))
    text = "\n\n".join(f"Document {i + 1}:\n{document}" for i, document in enumerate(documents))
    _, question, answer = held[0]
    ask = "Answer the question based on the given documents. Only give me the answer and do not output any other words."
    return Sample(f"{ask}\n\nThe following are given documents.\n\n{text}\n\n{ask}\n\nQuestion: {question}", " Answer:", [answer])


# Quotes: no word may be missing in the answer. The quotes are invented sentences in prose. The whole prompt is not a list, because a small
# model would not find the lines in it. The quotes are not sentences of the prose itself, because a small model would continue those in its
# own words.


def sentences_about(r):
    """Yields pairs of a phrase and the only sentence about it."""
    draw = (name.replace("-", " ") for name in names(r))
    for subject, thing in zip(draw, draw):
        yield subject, f"The {subject} {r.choice(VERBS)} the {thing}."


def quote_sentence(r, size, depth):
    """Asks for one of four sentences."""
    held = list(itertools.islice(sentences_about(r), 4))
    text = " ".join(hidden(prose(r, size), [sentence for _, sentence in held], spread(depth, 4)))
    return Sample("Some sentences are hidden within the following text. Memorize them. I will ask you to repeat one of them afterwards.\n"
                  f"{text}\nWhat is the sentence about the {held[0][0]} in the provided text? Repeat it word for word.",
                  "", [held[0][1].rstrip(".")])


def repeat_lines(r, size, depth):
    """Asks for three consecutive lines of a list of six."""
    lines = [sentence for _, sentence in itertools.islice(sentences_about(r), 6)]
    first = r.randrange(4)
    listed = "".join(f"\n{i + 1}. {line}" for i, line in enumerate(lines)) + "\n"
    text = " ".join(hidden(prose(r, size), [listed], [depth]))
    return Sample("A numbered list of lines is hidden within the following text. Memorize it. I will ask you to repeat some of its lines "
                  f"afterwards.\n{text}\nRepeat lines {first + 1} to {first + 3} of the list, word for word.",
                  "", [line.rstrip(".") for line in lines[first : first + 3]])


@dataclass(frozen=True)
class Task:
    make: object
    room: int  # tokens that the answer may have, as in eval/tasks.hpp and the program's questions/known_tasks.hpp


def tasks_for(tokens):
    """The tasks by name. As in RULER, short prompts have fewer common words."""
    return {
        "niah_single_1": Task(niah(noise), 128),
        "niah_single_2": Task(niah(prose), 128),
        "niah_single_3": Task(niah(prose, value=uuids, kind="uuid"), 128),
        "niah_multikey_1": Task(niah(prose, keys=4), 128),
        "niah_multikey_2": Task(niah(), 128),
        "niah_multikey_3": Task(niah(key=uuids, value=uuids, kind="uuid"), 128),
        "niah_multivalue": Task(niah(prose, values=4), 128),
        "niah_multiquery": Task(niah(prose, keys=4, asked=4), 128),
        "vt": Task(variable_tracking, 30),
        "cwe": Task(common_words(tokens), 120),
        "fwe": Task(frequent_words, 50),
        "qa_1": Task(invented_facts, 32),
        "quote_sentence": Task(quote_sentence, 64),
        "repeat_lines": Task(repeat_lines, 96),
    }


# Lengths.


class Counter:
    """Counts the tokens of prompts with the program."""

    def __init__(self, program, model, plain):
        self.command, self.plain = [program, "tokenize", "-m", model, "--jsonl", "-"], plain

    def __call__(self, prompts):
        def request(prompt):
            if self.plain:
                return {"text": prompt}
            return {"messages": [{"role": "user", "content": prompt}], "add_generation_prompt": True}

        lines = "".join(json.dumps(request(prompt)) + "\n" for prompt in prompts)
        done = subprocess.run(self.command, input=lines, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(self.command)}: exit code {done.returncode}\n{done.stderr.strip() or done.stdout[:400]}")
        return [len(json.loads(line)["ids"]) for line in done.stdout.splitlines()]


def fitted(make, n, limit, count):
    """Returns n pairs (sample, tokens). Each sample has at most `limit` tokens, and at least 95 % of `limit` unless one more unit of its haystack
    would exceed the limit. `make(i, size)` makes the i-th sample. It is called several times for each i, with sizes that grow and shrink."""
    found, low, high, sizes = [None] * n, [0] * n, [None] * n, [max(4, limit // 20)] * n
    searched = list(range(n))
    while searched:
        made = {i: make(i, sizes[i]) for i in searched}
        for i, tokens in zip(list(searched), count([sample.prompt() for sample in made.values()])):
            if tokens <= limit:
                found[i], low[i] = (made[i], tokens), sizes[i]
            else:
                high[i] = sizes[i]
            if high[i] == low[i] + 1 or FILLED * limit <= tokens <= limit:
                searched.remove(i)
            elif high[i]:
                sizes[i] = (low[i] + high[i]) // 2
            else:  # the text around the haystack has a fixed length, so this estimate is more often too small than too large
                sizes[i] = max(low[i] + 1, int(sizes[i] * 0.98 * limit / tokens))
    if None in found:
        raise SystemExit(f"{limit} tokens are too few")
    return found


def samples_of(name, tokens, n, seed, count):
    task = tasks_for(tokens)[name]
    depths = [(i + 0.5) / n for i in range(n)]
    random.Random(f"{seed} {name}").shuffle(depths)

    def make(i, size):
        return task.make(random.Random(f"{seed} {name} {i}"), size, depths[i])

    for i, (sample, length) in enumerate(fitted(make, n, tokens - task.room, count)):
        yield {"index": i, "input": sample.input, "outputs": sample.outputs, "length": length + task.room, "answer_prefix": sample.prefix}


def add_model_arguments(parser):
    parser.add_argument("--program", default="build/examples/lazyprune")
    parser.add_argument("--model", default="examples/pocket/model", help="the model whose tokens are counted")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Writes samples of RULER's tasks and of quotes.")
    parser.add_argument("task", choices=tasks_for(0), metavar="task", help=", ".join(tasks_for(0)))
    parser.add_argument("tokens", type=int, help="tokens of a prompt and its answer, at most")
    parser.add_argument("n", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("output", help="the .jsonl file to write")
    add_model_arguments(parser)
    parser.add_argument("--reworded", action="store_true", help="needle tasks: other words for needles, questions and answers")
    parser.add_argument("--chapters", choices=["1-18", "1-9", "10-18"], default="1-18", help="where the prose is taken from")
    parser.add_argument("--plain", action="store_true", help="count the prompt alone, for models without a chat template")
    return parser.parse_args()


def main():
    global SENTENCES, wording
    options = parse_arguments()
    SENTENCES = read_sentences(options.chapters)
    wording = REWORDED if options.reworded else RULER
    count = Counter(options.program, options.model, options.plain)
    samples = list(samples_of(options.task, options.tokens, options.n, options.seed, count))
    with open(options.output, "w", encoding="utf-8") as file:
        for sample in samples:
            file.write(json.dumps(sample) + "\n")


if __name__ == "__main__":
    main()
