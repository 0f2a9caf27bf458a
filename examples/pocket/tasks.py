# SPDX-License-Identifier: MIT
"""Synthetic long-context tasks, one per LongBench category, in a small closed English vocabulary.

Every task returns (instruction, document, questions). A question is a pair (text, words of its answer). The words are copied from the document
or follow from it. So a small model can learn the tasks, and a pruned prompt can be answered only if the right tokens are kept.
"""
import random

FIRST = "mara oren tilda bram senna idris petra caleb nadia rufus elise magnus vera tobin greta silas wanda hugo lena otis flora jonas mabel felix irma casper della edgar nora victor agnes basil clara dorian esther gideon hazel ivan joyce kermit lydia morris olive percy quentin rosa stella walter".split()
LAST = "velkin dask orvane thrale winfield marsh copeland harrow lindqvist pell stroud varga whitlock yates zeller abbot barlow crane dunmore ellery finch garrick holloway ingram jarvis kessler lomax mercer norwood osborne prescott quill ravenel sutton tanner underhill vance wexford yarrow ashby bexley corwin drake easton farrow gable hurst ibsen".split()
CITY = "torvale kelmar ostrand brinmoor halvick suncrest dunholm pirrane eastmere foxley galdor westhaven linmouth maristow northam oakendale ravenna sandport tresco ulverton varnholt wexcombe ashgrove bellmont carrick dorwin elmstead farholt glenrock harwick".split()
TRADE = "clockmaker baker sailor weaver potter tailor doctor lawyer farmer miner painter glazier printer brewer carpenter mason teacher librarian pilot surveyor jeweller botanist chemist barber butcher fisher gardener plumber singer dancer".split()
COLOUR = "teal crimson amber violet ivory scarlet indigo olivegreen silver golden maroon navy coral beige black white".split()
ANIMAL = "falcon otter badger heron lynx tortoise ferret raven stallion beagle parrot salmon hedgehog walrus gecko panther squirrel donkey sparrow lobster".split()
FOOD = "dumplings porridge chowder pancakes lentils noodles apricots cheddar omelette radishes biscuits walnuts risotto pickles oysters custard mushrooms trout marmalade pretzels".split()
TOOL = "lantern compass ladder hammer chisel telescope anvil shovel kettle bellows saddle barometer hourglass pulley sextant trowel wrench spindle candle bucket".split()
TOPIC = "gardens rivers bridges harbours markets schools theatres railways forests castles museums orchards quarries lighthouses vineyards mills islands deserts glaciers canals libraries stadiums temples gateways meadows caverns lagoons marshes ridges valleys plateaus reefs".split()
ATTR = {"birthplace": CITY, "trade": TRADE, "colour": COLOUR, "pet": ANIMAL, "dish": FOOD}
CLASSES = [CITY, TRADE, COLOUR, ANIMAL, FOOD, TOOL]
LABEL = ["group" + c for c in "abcdefghijkl"]
VAR = [a + b for a in "bcdfghjklm" for b in ("ax", "en", "ip", "ot", "um", "ey")]
FILL_S = "the report;a visitor;the old council;every neighbour;the morning train;a quiet crowd;the summer festival;the local paper;an early winter;the second meeting;the narrow street;a distant bell;the new rule;a heavy storm;the first letter;the long table".split(";")
FILL_V = "was remembered for;had little to do with;came shortly before;was slower than;seemed to follow;could not explain;was often compared to;did not change;arrived after;was kept away from;made people forget".split(";")
FILL_O = "the harvest;the usual noise;a broken window;the price of bread;the evening walk;a painted door;the empty square;the last election;a careful plan;the rising water;the missing page;a borrowed coat;the county fair;the iron gate".split(";")


def filler(r):
    return f"{r.choice(FILL_S)} {r.choice(FILL_V)} {r.choice(FILL_O)} ."


def pad(r, parts, n_fill):
    """Scatters n_fill filler sentences between the parts. The parts keep their order."""
    slots = sorted(r.randrange(len(parts) + 1) for _ in range(n_fill))
    out, j = [], 0
    for i in range(len(parts) + 1):
        while j < len(slots) and slots[j] == i:
            out.append(filler(r)); j += 1
        if i < len(parts):
            out.append(parts[i])
    return " ".join(out)


def pick(r, n, q):
    """Returns q of the numbers 0 to n - 1. No number comes again before every other number has come."""
    out = []
    while len(out) < q:
        out += r.sample(range(n), min(n, q - len(out)))
    return out


def names(r, n):
    return [f"{a} {b}" for a, b in zip(r.sample(FIRST, n), r.sample(LAST, n))] if n <= len(FIRST) else None


def single_doc(r, n, fill, q):
    """One document says where each of several tools is. The question names one tool."""
    n = min(n, len(TOOL)); tools = r.sample(TOOL, n); place = [r.choice(TOPIC) for _ in tools]
    doc = pad(r, [f"the {t} is in the {p} ." for t, p in zip(tools, place)], fill)
    qs = pick(r, n, q)
    return "read the document .", doc, [(f"question : where is the {tools[i]} ? answer : the {tools[i]} is in the", [place[i]]) for i in qs]


