# SPDX-License-Identifier: MIT
"""Checks the source tree: python3 cmake/check_tree.py [CHECK [ROOT]], all checks without a name. Exit code 77: a check was skipped.

floors   A header includes its own floor and those below, and names no flag of the program. Floors 0 to 3 include the standard library and
         nothing else from outside. The C header, a floor of its own, includes C's.
mirror   include/lazyprune/PATH/x.hpp (or x.cuh) has its tests/PATH/x.test.cpp, and the other way round. The test includes its header first,
         which shows that the header can be compiled alone (where tests are compiled together, tests/odr does). The program likewise:
         examples/lazyprune/PATH/x.hpp has its tests/programs/PATH/x.test.cpp, which need not include it, since the tests run the program.
names    No file or folder has a name that Windows refuses. Every source file names its licence in its first line (the second, after a #!).
readme   Every block of C++, C, Python or CMake in README.md and the guides stands word for word in a file that is compiled or run.
tags     Editors find the library's types: Universal Ctags sees a few that everybody looks for.
"""

import pathlib
import re
import shutil
import subprocess
import sys

FLOORS = "core policy session registry backend model files text eval".split()
ABOVE_THE_FOLDERS = {"version.hpp": 0, "lazyprune.hpp": 2}

WITHOUT_TEST = """
    lazyprune version
    core/concepts core/policy
    core/evidence core/plan core/types core/views session/statistics session/step model/config model/generation model/weights files/family/model_family
    text/jinja/syntax text/tokenizer/unicode files/stored_tensor text/text_run eval/sample
""".split()  # includes and macros; held by tests/static and tests/compile_fail; words that every test speaks

PROGRAM_WITHOUT_TEST = """
    flag_checks
    commands/flags commands/outcome commands/text_run engine/backend_engines engine/engine engine/loaded_engine
    models/loading models/loading_definition models/sessions traces/replay words/model_words terminal/interrupts terminal/typed_lines
    pages/html pages/page_style pages/sweep_figures pages/sweep_page_template pages/sweep_tables pages/sweep_view
    pages/trace_page_template
    questions/prediction_log questions/question_set questions/results questions/runner
    terminal/progress
""".split()  # tested through command_line, the commands and the two pages; progress is seen on terminals alone


SKIPPED = "skipped: needs Universal Ctags (universal-ctags)"


def files(root, folder, *patterns):
    """The files below root/folder, by their names relative to it."""
    top = root / folder
    return sorted(path.relative_to(top).as_posix() for pattern in patterns for path in top.rglob(pattern) if path.is_file())


def includes(path):
    return re.findall(r"^[ \t]*#[ \t]*include\b.*", path.read_text(), re.M)


def floor_of(header):
    top = header.split("/")[0]
    return FLOORS.index(top) if top in FLOORS else ABOVE_THE_FOLDERS.get(top)


def floors(root, wrong):
    top = root / "include/lazyprune"
    headers = files(root, "include/lazyprune", "*.hpp", "*.cuh")
    for header in headers:
        own = floor_of(header)
        if own is None:
            wrong(f"{header}: stands on no floor")
            continue
        for line in includes(top / header):
            ours, theirs = re.search(r"<lazyprune/([^>]+)>", line), re.search(r"<[^>]+>", line)
            if ours:
                other = floor_of(ours[1])
                if other is None or other > own:
                    wrong(f"{header}: {line} is above its floor")
            elif not theirs:
                wrong(f"{header}: {line} is not of the form <lazyprune/...>")
            elif own <= 3 and not re.search(r"<[a-z_]+>", line):  # the standard library's headers have neither a folder nor a suffix
                wrong(f"{header}: {line} is not of the standard library")
        for line in re.findall(r"^.*[\"`]--[a-z].*$", (top / header).read_text(), re.M):
            wrong(f"{header}: names a flag: {line}")
    for header in files(root, "include/lazyprune", "*.h"):
        if not header.startswith("c/"):
            wrong(f"{header}: stands on no floor")
        for line in includes(top / header):
            if not re.search(r"<std[a-z]+\.h>", line):
                wrong(f"{header}: {line} is not of C's standard library")
    return f"{len(headers)} headers, each includes its own floor and those below" if headers else None


