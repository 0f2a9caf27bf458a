#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mutation testing: changes the code of include/lazyprune/{core,policy,session} in many small ways, one at a time. The tests of these folders
must notice each change (they kill the mutant).

mutate.py FOLDER [--mutants N] [--seed S] [--jobs J]

All chosen mutants are compiled into one test program in FOLDER. The environment variable LAZYPRUNE_MUTANT chooses the mutant at run time.
Constant expressions cannot choose at run time, so code that the compiler evaluates stays as it is. Mutants that do not compile are
replaced by others. The choice of N mutants depends on the text of the code and on the seed, so an edit changes the choice little.

A mutant is killed if a test fails, if the program crashes, or if it takes four times the time or more than 4 GiB of memory.
survivors.txt lists the mutants that behave like the original code, each with the reason. The script fails if another mutant survives, if a
listed mutant is killed, if a listed mutant is not in the code any more, or if fewer than 90 % of the mutants are killed."""
import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import tree_sitter
import tree_sitter_cpp

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("core", "policy", "session")
SURVIVORS = Path(__file__).with_name("survivors.txt")
LEAST_KILLED = 0.9
MEMORY = 4 << 30  # bytes of address space that a mutant may take

OPERATORS = {
    "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",),
    "+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "%": ("*",),
    "<<": (">>",), ">>": ("<<",), "&": ("|",), "|": ("&",), "^": ("&",),
    "&&": ("||",), "||": ("&&",), "++": ("--",), "--": ("++",),
    "+=": ("-=",), "-=": ("+=",), "*=": ("/=",), "/=": ("*=",), "|=": ("&=",), "&=": ("|=",),
}
CONSTANT = {
    "template_argument_list", "template_parameter_list", "static_assert_declaration", "concept_definition", "requires_clause",
    "requires_expression", "enumerator", "array_declarator", "alias_declaration", "sizeof_expression", "decltype", "noexcept",
    "attribute_declaration",
}

SELECTOR = """#pragma once
#include <cstdlib>
#include <type_traits>
namespace mutation {
inline const int chosen = std::getenv("LAZYPRUNE_MUTANT") ? std::atoi(std::getenv("LAZYPRUNE_MUTANT")) : 0;
constexpr bool on(int mutant) {
  if (std::is_constant_evaluated()) return false;
  return mutant == chosen;
}
}  // namespace mutation
"""


@dataclasses.dataclass
class Mutant:
    file: Path  # below include/lazyprune
    line: int
    node: int  # the changed node's id
    after: str  # the new text; empty: the statement is left out
    change: str  # the lines of the code, with [before -> after] in the place of the change
    number: int = 0

    @property
    def key(self):
        return f"{self.file.as_posix()}: {self.change}"


def text_of(node):
    return node.text.decode()


def replaced(node, part, after):
    """The text of the node, with the text of one of its parts replaced."""
    start, end = part.start_byte - node.start_byte, part.end_byte - node.start_byte
    return (node.text[:start] + after.encode() + node.text[end:]).decode()


def condition_of(node):
    """The expression that an if, a while, a for or ?: decides by; None for other nodes."""
    if node and node.type in ("condition_clause", "conditional_expression", "for_statement"):
        condition = node.child_by_field_name("value" if node.type == "condition_clause" else "condition")
        return None if condition and condition.type in ("condition_clause", "declaration") else condition
    return None


def changes(node):
    """Yields (part, new text of the part, new text of the node) for each mutant of a node. The part is what a report shows as changed."""
    operator = node.child_by_field_name("operator")
    sign = text_of(operator) if operator else ""
    if node.type in ("binary_expression", "assignment_expression", "update_expression"):
        for other in OPERATORS.get(sign, ()):
            yield operator, other, replaced(node, operator, other)
    elif node.type == "unary_expression":
        value = text_of(node.child_by_field_name("argument"))
        yield operator, "", f"!!{value}" if sign == "!" else value
    elif node.type == "number_literal":
        for other in [f"{text_of(node)} + 1"] + [f"{text_of(node)} - 1"] * bool(re.search("[1-9]", text_of(node))):
            yield node, other, other
    elif node.type in ("true", "false"):
        other = "false" if node.type == "true" else "true"
        yield node, other, other
    elif node.type in ("expression_statement", "continue_statement"):
        yield node, "", ""
    if condition_of(node.parent) == node and sign not in ("==", "!=", "!"):  # the mutants above negate these
        yield node, f"!({text_of(node)})", f"!({text_of(node)})"


def is_constant(node):
    """Returns whether the compiler evaluates the node, or release builds leave it out (assert)."""
    within = node
    while parent := within.parent:
        is_constexpr = any(text_of(child) in ("constexpr", "virtual") for child in parent.children)  # virtual: the 0 of a pure function
        if parent.type in CONSTANT or (is_constexpr and parent.type in ("declaration", "field_declaration")):
            return True
        if parent.type == "if_statement" and is_constexpr and within.type == "condition_clause":
            return True
        if parent.type == "call_expression" and text_of(parent.child_by_field_name("function")) == "assert":
            return True
        within = parent
    return False


class Source:
    """One header and its mutants."""

    def __init__(self, file):
        self.file = file
        # tree-sitter cannot read macros that stand alone. Without -ffast-math, these change nothing.
        self.bytes = re.sub(rb"(?m)^LAZYPRUNE_PRECISE_MATH_(BEGIN|END)$", b"", (ROOT / "include/lazyprune" / file).read_bytes())
        language = tree_sitter.Language(tree_sitter_cpp.language())
        self.tree = tree_sitter.Parser(language).parse(self.bytes)
        self.mutants, self.left_out = [], 0
        self.find(self.tree.root_node)
        seen = collections.Counter()
        for mutant in self.mutants:
            seen[mutant.change] += 1
            if seen[mutant.change] > 1:
                mutant.change += f" (again, {seen[mutant.change]})"

    def find(self, node):
        if node.type == "ERROR":
            sys.exit(f"error: {self.file}:{node.start_point.row + 1}: tree-sitter cannot read this code")
        for part, shown, after in changes(node):
            if is_constant(node):
                self.left_out += 1
            else:
                self.mutants.append(Mutant(self.file, part.start_point.row + 1, node.id, after, self.marked(part, shown)))
        conditions = node.children_by_field_name("condition") if node.type in ("preproc_if", "preproc_elif") else []
        for child in node.children:
            if child not in conditions:
                self.find(child)

    def marked(self, part, after):
        begin = self.bytes.rfind(b"\n", 0, part.start_byte) + 1
        end = self.bytes.find(b"\n", part.end_byte)
        line = self.bytes[begin : part.start_byte] + f"[{text_of(part)} -> {after}]".encode() + self.bytes[part.end_byte : end]
        return " ".join(line.decode().split())

    def rendered(self, chosen):
        """The header's text with the chosen mutants. If a mutant does not compile, the compiler names its number as a line of the file `mutant`."""
        by_node = collections.defaultdict(list)
        for mutant in chosen:
            if mutant.file == self.file:
                by_node[mutant.node].append(mutant)
        name = (Path("include/lazyprune") / self.file).as_posix()

        def render(node):
            at, out = node.start_byte, ""
            for child in node.children:
                out += self.bytes[at : child.start_byte].decode() + render(child)
                at = child.end_byte
            out += self.bytes[at : node.end_byte].decode()
            back = f'\n#line {node.start_point.row + 1} "{name}"\n'
            for mutant in by_node[node.id]:
                if mutant.after.startswith("!("):
                    out = f"!!({out})"  # a bool like the mutant, so that ?: has one type
                if mutant.after:
                    out = f'(::mutation::on({mutant.number}) ?\n#line {mutant.number} "mutant"\n({mutant.after}) :{back}({out}))'
                else:
                    out = f"{{ if (::mutation::on({mutant.number})) {{}} else {{ {out} }} }}"
            return out

        return self.bytes[: self.tree.root_node.start_byte].decode() + render(self.tree.root_node)