def multi_doc(r, n, fill, q):
    """Each document has a few facts about one person. The question asks for one fact."""
    n = min(n, len(FIRST)); who = names(r, n); keys = list(ATTR); facts = []; parts = []
    for i, w in enumerate(who):
        ks = r.sample(keys, 3); f = {k: r.choice(ATTR[k]) for k in ks}; facts.append(f)
        parts.append(f"document {i + 1} : " + " ".join(f"for {w} the {k} is {f[k]} ." for k in ks))
    doc = pad(r, parts, fill); out = []
    for i in (pick(r, n, q)):
        k = r.choice(list(facts[i]))
        out.append((f"question : what is the {k} of {who[i]} ? answer : for {who[i]} the {k} is", [facts[i][k]]))
    return "read the documents .", doc, out


def profile(r, n, fill, q):
    """The answer has several facts, so later answer tokens need tokens of the document that the first answer token did not need."""
    instr, doc, _ = None, None, None
    n = min(n, len(FIRST)); who = names(r, n); keys = list(ATTR); facts = []; parts = []
    for i, w in enumerate(who):
        ks = r.sample(keys, 3); f = {k: r.choice(ATTR[k]) for k in ks}; facts.append((ks, f))
        parts.append(f"document {i + 1} : " + " ".join(f"for {w} the {k} is {f[k]} ." for k in ks))
    doc = pad(r, parts, fill); out = []
    for i in pick(r, n, q):
        ks, f = facts[i]
        ks = r.sample(ks, 3)
        ans = []
        for k in ks:
            ans += [k, f[k], ","]
        ans[-1] = "."
        # the order of the attributes is named in the question
        out.append((f"question : give the {ks[0]} , {ks[1]} and {ks[2]} of {who[i]} . answer :", ans))
    return "read the documents .", doc, out


def summary(r, n, fill, q):
    """Each chapter leads to another one. The answer follows these links, so the document tells each topic by the topic before it."""
    n = min(n, len(TOPIC)); t = r.sample(TOPIC, n)
    order = list(range(n - 1)); r.shuffle(order)
    doc = pad(r, [f"the chapter on {t[i]} leads to {t[i + 1]} ." for i in order], fill)
    out = []
    for _ in range(max(1, q // 3)):
        s = r.randrange(0, max(1, n - 5)); k = min(5, n - 1 - s)
        ans = []
        for j in range(s + 1, s + 1 + k):
            ans += [t[j], ","]
        ans[-1] = "."
        out.append((f"question : list the chapters after {t[s]} . answer : {t[s]} ,", ans))
    return "read the chapters .", doc, out


def few_shot(r, n, fill, q):
    """Each kind of word has a label, which is drawn anew for each prompt. The question asks for the label of a word."""
    lab = r.sample(LABEL, len(CLASSES)); ex = []
    for _ in range(n):
        c = r.randrange(len(CLASSES)); ex.append((r.choice(CLASSES[c]), lab[c]))
    doc = pad(r, [f"word : {w} label : {l} ." for w, l in ex], fill); out = []
    for _ in range(q):
        w, l = r.choice(ex)
        if r.random() < 0.5:
            w = r.choice(CLASSES[lab.index(l)])
        out.append((f"word : {w} label :", [l]))
    return "label each word by its kind .", doc, out


def passage(r, n, fill, q):
    """The question asks which paragraph mentions a word."""
    ws = r.sample(ANIMAL + FOOD + TOOL, min(n, 60)); ids = r.sample(range(10, 100), len(ws))
    doc = pad(r, [f"the report about {w} is paragraph {i} ." for i, w in zip(ids, ws)], fill)
    qs = pick(r, len(ws), q)
    return "read the paragraphs .", doc, [(f"question : which paragraph is the report about {ws[i]} ? answer : the report about {ws[i]} is paragraph", [str(ids[i])]) for i in qs]


def code(r, n, fill, q):
    """Each variable is assigned once. The question prints one of them, and the answer is its value."""
    vs = r.sample(VAR, min(n, len(VAR))); val = [r.choice(TOOL + ANIMAL + FOOD) for _ in vs]
    doc = pad(r, [f"let {v} = {x} ;" for v, x in zip(vs, val)], fill)
    qs = pick(r, len(vs), q)
    return "read the code .", doc, [(f"print {vs[i]} # prints", [val[i]]) for i in qs]


TASKS = {"single_doc_qa": single_doc, "multi_doc_qa": multi_doc, "profile": profile, "summarization": summary,
         "few_shot": few_shot, "passage_retrieval": passage, "code_completion": code}
# The number of tokens that one item of each task takes. Callers use it to compose prompts of a given length.
COST = {"single_doc_qa": 7, "multi_doc_qa": 27, "profile": 27, "summarization": 9, "few_shot": 7, "passage_retrieval": 9, "code_completion": 6}
FILL_COST = 10
