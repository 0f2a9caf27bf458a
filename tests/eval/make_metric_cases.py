# SPDX-License-Identifier: MIT
"""Writes cases for the metrics, one JSON object per line: {"metric", "pred", "answers", "all_classes", "value"}. The value is null if the
benchmark's own program raises an exception. Values come from the code that the benchmarks call: the packages `rouge` 1.0.1 and `fuzzywuzzy`
0.18.0 (without python-Levenshtein, as in LongBench's requirements), and Python's re, str and difflib.
usage: make_metric_cases.py [random cases per metric=0] > metric_cases.jsonl"""
import collections, json, random, re, string, sys, warnings

sys.setrecursionlimit(100000)  # for `rouge`: with Python's default limit, LongBench returns 0 for long sentences
warnings.filterwarnings("ignore")
from fuzzywuzzy import fuzz
from rouge import Rouge

assert fuzz.SequenceMatcher.__module__ == "difflib", "python-Levenshtein is installed"

CN = "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏."


def bag_f1(a, b):
    same = sum((collections.Counter(a) & collections.Counter(b)).values())
    return 2 * (same / len(a)) * (same / len(b)) / (same / len(a) + same / len(b)) if same else 0


def words(s):
    s = "".join(c for c in s.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", s).split()


def chars(s):
    return [c for c in "".join(s.lower().split()) if c not in string.punctuation + CN]


def rouge_l(p, a, **_):
    try:
        return Rouge().get_scores([p], [a], avg=True)["rouge-l"]["f"]
    except ValueError:
        return 0.0


def numbers(p, right):
    found = re.findall(r"\d+", p)
    return found.count(right) / len(found) if found else 0.0


def classification(p, a, all_classes):
    named = [c for c in all_classes if c in p]
    for c in named:
        if c in a and c != a:
            named.remove(c)
    return 1 / len(named) if a in named else 0.0


def code_sim(p, a, **_):
    lines = [l for l in p.lstrip("\n").split("\n") if not any(mark in l for mark in ("`", "#", "//"))]
    return fuzz.ratio(lines[0] if lines else "", a) / 100


def cleaned(p):
    return re.sub("[\x00-\x1f]", "\n", p.strip()).strip().lower()


BEST = {
    "qa_f1": lambda p, a, **_: bag_f1(words(p), words(a)),
    "qa_f1_chars": lambda p, a, **_: bag_f1(chars(p), chars(a)),
    "rouge_l": rouge_l,
    "rouge_l_chars": lambda p, a, **_: rouge_l(" ".join(p), " ".join(a)),
    "classification": classification,
    "retrieval": lambda p, a, **_: numbers(p, re.findall(r"Paragraph (\d+)", a)[0]),
    "retrieval_zh": lambda p, a, **_: numbers(p, re.findall(r"段落(\d+)", a)[0]),
    "count": lambda p, a, **_: numbers(p, a),
    "code_sim": code_sim,
    "exact_match": lambda p, a, **_: float(p.strip() == a.strip()),
}
ALL = {
    "string_match_all": lambda p, refs: sum(r.lower() in cleaned(p) for r in refs) / len(refs),
    "string_match_part": lambda p, refs: max(float(r.lower() in cleaned(p)) for r in refs),
}


def value(metric, pred, answers, classes):
    try:
        if metric in ALL:
            return ALL[metric](pred, answers)
        return max([0.0] + [BEST[metric](pred, a, all_classes=classes) for a in answers])
    except (IndexError, ValueError, ZeroDivisionError):
        return None


def put(metric, pred, answers, classes=None):
    print(json.dumps({"metric": metric, "pred": pred, "answers": answers, "all_classes": classes,
                      "value": value(metric, pred, answers, classes)}, ensure_ascii=False))


TEXTS = [
    ("", [""]), ("", ["x"]), ("x", [""]), ("...", ["!?"]), ("The cat sat.", ["a cat sat", "dogs"]), ("an answer", ["An  Answer!"]),
    ("“the” “Á” a’s", ["á s"]), ("ΟΔΥΣΣΕΥΣ ΣΑΣ Σ", ["οδυσσευς σας σ"]), ("İstanbul ǅ Ω K", ["i̇stanbul ǆ ω k"]), ("a\u0302 the\u200dx", ["â thex"]),
    ("one two  three. four one\ttwo . ", ["one three. two four five", "four"]), (" . .a b", [" "]), ("b a c b a. c", ["a b. c a b c"]),
    ("the the the", ["the"]), ("中国，北京。 Beijing", ["北京 beijing", "中国"]), ("段落 12、段落12", ["段落12"]),
    ("Paragraph 3 or Paragraph 12, not 3", ["Paragraph 3"]), ("٣ and 3", ["3"]), ("12 3 12", ["12", "Paragraph 12"]), ("none", ["Paragraph x 5 Paragraph 5"]),
    ("\n\n# comment\n// more\n  return x;\nrest", ["  return x + 1;"]), ("`a`\n#", [""]), ("\n\n", [""]), ("int main() {", ["int main(void) {"]),
    ("é中", ["é中文"]),
    (" The magic number is\x00ABC\x1f1234 ", ["abc", "1234", "5"]), ("straße STRASSE", ["STRAẞE", "strasse"]),
]
LINES = [("x" * 199 + "y", ["x" * 150 + "yx"]), ("ab" * 150 + "c", ["ba" * 120 + "cab"]), ("abcdef" * 33, ["fedcba" * 40]), ("a b", ["a c b d a b b"])]
CLASSES = [
    ("Other entity", ["Other entity"], ["Other entity", "entity", "Other"]), ("a vehicle", ["vehicle"], ["vehicle", "a"]), ("x", ["y"], ["x", "y"]),
    ("abcd", ["abcd"], ["a", "ab", "abc", "abcd"]), ("abcd", ["abcd"], ["abcd", "b", "a", "c", "e"]), ("", ["a"], []), ("Sport, Food", ["Food", "Sport"], ["Food", "Sport", "Law"]),
]
for pred, answers in TEXTS:
    for metric in [*BEST, *ALL]:
        if metric != "classification" and (metric not in ("retrieval", "retrieval_zh") or any(w in answers[0] for w in ("Paragraph", "段落"))):
            put(metric, pred, answers)
for pred, answers in LINES:
    put("code_sim", pred, answers)
for pred, answers, classes in CLASSES:
    put("classification", pred, answers, classes)
put("string_match_all", "x", [])
put("qa_f1", "x", [])

r = random.Random(7)
POOLS = ["ab .", "the an a. ,'", "0123456789 ٣৪", "αΣσς’“. \u00a0", "中文，。 段落1", "aAéÉİßǅ\u0301\u200d.", "x#`/\n y=", "Paragraph 12 "]


def text(most):
    pool = r.choice(POOLS)
    if r.random() < 0.1:
        return "".join(chr(c) for c in (r.randrange(0x30000) for _ in range(r.randrange(most))) if not 0xd800 <= c < 0xe000)
    if r.random() < 0.3:
        return " ".join(r.choice(["a", "the", "cat", "Sat", "on", "mat.", ".", "12", "Paragraph", "段落3"]) for _ in range(r.randrange(most)))
    return "".join(r.choice(pool) for _ in range(r.randrange(most)))


for _ in range(int((sys.argv[1:] or ["0"])[0])):
    for metric in [*BEST, *ALL]:
        pred = text(r.choice([3, 10, 40, 300]))
        answers = [text(r.choice([3, 10, 40, 300])) for _ in range(r.randrange(4))]
        if r.random() < 0.3:
            answers.append("".join(c for c in pred if r.random() < 0.8))
        if metric == "retrieval":
            answers = ["Paragraph 1" + a for a in answers]
        if metric == "retrieval_zh":
            answers = ["段落1" + a for a in answers]
        classes = None
        if metric == "classification":
            classes = ["a", "ab", "the", "ca", "cat", "1", "12", "b", " "]
            r.shuffle(classes)
            answers = r.sample(classes, r.randrange(3))
        put(metric, pred, answers, classes)
