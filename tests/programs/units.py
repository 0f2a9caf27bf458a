#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks which headers each folder of the program includes, so that an edit recompiles little. An edit of a tokenizer recompiles no kernel,
and an edit of a kernel recompiles no tokenizer. Commands include neither a transformer nor a reader of weights.

units.py [ROOT]: if a folder includes a forbidden header, prints the chain of includes that leads to it, and exits with 1."""
import re
import sys
from pathlib import Path

TRANSFORMER = ("model/transformer.hpp", "model/generator.hpp")
KERNELS = ("backend/cpu.hpp", "backend/cpu/", "backend/reference.hpp", "backend/cuda")
WEIGHTS = ("files/checkpoint", "files/ggml_", "files/safetensors.hpp")
WORDS = ("text/",)
NO_WORDS = {"text/letter_case.hpp", "text/detail/unicode_tables.hpp"}  # tables of letters, used by the metrics

FORBIDDEN = {
    "engine": WORDS + ("files/checkpoint",),
    "models": WORDS + TRANSFORMER,
    "traces": WORDS + ("backend/cpu",),
    "words": TRANSFORMER + KERNELS,
    "commands": TRANSFORMER + KERNELS + WEIGHTS,
    "questions": TRANSFORMER + KERNELS + WEIGHTS,
    "pages": TRANSFORMER + KERNELS + WEIGHTS + WORDS,
    "tables": TRANSFORMER + KERNELS + WEIGHTS + WORDS,
    "terminal": TRANSFORMER + KERNELS + WEIGHTS + WORDS,
}
# nvcc compiles this file separately, so the rules of its folder do not apply.
EXCEPT = {"engine/cuda_engine.cpp"}


class Tree:
    def __init__(self, root):
        self.library = root / "include"
        self.program = root / "examples/lazyprune"
        self.includes = {}

    def included_by(self, file):
        if file not in self.includes:
            names = re.findall(r'^#include (?:<(lazyprune/[^>]+)>|"([^"]+)")', file.read_text(), re.M)
            self.includes[file] = [self.library / theirs if theirs else self.program / ours for theirs, ours in names]
        return self.includes[file]

    def ways(self, file):
        """Every header that the file includes, directly or not, with the chain of includes that leads to it."""
        ways, open_ones = {file: [file]}, [file]
        while open_ones:
            at = open_ones.pop()
            for header in self.included_by(at):
                if header not in ways:
                    ways[header] = ways[at] + [header]
                    open_ones.append(header)
        return ways

    def name(self, file):
        base = self.library / "lazyprune" if self.library in file.parents else self.program
        return str(file.relative_to(base))


def main():
    tree = Tree(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve())
    wrong, seen = [], 0
    for folder, forbidden in FORBIDDEN.items():
        for source in sorted((tree.program / folder).glob("*.cpp")):
            if tree.name(source) in EXCEPT:
                continue
            seen += 1
            for header, way in tree.ways(source).items():
                name = tree.name(header)
                if tree.library in header.parents and name.startswith(forbidden) and name not in NO_WORDS:
                    wrong.append(" > ".join(tree.name(at) for at in way))
    if wrong or not seen:
        print(f"units: {seen} files seen", *wrong, sep="\n  ", file=sys.stderr)
        return 1
    print(f"units: {seen} files, none of which includes what its folder must not")
    return 0


if __name__ == "__main__":
    sys.exit(main())
