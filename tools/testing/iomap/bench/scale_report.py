#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes the JSON, the report and the picture of counted cache lines.

Puts together what scale.py did in each guest (run.json) and what the plugin of
QEMU counted meanwhile (counts). Runs in the toolchain root, where matplotlib is.
"""

import json
import sys
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import count_report
import counts
import layout
from rows import FILESYSTEMS, KINDS
from scale import PROCESSORS

import report
from report import BLACK, BLUE, ORANGE, Document

# By the start of the name of its function *_iomap_begin, what a struct inode is in, and who knows that.
INODES = {"ext4": ("fs/ext4/file", "ext4_inode_info"), "xfs": ("fs/xfs/xfs_file", "xfs_inode")}

# (file system, kind, each on its own file, implementation, processors)
Cell = tuple[str, str, bool, str, int]
IMPLS = {"c": "C", "rust": "Rust"}
WHAT = """\
Cache lines that move between processors, for each I/O of 4k (psync, one job on each processor, which has a part of
the file for itself). A line moves when a processor reads what another has written since, or writes what others have.

The model: up to eight processors of a guest take turns of {turn} instructions on one thread of QEMU. Caches are
infinite, coherent by MESI, and empty when a window of {window:g} ms begins; nothing is fetched ahead. An instruction
that reads and writes a line moves it once. Accesses of the kernel count; those of user space and of timer interrupts
do not. This says which lines processors contend for, and how often. It says nothing of time: what a line costs
depends on where it comes from, and who waits for a lock takes its turns.