def run(command, **options):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options)


def compile_tests(folder, units, jobs):
    """Compiles the test program. Returns the numbers of the mutants that do not compile."""
    flags = os.environ.get("CXX", "g++").split() + [
        "-std=c++20", "-O1", "-w", "-Wno-narrowing", "-fmax-errors=0", "-D_GLIBCXX_ASSERTIONS", f'-DLAZYPRUNE_SOURCE_DIR="{ROOT}"', "-include",
        folder / "selector.hpp", "-I", folder / "include", "-I", ROOT / "tests",
    ]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda unit: run([*flags, "-c", unit, "-o", folder / f"{unit.stem}.o"]), units))
    wrong = {int(number) for result in results for number in re.findall(r"\bmutant:(\d+):\d+: error", result.stdout)}
    if wrong:
        return wrong
    if all(result.returncode == 0 for result in results):
        linked = run([*flags, *(folder / f"{unit.stem}.o" for unit in units), "-o", folder / "tests", "-pthread"])
        results.append(linked)
    for result in results:
        if result.returncode:
            sys.exit("\n".join(result.stdout.splitlines()[:40]) + "\nerror: the test program does not compile, for another reason than a mutant")
    return set()


def build(folder, sources, mutants, count, jobs):
    """Compiles the first `count` of the mutants that compile, and returns them and the number of the others before them."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "include", folder / "include")
    (folder / "selector.hpp").write_text(SELECTOR)
    alone = ROOT / "tests/core/precise_math.test.cpp"  # includes its header in another way than the other tests do
    units = [ROOT / "tests/main.cpp", ROOT / "tests/policies.cpp", ROOT / "tests/reference.cpp", alone]
    for floor in FLOORS:
        tests = sorted(test for test in (ROOT / "tests" / floor).rglob("*.test.cpp") if test != alone)
        units.append(folder / f"{floor}.cpp")
        units[-1].write_text("".join(f'#include "{test}"\n' for test in tests))
    wrong = []
    while True:
        chosen = [mutant for mutant in mutants if mutant not in wrong][:count]
        for number, mutant in enumerate(sorted(chosen, key=lambda m: (m.file, m.line)), 1):
            mutant.number = number
        for source in sources:
            (folder / "include/lazyprune" / source.file).write_text(source.rendered(chosen))
        started = time.monotonic()
        numbers = compile_tests(folder, units, jobs)
        print(f"compiled in {time.monotonic() - started:.0f} s, {len(numbers)} of {len(chosen)} mutants do not compile", flush=True)
        if not numbers:
            return chosen, len(wrong)
        wrong += [mutant for mutant in chosen if mutant.number in numbers]


def test(program, mutant, seconds):
    """Runs the tests with a mutant (0: the unchanged code), at most so many seconds of processor time. Returns the exit status."""

    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAZYPRUNE_")}
    environment["LAZYPRUNE_MUTANT"] = str(mutant)
    return run([program, "--abort-after=1"], env=environment, preexec_fn=limits).returncode


def listed_survivors():
    """The keys of survivors.txt with their reasons. A key is a line; the indented lines after it are the reason."""
    listed, key = {}, None
    for line in SURVIVORS.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            key = line
            listed[key] = ""
        elif key:
            listed[key] += line.strip()
    if without := [key for key, reason in listed.items() if not reason]:
        sys.exit(f"error: {SURVIVORS.name}: no reason for: {without[0]}")
    return listed


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--mutants", type=int, default=400)
    arguments.add_argument("--seed", default="1")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count())
    given = arguments.parse_args()
    folder = given.folder.resolve()

    top = ROOT / "include/lazyprune"
    sources = [Source(path.relative_to(top)) for floor in FLOORS for path in sorted((top / floor).rglob("*.hpp"))]
    mutants = [mutant for source in sources for mutant in source.mutants]
    left_out = sum(source.left_out for source in sources)
    mutants.sort(key=lambda mutant: hashlib.sha256((given.seed + mutant.key).encode()).digest())
    listed = listed_survivors()
    print(f"{len(mutants)} possible mutants in {len(sources)} headers; {left_out} more are left out, because the compiler evaluates them")

    chosen, wrong = build(folder, sources, mutants, given.mutants, given.jobs)
    started = time.monotonic()
    program = folder / "tests"
    unchanged = test(program, 0, resource.RLIM_INFINITY)
    if unchanged not in (0, 77):
        sys.exit("error: the tests fail without a mutant")
    used = time.monotonic() - started
    seconds = max(10, int(4 * used))
    print(f"{len(chosen)} mutants chosen, {wrong} others do not compile; the tests take {used:.1f} s", flush=True)

    killed, survived = [], []
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for mutant, status in zip(chosen, pool.map(lambda mutant: test(program, mutant.number, seconds), chosen)):
            (survived if status == unchanged else killed).append(mutant)

    for source in sources:
        counts = [sum(mutant.file == source.file for mutant in some) for some in (killed, survived)]
        if any(counts):
            print(f"{source.file.as_posix():55} {counts[0]:4} killed {counts[1]:4} survived")
    wrong = []
    for mutant in sorted(survived, key=lambda m: m.number):
        print(f"survived: {mutant.file.as_posix()}:{mutant.line}: {mutant.change}" + (" (listed)" if mutant.key in listed else ""))
        if mutant.key not in listed:
            wrong.append(f"survived, and survivors.txt does not list it: {mutant.key}")
    wrong += [f"killed, but survivors.txt lists it: {mutant.key}" for mutant in killed if mutant.key in listed]
    keys = {mutant.key for mutant in mutants}
    wrong += [f"survivors.txt lists code that is not there any more: {key}" for key in listed if key not in keys]
    share = len(killed) / len(chosen)
    print(f"{len(killed)} of {len(chosen)} mutants killed, {100 * share:.1f} %, in {time.monotonic() - started:.0f} s; "
          f"{len(survived)} survived, {sum(mutant.key in listed for mutant in survived)} of them listed")
    if share < LEAST_KILLED:
        wrong.append(f"fewer than {100 * LEAST_KILLED:.0f} % of the mutants are killed")
    for line in wrong:
        print(f"error: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
