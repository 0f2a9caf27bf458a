# SPDX-License-Identifier: MIT
"""Checks the source tree: python3 cmake/check_tree.py [CHECK [ROOT]]. Without CHECK it runs all checks. Exit code 77: a check was skipped.

floors   A header includes its own floor and those below, and names no flag of the program. Floors 0 to 3 include only the standard library
         and each other. The C header stands on a floor of its own and includes only headers of C's standard library.
mirror   include/lazyprune/PATH/x.hpp (or x.cuh) has a test, tests/PATH/x.test.cpp, and each test has its header. The test includes its
         header first, which shows that the header compiles alone. When several tests are compiled as one file, tests/odr shows this instead.
         Likewise examples/lazyprune/PATH/x.hpp has its tests/programs/PATH/x.test.cpp. These tests run the program and need not include the
         header.
names    No file or folder has a name that Windows refuses. Every source file names its licence in its first line, or in the second after #!.
picture  include/lazyprune/floors.svg shows what the folders include today. `python3 cmake/check_tree.py draw` draws it again.
readme   Every block of C++, C, Python or CMake in README.md and the guides stands word for word in a file that is compiled or run.
tags     Editors find the library's types: Universal Ctags sees a few that everybody looks for.
"""

import pathlib
import re
import shutil
import subprocess
import sys

import draw_floors

FLOORS = "core policy session registry backend model files text eval".split()
ABOVE_THE_FOLDERS = {"version.hpp": 0, "lazyprune.hpp": 2}

WITHOUT_TEST = """
    lazyprune version
    core/concepts core/policy
    core/evidence core/plan core/types core/views session/statistics session/step model/config model/generation model/weights files/family/model_family
    text/jinja/syntax text/tokenizer/unicode files/stored_tensor text/text_run eval/sample
""".split()  # Each of these has only includes and macros, is tested by tests/static and tests/compile_fail, or is used by every test.

PROGRAM_WITHOUT_TEST = """
    flag_checks
    commands/flags commands/outcome commands/prompt_run engine/backend_engines engine/engine engine/loaded_engine
    models/loading models/loading_definition models/sessions traces/replay words/model_words terminal/interrupts terminal/typed_lines
    pages/html pages/page_style pages/sweep_figures pages/sweep_page_template pages/sweep_tables pages/sweep_view
    pages/trace_page_template
    questions/growing_file questions/prediction_log questions/question_set questions/recorded_prediction questions/results questions/run_results
    questions/runner
    serve/chat_page serve/chat_page_template serve/completion_answer terminal/progress
""".split()  # The tests of command_line, of the commands and of the three pages test these. Only a terminal shows progress, so terminal/progress is not tested.

SKIPPED = "skipped: needs Universal Ctags (universal-ctags)"


def files(root, folder, *patterns):
    """The files below root/folder, as paths relative to root/folder, sorted."""
    top = root / folder
    return sorted(path.relative_to(top).as_posix() for pattern in patterns for path in top.rglob(pattern) if path.is_file())


def includes(path):
    return re.findall(r"^[ \t]*#[ \t]*include\b.*", path.read_text(), re.M)


def floor_of(header):
    """Returns the number of a header's floor; None if it stands on no floor."""
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
    headers = [path for path in headers if "detail" not in path.split("/")[:-1]]  # headers in detail/ are tested through the headers that include them
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


def example_floors(root):
    """Returns {floor: examples that include it and nothing above it}, and the floors of the examples that include c/."""
    top = root / "examples"
    units = {}  # the sources of each folder (its name ends with a slash) and of each single file
    for path in files(root, "examples", "*.c", "*.cpp", "*.h", "*.hpp"):
        parts = path.split("/")
        units.setdefault(parts[0] + "/" if len(parts) > 1 else path, []).append(top / path)
    found = {unit: [line for path in paths for line in includes(path)] for unit, paths in units.items()}
    beside, with_c = {}, set()

    def highest(unit):
        headers = re.findall(r"<lazyprune/([^>]+)>", "\n".join(found[unit]))
        quoted = [] if unit.endswith("/") else re.findall(r'"([^"]+)"', "\n".join(found[unit]))  # single files include them in quotes
        folders = [other for other in units if other.endswith("/") and any((top / other / header).exists() for header in quoted)]
        return max([floor_of(header) or 0 for header in headers] + [highest(folder) for folder in folders], default=0)

    for unit in sorted(units):
        if unit.endswith((".h", ".hpp")):  # a header is a part of the files that include it
            continue
        floor = FLOORS[highest(unit)]
        beside.setdefault(floor, []).append(unit)
        if any("<lazyprune/c/" in line for line in found[unit]):
            with_c.add(floor)
    return beside, sorted(with_c)


def drawn(root, wrong):
    """Returns the text of the picture. The words for each folder are those of the table in include/lazyprune/README.md."""
    top = root / "include/lazyprune"
    tour = top / "README.md"
    table = dict(re.findall(r"^\| `(\w+)/` \| (.*) \|$", tour.read_text(), re.M)) if tour.exists() else {}
    counts, edges = {}, {}
    for floor in FLOORS:
        headers = files(top, floor, "*.hpp", "*.cuh", "*.inc")
        if not headers:
            continue
        counts[floor] = len(headers)
        lines = "\n".join(line for path in headers for line in includes(top / floor / path))
        below = {floor_of(name) for name in re.findall(r"<lazyprune/([^>]+)>", lines)}
        edges[floor] = [other for number, other in enumerate(FLOORS[: FLOORS.index(floor)]) if number in below and other in counts]
    c_headers = files(top, "c", "*.h")
    for folder in [*counts, *(["c"] if c_headers else [])]:
        if folder not in table:
            wrong(f"include/lazyprune/README.md: the table of the floors has no line for `{folder}/`")
    words = {folder: table.get(folder, "").replace("`", "") for folder in [*FLOORS, "c"]}
    beside, with_c = example_floors(root)
    folders = {floor: (count, words[floor]) for floor, count in counts.items()}
    return draw_floors.picture(folders, edges, beside, (len(c_headers), words["c"], with_c) if c_headers else None)


def picture(root, wrong):
    path = root / "include/lazyprune/floors.svg"
    expected = drawn(root, wrong)
    if not path.exists() or path.read_text() != expected:
        wrong("include/lazyprune/floors.svg does not show what the folders include today. Run: python3 cmake/check_tree.py draw")
    return "floors.svg shows what the folders include"


def draw(root):
    faults = []
    (root / "include/lazyprune/floors.svg").write_text(drawn(root, faults.append))
    sys.exit("\n".join(faults) or None)


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
    checks = {check.__name__: check for check in (floors, mirror, names, picture, readme, tags)}
    root = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent.parent
    if sys.argv[1:2] == ["draw"]:
        draw(root)
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