Each run checks itself: of a line that two processors pass to and fro, {check} moves for each round were counted;
2.00 are right. Two guests did the same, and the table has their mean; they differ by at most {spread:.2f}, since their
objects lie at other addresses."""


class Window:
    """What the plugin wrote of a window."""

    def __init__(self) -> None:
        self.ios = 0
        self.inodes: dict[int, int] = {}
        self.moved: Counter[tuple[int, int]] = Counter()

    @property
    def lines(self) -> float:
        return sum(self.moved.values()) / self.ios


def read_windows(path: Path) -> tuple[int, list[Window]]:
    """How long a turn is, and the windows."""
    windows: list[Window] = []
    turn = 0
    with open(path, encoding="ascii") as file:
        for line in file:
            match line.split():
                case ["turn", length]:
                    turn = int(length)
                case ["window", _]:
                    windows.append(Window())
                case ["call", _, calls]:
                    windows[-1].ios += int(calls)
                case ["inode", address, function]:
                    windows[-1].inodes[int(address, 16)] = int(function, 16)
                case ["moved", address, function, times]:
                    windows[-1].moved[int(address, 16), int(function, 16)] += int(times)
    return turn, windows


class Names:
    """What is at an address of the kernel."""

    def __init__(self, functions: counts.Functions, symbols: str, layouts: dict[str, layout.Layout]) -> None:
        self.functions, self.layouts = functions, layouts
        # Those of the low addresses are offsets.
        self.symbols = sorted((int(at, 16), name) for at, _, name in map(str.split, symbols.splitlines())
                              if at.startswith("ffff"))

    def of(self, address: int, function: int, inodes: dict[int, int]) -> tuple[str, bool]:
        """A field of an inode or a symbol, or else who accesses it; is it one of the former?"""
        for inode, begin in inodes.items():
            outer = self.layouts[self.functions[begin][0].split("_")[0]]
            if 0 <= address - inode + outer.inode < outer.size:
                return outer.name(address - inode + outer.inode), True
        if self.symbols[0][0] <= address <= self.symbols[-1][0]:
            return self.symbols[bisect(self.symbols, (address + 1,)) - 1][1], True
        return f"{self.functions[function][0]}()", False


def by_line(windows: dict[str, Window], names: Names) -> list[dict[str, Any]]:
    """The lines that move in the windows of the implementations, for each I/O, the most first.

    Objects without a name are many, and come together by the function that accesses them.
    """
    moved: defaultdict[int | str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(windows, 0.0))
    called: defaultdict[int | str, Counter[str]] = defaultdict(Counter)
    for impl, window in windows.items():
        for (address, function), times in window.moved.items():
            name, known = names.of(address, function, window.inodes)
            line = address >> 6 if known else name
            moved[line][impl] += times / window.ios
            called[line][name] += times
    return sorted(({"name": [name for name, times in called[line].most_common() if times > called[line].total() / 20],
                    **moved[line]} for line in moved),
                  key=lambda entry: -max(entry[impl] for impl in windows))


def digest(directories: list[Path], names: Names) -> Document:
    """The cells and their lines, of all runs."""
    cells: defaultdict[Cell, list[float]] = defaultdict(list)
    lines, checks, runs = {}, [], []
    for directory in directories:
        run = json.loads((directory / "run.json").read_text())
        turn, windows = read_windows(directory / "counts")
        runs.append(run)
        checks.append(sum(times for (_, function), times in windows[run["check"]].moved.items() if not function)
                      / run["rounds"])
        for result in run["rows"]:
            fs, kind, *_ = result["id"].split("/")
            for own in (False, True):
                mine = {w["impl"]: windows[w["window"]] for w in result["windows"] if w["own"] == own}
                for impl, window in mine.items():
                    cells[fs, kind, own, impl, result["processors"]].append(window.lines)
                if mine and result["processors"] == PROCESSORS[-1] and not own and directory == directories[0]:
                    lines[f"{fs}/{kind}"] = by_line(mine, names)
    return {"cells": cells, "lines": lines, "checks": checks, "turn": turn, "runs": runs}


def sides(cells: dict[Cell, list[float]], fs: str, kind: str, own: bool) -> Iterator[tuple[str, list[float]]]:
    """(implementation, lines by processors) of a load; of the raw device there is one."""
    for impl in IMPLS:
        found = [cells.get((fs, kind, own, impl, n)) for n in PROCESSORS]
        if all(found):
            yield impl, [fmean(runs) for runs in found if runs]


def loads(cells: dict[Cell, list[float]]) -> Iterator[tuple[str, str, bool]]:
    """(file system, kind, each job on its own file), in the order of a table."""
    yield from dict.fromkeys((fs, kind, own) for fs in FILESYSTEMS for own in (False, True)
                             for kind in ("randread", "randwrite") if (fs, kind, own, "c", 1) in cells)


def table(cells: dict[Cell, list[float]]) -> list[str]:
    lines = []
    for fs, kind, own in loads(cells):
        both = [figures for _, figures in sides(cells, fs, kind, own)]
        files = "a file each" if own else "one device" if fs == "raw" else "one file"
        lines.append([FILESYSTEMS[fs], KINDS[kind], files,
                      *(" / ".join(f"{lines:.2f}" for lines in at) for at in zip(*both, strict=True))])
    return report.markdown_table(["", "4k", "C / Rust, processors:", *map(str, PROCESSORS)], lines, 3)


def lines_table(entries: list[dict[str, Any]]) -> list[str]:
    """The lines that move at all, and the rest in one."""
    shown = [e for e in entries if max(e["c"], e["rust"]) >= 0.05]
    rest = {impl: sum(e[impl] for e in entries) - sum(e[impl] for e in shown) for impl in IMPLS}
    return report.markdown_table(["fields of the line", *IMPLS.values()], [
        *([", ".join(f"`{name}`" for name in e["name"]), *(f"{e[impl]:.2f}" for impl in IMPLS)]
          for e in shown),
        ["the rest", *(f"{rest[impl]:.2f}" for impl in IMPLS)]], 1)


def draw(cells: dict[Cell, list[float]], note: str) -> Any:
    """Lines moved over processors, for reads and for overwrites."""
    kinds = list(dict.fromkeys(kind for _, kind, _ in loads(cells)))
    figure, axes = report.pyplot().subplots(1, len(kinds), sharey=True, squeeze=False, figsize=(8.6, 4.2))
    figure.subplots_adjust(left=0.07, right=0.98, top=0.76, bottom=0.13, wspace=0.08)
    figure.text(0.012, 0.97, "Cache lines that move between processors", fontsize=13, fontweight="bold", va="top")
    figure.text(0.012, 0.90, "For each I/O of 4k, with a job on each processor. Counted; this is not time.",
                fontsize=9, color="#444444", va="top")
    figure.text(0.988, 0.015, note, fontsize=6.5, color="#777777", ha="right")
    for ax, kind in zip(axes[0], kinds, strict=True):
        for fs, of, own in loads(cells):
            for impl, figures in sides(cells, fs, of, own) if of == kind else ():
                colour = BLACK if fs == "raw" else {"c": ORANGE, "rust": BLUE}[impl]
                label = FILESYSTEMS[fs] if fs == "raw" else f"{FILESYSTEMS[fs]}, {IMPLS[impl]}"
                ax.plot(range(len(PROCESSORS)), figures, {"raw": "x", "ext4": "o", "xfs": "s"}[fs], color=colour,
                        ls=":" if own else "-" if impl == "c" else "--", lw=1.2, ms=4.5,
                        mfc="white" if impl == "rust" else colour,
                        label=None if own else label)
        ax.set_title(KINDS[kind], fontweight="bold", fontsize=10.5, loc="left", pad=6)
        ax.set_xticks(range(len(PROCESSORS)), PROCESSORS)
        ax.set_xlabel("processors", fontsize=8.5)
        ax.grid(axis="y", color="#dddddd", lw=0.6)
        ax.set_ylim(bottom=0)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper left", ncol=len(handles), frameon=False, fontsize=8.5,
                  bbox_to_anchor=(0.004, 0.87))
    return figure


def main() -> None:
    args = count_report.arguments(__doc__).parse_args()
    try:
        functions = counts.functions_of(args.build, args.llvm)
        names = Names(functions, (args.build / "System.map").read_text(),
                      {fs: layout.read(args.build, *where) for fs, where in INODES.items()})
        found = digest(args.runs, names)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {error!r}")
    cells, runs = found["cells"], found["runs"]
    wrong = [check for check in found["checks"] if abs(check - 2) > 0.02]
    if wrong:
        sys.exit(f"error: a line that passes to and fro moves {wrong[0]:.2f} times a round, not 2.00 times: "
                 "the plugin does not count right")
    if not cells:
        sys.exit("error: no row was measured")
    spread = max(max(each) - min(each) for each in cells.values())
    doc = {**report.origin(args, args.build / ".config"), "qemu": args.qemu, "turn": found["turn"], "checks": found["checks"],
           "spread": spread, "lines": found["lines"],
           "cells": [{"fs": fs, "kind": kind, "own": own, "impl": impl, "processors": n, "lines": each}
                     for (fs, kind, own, impl, n), each in cells.items()],
           "runs": [{k: v for k, v in run.items() if k not in ("rows", "failures")} for run in runs]}
    report.save(args.out, "scale.json", doc)
    kernel = runs[0]["kernel"]["release"]
    shown = []
    try:
        draw(cells, f"x86_64 in QEMU {args.qemu}, Linux {kernel}, {args.date[:10]}").savefig(
            args.out / "scale.svg", metadata={"Date": None})
        shown = ["![Cache lines moved per I/O over processors](scale.svg)", ""]
    except ImportError:
        print("no picture: apt-get install python3-matplotlib", file=sys.stderr)
    facts = report.facts(doc, f"x86_64 in QEMU {args.qemu}, 8 processors", kernel, runs[0]["guest"]["fio"] + ", brd")
    body = [WHAT.format(turn=found["turn"], window=runs[0]["window"] * 1000, spread=spread,
                        check=" and ".join(f"{check:.2f}" for check in found["checks"])), "",
            *table(cells), *shown]
    for load, entries in found["lines"].items():
        fs, kind = load.split("/")
        if fs != "raw":
            body += [f"## {FILESYSTEMS[fs]}, {KINDS[kind]}, one file, {PROCESSORS[-1]} processors", "",
                     *lines_table(entries)]
    report.save_page(args.out, "Cache lines that move: Rust against C", facts, body,
                     [failure for run in runs for failure in run["failures"]])


if __name__ == "__main__":
    main()
