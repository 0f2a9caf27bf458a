# SPDX-License-Identifier: MIT
"""Draws the floors of include/lazyprune as an SVG picture, from the facts that check_tree.py collects.

The picture has no background. Its boxes are light with dark text. Its arrows and notes have a grey that shows on white and on dark pages.
"""

import html
import textwrap

COLUMNS = "backend policy session".split()  # from left to right. Each other folder is as wide as the folders that it includes

WIDTH = 880
COLUMN, COLUMN_GAP, ROW_GAP = 188, 14, 30  # pixels
EXAMPLES = (652, 192)  # left edge and width of the boxes at the right
LANE = sum(EXAMPLES) + 20  # the x at which the arrows to c/ go down
LINE = 17  # from one line of text to the next
LETTER = 6.7  # the mean width of a letter of 13 pixels, rounded up

STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: #24292f; }
.name { font-size: 16px; font-weight: 600; }
.count { font-size: 12px; fill: #57606a; }
.note { font-size: 12px; fill: #7d8590; }
.folder { fill: #ddebfa; stroke: #5b8fc7; }
.example { fill: #f3ecd9; stroke: #b08d3c; }
.arrow { fill: none; stroke: #7d8590; stroke-width: 1.5; marker-end: url(#head); }
"""

CAPTION = (
    "An arrow points from a folder to one that its files include. An arrow that follows from others is left out.",
    "An example stands beside the highest folder that it includes.",
)


class Box:
    """A folder in its columns and rows; both are counted from 0, at the left and at the bottom."""

    def __init__(self, name, columns, bottom):
        self.name, self.columns, self.bottom, self.top = name, columns, bottom, bottom

    @property
    def left(self):
        return 20 + min(self.columns) * (COLUMN + COLUMN_GAP)

    @property
    def right(self):
        return 20 + max(self.columns) * (COLUMN + COLUMN_GAP) + COLUMN

    def overlaps(self, other):
        return self.columns & other.columns and self.bottom <= other.top and other.bottom <= self.top


def without_implied(edges):
    """Returns the edges {folder: folders that it includes} without the edges that others imply. No folder may include itself, even through others."""

    def reached(folder):
        return set().union(*({other} | reached(other) for other in edges[folder]))

    return {folder: [b for b in others if not any(b in reached(a) for a in others)] for folder, others in edges.items()}


def boxes_of(edges):
    """Returns a box for each folder. The box stands above the boxes of all folders that its folder includes. It reaches up to the lowest box among
    the folders that include its folder."""
    boxes = {}
    for folder, others in edges.items():  # each folder comes after the folders that it includes
        columns = {COLUMNS.index(folder)} if folder in COLUMNS else set().union(*(boxes[other].columns for other in others))
        bottom = 1 + max((boxes[other].bottom for other in others), default=-1)
        boxes[folder] = Box(folder, columns or set(range(len(COLUMNS))), bottom)
    for box in boxes.values():
        above = [boxes[folder].bottom for folder, others in edges.items() if box.name in others]
        box.top = min(above, default=box.bottom + 1) - 1
    for box in boxes.values():
        for other in boxes.values():
            if box is not other and box.overlaps(other):
                raise SystemExit(f"draw_floors.py: {box.name} and {other.name} overlap: order COLUMNS otherwise")
    return boxes


def picture(folders, edges, examples, c_header):
    """Returns the picture's text.

    folders    {name: (number of files, one line of words)}, from the lowest floor to the highest
    edges      {name: names of the folders that its files include}, in the same order
    examples   {name of a folder: examples that stand beside it}
    c_header   None, or (number of files, words, names of the folders with arrows to c/: an example beside such a folder includes c/)
    """
    edges = without_implied(edges)
    boxes = boxes_of(edges)
    lines = {name: textwrap.wrap(words, int((boxes[name].right - boxes[name].left - 24) / LETTER)) for name, (_, words) in folders.items()}
    c_lines = textwrap.wrap(c_header[1], int((EXAMPLES[1] - 24) / LETTER)) if c_header else []

    # A row is as high as its tallest box needs. The box of a folder that spans several rows adds no height, and is stretched.
    rows = [0] * (1 + max(box.top for box in boxes.values()))
    for name, box in boxes.items():
        if box.bottom == box.top:
            rows[box.bottom] = max(rows[box.bottom], 42 + LINE * len(lines[name]))
        rows[box.top] = max(rows[box.top], 42 + LINE * len(examples.get(name, [])))
    rows[0] = max(rows[0], 42 + LINE * len(c_lines))
    height = sum(rows) + ROW_GAP * (len(rows) - 1) + 16 + 54
    bottoms = [height - 54 - sum(rows[:row]) - ROW_GAP * row for row in range(len(rows))]

    out = []

    def text(x, y, style, words, end=False):
        style = f' class="{style}"' if style else ""
        anchor = ' text-anchor="end"' if end else ""
        out.append(f'<text x="{x}" y="{y}"{style}{anchor}>{html.escape(words, quote=False)}</text>')

    def box_at(x, right, top, bottom, style, name, count, words, number=""):
        out.append(f'<rect x="{x}" y="{top}" width="{right - x}" height="{bottom - top}" rx="6" class="{style}"/>')
        if number:
            text(x + 12, top + 23, "count", number)
        text(x + (27 if number else 12), top + 24, "name", name)
        if count:
            text(right - 12, top + 23, "count", count, end=True)
        for i, line in enumerate(words):
            text(x + 12, top + 46 + LINE * i, "", line)

    def arrow(path):
        out.append(f'<path d="{path}" class="arrow"/>')

    def counted(n):
        return f"{n} file" if n == 1 else f"{n} files"

    def top_of(box):
        return bottoms[box.top] - rows[box.top]

    for number, (name, (count, _)) in enumerate(folders.items()):
        box = boxes[name]
        box_at(box.left, box.right, top_of(box), bottoms[box.bottom], "folder", f"{name}/", counted(count), lines[name], str(number))
        for other in edges[name]:
            below = boxes[other]
            left, right = max(box.left, below.left), min(box.right, below.right)
            arrow(f"M {(left + right) // 2} {bottoms[box.bottom]} V {top_of(below) - 2}")
    left, right = EXAMPLES[0], sum(EXAMPLES)
    for name in folders:
        if name not in examples:
            continue
        box = boxes[name]
        middle = bottoms[box.top] - rows[box.top] // 2
        box_at(left, right, top_of(box), bottoms[box.top], "example", "examples/", "", examples[name])
        arrow(f"M {left} {middle} H {box.right + 2}")
    if c_header:
        box_at(left, right, bottoms[0] - rows[0], bottoms[0], "folder", "c/", counted(c_header[0]), c_lines)
        for name in c_header[2]:
            row = boxes[name].top
            start, end = bottoms[row] - rows[row] // 2, bottoms[0] - rows[0] // 2
            down = f"Q {LANE} {start} {LANE} {start + 8} V {end - 8} Q {LANE} {end} {LANE - 8} {end}"  # with rounded corners
            arrow(f"M {right} {start} H {LANE - 8} {down} H {right + 2}")
    for i, line in enumerate(CAPTION):
        text(20, height - 26 + LINE * i, "note", line)

    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        'aria-labelledby="title">\n'
        "<!-- SPDX-License-Identifier: MIT -->\n"
        "<!-- Drawn from the includes by python3 cmake/check_tree.py draw; do not edit. -->\n"
        '<title id="title">The folders of include/lazyprune, and which of them includes which</title>\n'
        f"<style>{STYLE}</style>\n"
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M 0 0 L 8 4 L 0 8 z" fill="#7d8590"/></marker></defs>\n'
    )
    return head + "\n".join(out) + "\n</svg>\n"
