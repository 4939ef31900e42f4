#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Instructions for each I/O by function, C beside Rust: tables, JSON and a picture.

Runs in the toolchain root, where matplotlib is.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import count_report
import counts
from rows import FILESYSTEMS, KINDS

import report
from report import BLUE, VERMILION, Document, Entry

Compared = tuple[str, float, float]

# Functions of less than that, on both sides, are one line together.
LEAST = 0.5
# Outside of the path's own code both sides run the same, but for the moment at which things happen.
DIFFERS = 2
NAME = 72


def compare(entry: Entry) -> dict[str, list[Compared]]:
    """By part: [(function, C, Rust)], the greatest difference first."""
    sides = {impl: {(f["part"], f["name"]): f["instructions"] for f in entry[impl]["functions"]}
             for impl in ("c", "rust")}
    out: dict[str, list[Compared]] = {part: [] for part in counts.PARTS}
    for part, name in dict.fromkeys([*sides["c"], *sides["rust"]]):
        out[part].append((name, sides["c"].get((part, name), 0), sides["rust"].get((part, name), 0)))
    for functions in out.values():
        functions.sort(key=lambda f: (-abs(f[2] - f[1]), -f[1]))
    return out


def short(name: str, width: int = NAME) -> str:
    return name if len(name) <= width else "…" + name[1 - width:]


def title(entry: Entry) -> str:
    row = entry["row"]
    return f"{FILESYSTEMS[row.fs]}, {KINDS[row.kind]}, {row.label}"


def lines_of(entry: Entry) -> Iterator[Compared]:
    """(indented name, C, Rust) of the table: sums in front, then the parts with their functions."""
    c, rust = entry["c"], entry["rust"]
    yield "all of the kernel", c["kernel"], rust["kernel"]
    for part, functions in compare(entry).items():
        yield part, c["parts"][part], rust["parts"][part]
        # Where both sides run the same code, only what differs says something.
        wanted = [f for f in functions
                  if max(f[1:]) >= LEAST and (part == counts.OWN or abs(f[2] - f[1]) >= DIFFERS)]
        for name, of_c, of_rust in wanted:
            yield "  " + name, of_c, of_rust
        rest = [f for f in functions if f not in wanted]
        if rest and wanted:
            yield f"  {len(rest)} other functions", sum(f[1] for f in rest), sum(f[2] for f in rest)
    yield "apart from that: timer interrupts", c["timer"], rust["timer"]
    yield "apart from that: user space", c["user"], rust["user"]


def table(entry: Entry) -> str:
    out = [f"{title(entry)}: instructions for each I/O",
           f"  {'':<{NAME}}  {'C':>8}  {'Rust':>8}  {'Rust - C':>8}"]
    for name, c, rust in lines_of(entry):
        both = "  ".join(f"{f'{value:,.1f}' if value else '-':>8}" for value in (c, rust))
        out.append(f"  {short(name):<{NAME}}  {both}  {rust - c:>+8.1f}")
    return "\n".join(out)


def label(name: str) -> str:
    if not name.startswith("  "):
        return f"**{name}**"
    return f"&emsp;{name.strip()}" if "other functions" in name else f"&emsp;`{name.strip()}`"


def markdown(doc: Document, entries: list[Entry]) -> str:
    body = ["Instructions for each I/O. Within a part, the functions that differ most come first; functions that take",
            "the same on both sides are summed up, and `profile.json` has them all.", "",
            "![Instructions by part of the kernel, and by function of the path](profile.svg)", ""]
    for entry in entries:
        body += [f"## {title(entry)}", "", *report.markdown_table(
            ("function", "C", "Rust", "Rust - C"),
            [(label(name), f"{c:,.1f}", f"{rust:,.1f}", f"{rust - c:+,.1f}") for name, c, rust in lines_of(entry)], 1)]
    return report.page("Direct I/O, by function: Rust against C", count_report.facts(doc), body)


def bars(ax: Any, labels: Sequence[str], values: Sequence[float], colours: Sequence[str], fills: Sequence[str]) -> None:
    """Horizontal bars from the top down, with their numbers."""
    at = range(len(values))
    ax.barh(at, values, color=fills, edgecolor=colours, height=0.78, lw=1)
    ax.set_yticks(at, labels, fontsize=7.5)
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=7, color="#888888")
    ax.set_xlim(0, 1.16 * max([*values, 1]))
    ax.grid(axis="x", color="#eeeeee", lw=0.6)
    ax.set_axisbelow(True)
    for y, value in zip(at, values, strict=True):
        ax.text(value, y, f" {value:,.0f}", va="center", fontsize=7, color="#333333")


def draw(path: Path, doc: Document, entries: list[Entry]) -> None:
    """Left the parts of the kernel, C above Rust; right the functions of the path's own code."""
    own = [[(f["name"], f["instructions"], impl) for impl in ("c", "rust") for f in entry[impl]["functions"]
            if f["part"] == counts.OWN and f["instructions"] >= LEAST] for entry in entries]
    heights = [max(len(counts.PARTS) * 2, len(functions)) * 0.17 + 0.75 for functions in own]
    figure, grid = report.pyplot().subplots(len(entries), 2, squeeze=False, figsize=(13, sum(heights) + 0.9),
                                            gridspec_kw={"height_ratios": heights, "width_ratios": (1, 1.05)})
    figure.subplots_adjust(left=0.1, right=0.985, top=1 - 0.95 / figure.get_figheight(),
                           bottom=0.45 / figure.get_figheight(), wspace=0.72, hspace=0.32)
    figure.text(0.012, 1 - 0.1 / figure.get_figheight(), "Direct I/O: instructions for each I/O, C and Rust",
                fontsize=13, fontweight="bold", va="top")
    figure.text(0.012, 1 - 0.4 / figure.get_figheight(), "Left: by part of the kernel. Right: the path's own code, by "
                "function. Blue and hollow is C, red is Rust.", fontsize=9, color="#444444", va="top")
    figure.text(0.988, 0.06 / figure.get_figheight(), count_report.note(doc), fontsize=6.5, color="#777777", ha="right")
    for (left, right), entry, functions in zip(grid, entries, own, strict=True):
        values: list[float] = []
        for part in counts.PARTS:
            values += [entry["c"]["parts"][part], entry["rust"]["parts"][part]]
        n = len(counts.PARTS)
        bars(left, [label for part in counts.PARTS for label in (part, "")], values,
             [BLUE, VERMILION] * n, ["white", VERMILION] * n)
        left.set_title(title(entry), fontsize=9.5, fontweight="bold", loc="left")
        bars(right, [short(name, 58) for name, _, _ in functions], [n for _, n, _ in functions],
             [BLUE if impl == "c" else VERMILION for *_, impl in functions],
             ["white" if impl == "c" else VERMILION for *_, impl in functions])
        right.set_title(f"own code: C {entry['c']['own']:,.0f}, Rust {entry['rust']['own']:,.0f}",
                        fontsize=9.5, loc="left")
    report.save_figure(figure, path)


def main() -> None:
    args = count_report.arguments(__doc__).parse_args()
    doc = count_report.document(args, "profile.json")
    entries = count_report.in_order(doc["rows"])
    draw(args.out / "profile", doc, entries)
    (args.out / "report.md").write_text(markdown(doc, entries))
    report.say("\n\n".join(table(entry) for entry in entries) + "\n", count_report.facts(doc), doc["failures"])


if __name__ == "__main__":
    main()