def mirror(root, wrong):
    headers = [re.sub(r"\.(hpp|cuh)$", "", path) for path in files(root, "include/lazyprune", "*.hpp", "*.cuh")]
    headers = [path for path in headers if "detail" not in path.split("/")[:-1]]  # tested through what uses them
    tests = [path for path in files(root, "tests", "*.test.cpp") if path.split("/")[0] in FLOORS]
    tests = [path.removesuffix(".test.cpp") for path in tests]
    for header in set(headers) - set(tests) - set(WITHOUT_TEST):
        wrong(f"include/lazyprune/{header}.hpp has no tests/{header}.test.cpp")
    for test in tests:
        if test not in headers or test in WITHOUT_TEST:
            wrong(f"tests/{test}.test.cpp has no include/lazyprune/{test}.hpp")
            continue
        first = includes(root / f"tests/{test}.test.cpp")[:1]
        if first not in ([f"#include <lazyprune/{test}.hpp>"], [f"#include <lazyprune/{test}.cuh>"]):
            wrong(f"tests/{test}.test.cpp does not include lazyprune/{test}.hpp before all else")
    program = [path.removesuffix(".hpp") for path in files(root, "examples/lazyprune", "*.hpp")]
    program_tests = [path.removesuffix(".test.cpp") for path in files(root, "tests/programs", "*.test.cpp")]
    for header in set(program) - set(program_tests) - set(PROGRAM_WITHOUT_TEST):
        wrong(f"examples/lazyprune/{header}.hpp has no tests/programs/{header}.test.cpp")
    for test in set(program_tests) - set(program):
        wrong(f"tests/programs/{test}.test.cpp has no examples/lazyprune/{test}.hpp")
    return f"{len(headers)} headers, each with its test, which includes it first, or known to need none" if headers else None


def names(root, wrong):
    folders = "include examples tests bench cmake .ci".split()
    paths = [root / "CMakeLists.txt", *(path for folder in folders for path in (root / folder).rglob("*") if path.suffix != ".pyc")]
    count = 0
    for path in paths:
        name = path.relative_to(root).as_posix()
        if re.fullmatch(r"(aux|con|nul|prn|com[0-9]|lpt[0-9])(\..*)?", path.name.lower()):
            wrong(f"{name} cannot exist on Windows")
        if re.search(r"\.(hpp|cpp|inc|cuh|cu|h|c|map|cmake|py|sh)$", name) or path.name == "CMakeLists.txt" or name == ".ci/run":
            count += 1
            if not re.match(r"(#![^\n]*\n)?(//|#|/\*) SPDX-License-Identifier: MIT( \*/)?\n", path.read_text()):
                wrong(f"{name} does not begin with its SPDX-License-Identifier")
    return f"{count} sources with their licence, no name that Windows refuses" if count else None


def readme(root, wrong):
    patterns = {"cpp": ("*.cpp", "*.hpp"), "c": ("*.c", "*.h"), "python": ("*.py",), "cmake": ("*.cmake",)}
    guides = [root / "README.md", *root.glob("examples/*.md"), *root.glob("examples/*/README.md")]
    count = 0
    for kind, of_kind in patterns.items():
        folders = ("examples", "tests/consumer")
        sources = "\n".join((root / folder / name).read_text() for folder in folders for name in files(root, folder, *of_kind))
        for guide in guides:
            for block in re.findall(rf"\n```{kind}\n(.*?)```", guide.read_text(), re.S):
                count += 1
                if block not in sources:
                    wrong(f"a block of {guide.name} stands in no example:\n{block}")
    return f"{count} blocks of code in {len(guides)} files, each from a file that is compiled or run"


def tags(root, wrong):
    ctags = shutil.which("ctags-universal") or shutil.which("ctags")
    if not ctags or "Universal Ctags" not in subprocess.run([ctags, "--version"], capture_output=True, text=True).stdout:
        return SKIPPED
    options = ["--languages=C++", "--map-C++=+.cuh", "--kinds-C++=cs", "--fields=+s", "-R", "-f", "-"]
    found = subprocess.run([ctags, *options, root / "include"], check=True, capture_output=True, text=True).stdout
    for name in ("session", "any_session", "transformer", "cpu", "reference"):
        if not re.search(rf"^{name}\t.*\t[cs]\tnamespace:lazyprune::v0$", found, re.M):
            wrong(f"ctags does not see, in namespace lazyprune::v0: {name}")
    return "the library's types can be found"


def main():
    checks = {check.__name__: check for check in (floors, mirror, names, readme, tags)}
    root = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent.parent
    faults, code = [], 0
    for name in sys.argv[1:2] or checks:
        before = len(faults)
        seen = checks[name](root, faults.append)
        if not seen:
            faults.append("expected files to check, found none")
        if seen is SKIPPED:
            print(seen)
            code = 77
            continue
        print(f"{name}: {seen}" if len(faults) == before else "\n  ".join([f"{name}:", *faults[before:]]), flush=True)
    sys.exit(1 if faults else code)


if __name__ == "__main__":
    main()
