#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes the JSON and the report of counted cache lines.

Puts together what scale.py did in each guest (run.json) and what the plugin of
QEMU counted meanwhile (counts).
"""

import json
import math
import sys
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import count_report
import counts
import layout
from rows import FILESYSTEMS, KINDS
from scale import KINDS as SCALE_KINDS
from scale import PROCESSORS

import report
from report import Document

# By the start of the name of its function *_iomap_begin, what a struct inode is in, and who knows that.
INODES = {"ext4": ("fs/ext4/file", "ext4_inode_info"), "xfs": ("fs/xfs/xfs_file", "xfs_inode")}
# What moves less often is not in the table.
LEAST = 0.05

# (file system, kind, each job on a file of its own, implementation, processors)
Cell = tuple[str, str, bool, str, int]
IMPLS = {"c": "C", "rust": "Rust"}
WHAT = """\
Cache lines that move between processors, for each I/O of 4k: psync, one job on each processor, and each job in a part
of the file for itself. A line moves when a processor reads what another has written since, or writes what others have.

The model: the processors of a guest run by turns on one thread of QEMU, for {turn} instructions in the mean, of random
length from a fixed seed. Caches are infinite, coherent by MESI, and empty when a window of {window:g} ms of the guest
begins; nothing is fetched ahead. An instruction that reads and writes a line moves it once. Accesses of the kernel
count, those of user space and of timer interrupts do not. This says which lines processors contend for, and how often.
It says nothing of time: a move costs more from another socket, and who waits for a line or a lock takes turns all the
same.

Each run checks itself. A line that two processors pass to and fro moved {check} times a round; 2.00 is right. With one
processor nothing moved. Two guests did the same, and the table has the mean; they differ by at most {spread:.2f},
since objects lie at other addresses."""


class Window:
    """What the plugin wrote of a window."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self.inodes: dict[int, int] = {}
        self.moved: Counter[tuple[int, int]] = Counter()

    @property
    def ios(self) -> int:
        return sum(self.calls[name] for name in counts.PER_IO["psync"])

    @property
    def by_c(self) -> int:
        """Those that the C implementation served."""
        return sum(calls for name, calls in self.calls.items() if name.startswith("c_"))

    @property
    def lines(self) -> float:
        return self.moved.total() / self.ios


def read_windows(path: Path) -> tuple[int, list[Window]]:
    """How long a turn is, and the windows."""
    windows: list[Window] = []
    turn = 0
    for line in path.read_text().splitlines():
        match line.split():
            case ["turn", length]:
                turn = int(length)
            case ["window", _]:
                windows.append(Window())
            case ["call", name, calls]:
                windows[-1].calls[name] = int(calls)
            case ["inode", address, function]:
                windows[-1].inodes[int(address, 16)] = int(function, 16)
            case ["moved", address, function, times]:
                windows[-1].moved[int(address, 16), int(function, 16)] = int(times)
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

    Objects without a name come together by the function that accesses them.
    """
    moved: defaultdict[int | str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(windows, 0.0))
    accessed: defaultdict[int | str, Counter[str]] = defaultdict(Counter)
    for impl, window in windows.items():
        for (address, function), times in window.moved.items():
            name, known = names.of(address, function, window.inodes)
            line = address >> 6 if known else name
            moved[line][impl] += times / window.ios
            accessed[line][name] += times
    lines = [{"names": [name for name, times in fields.most_common() if times > fields.total() / 20], **moved[line]}
             for line, fields in accessed.items()]
    return sorted(lines, key=lambda line: -max(line[impl] for impl in windows))


def check_side(window: Window, fs: str, impl: str) -> None:
    """The implementation that was asked for is the one that ran."""
    if fs != "raw" and abs(window.by_c - (window.ios if impl == "c" else 0)) > window.ios / 10:
        raise ValueError(f"{fs}: the switch said {impl}, and C served {window.by_c} of {window.ios} I/Os")


def digest(directories: Sequence[Path], names: Names) -> Document:
    """What moved: in each guest and cell; in the first guest, with most processors on one file, by line."""
    cells: defaultdict[Cell, list[float]] = defaultdict(list)
    lines: dict[tuple[str, str], list[dict[str, Any]]] = {}
    checks, runs = [], []
    for directory in directories:
        run = json.loads((directory / "run.json").read_text())
        turn, windows = read_windows(directory / "counts")
        runs.append(run)
        moved = sum(times for (_, function), times in windows[run["check"]].moved.items() if not function)
        checks.append(moved / run["rounds"])
        if abs(checks[-1] - 2) > 0.02:
            raise ValueError(f"a line that passes to and fro moves {checks[-1]:.2f} times a round instead of 2.00: "
                             "the plugin counts wrong")
        for result in run["rows"]:
            fs, kind, n = result["fs"], result["kind"], result["processors"]
            for own in (False, True):
                mine = {w["impl"]: windows[w["window"]] for w in result["windows"] if w["own"] == own}
                for impl, window in mine.items():
                    check_side(window, fs, impl)
                    cells[fs, kind, own, impl, n].append(window.lines)
                    if n == 1 and window.lines >= 0.005:
                        raise ValueError(f"{fs}: with one processor {window.lines:.2f} lines move for each I/O: "
                                         "the plugin counts wrong")
                if mine and n == PROCESSORS[-1] and not own and fs != "raw":
                    lines.setdefault((fs, kind), by_line(mine, names))
    return {"turn": turn, "cells": cells, "lines": lines, "checks": checks, "runs": runs}


def loads(cells: dict[Cell, list[float]]) -> Iterator[tuple[str, str, bool, dict[str, list[float]]]]:
    """(file system, kind, own files, {implementation: lines by processors}), in the order of a table."""
    for fs, own, kind in product(FILESYSTEMS, (False, True), SCALE_KINDS):
        sides = {impl: [fmean(cells.get((fs, kind, own, impl, n), [math.nan])) for n in PROCESSORS]
                 for impl in IMPLS if (fs, kind, own, impl, PROCESSORS[-1]) in cells}
        if sides:
            yield fs, kind, own, sides


def table(cells: dict[Cell, list[float]]) -> list[str]:
    lines = []
    for fs, kind, own, sides in loads(cells):
        where = "a file each" if own else "one device" if fs == "raw" else "one file"
        lines.append([FILESYSTEMS[fs], KINDS[kind], where,
                      *(" / ".join(f"{n:.2f}" for n in at) for at in zip(*sides.values(), strict=True))])
    return report.markdown_table(["C / Rust", "", "processors:", *map(str, PROCESSORS)], lines, 3)


def lines_table(lines: list[dict[str, Any]]) -> list[str]:
    shown = [line for line in lines if max(line[impl] for impl in IMPLS) >= LEAST]
    cells = [[", ".join(f"`{name}`" for name in line["names"]), *(f"{line[impl]:.2f}" for impl in IMPLS)]
             for line in shown]
    rest = [f"{sum(line[impl] for line in lines if line not in shown):.2f}" for impl in IMPLS]
    return report.markdown_table(["line", *IMPLS.values()], [*cells, ["all others", *rest]], 1)


def main() -> None:
    args = count_report.arguments(__doc__).parse_args()
    try:
        names = Names(counts.functions_of(args.build, args.llvm), (args.build / "System.map").read_text(),
                      {fs: layout.read(args.build, *where) for fs, where in INODES.items()})
        found = digest(args.runs, names)
    except (OSError, ValueError, KeyError, IndexError) as error:
        sys.exit(f"error: {error}")
    cells, runs = found["cells"], found["runs"]
    if not cells:
        sys.exit("error: no row was measured")
    run, spread = runs[0], max(max(guests) - min(guests) for guests in cells.values())
    doc = {**report.origin(args, args.build / ".config"), "qemu": args.qemu, "turn": found["turn"],
           "checks": found["checks"], "spread": spread,
           "cells": [{**dict(zip(("fs", "kind", "own", "impl", "processors"), cell, strict=True)), "lines": guests}
                     for cell, guests in cells.items()],
           "lines": [{"fs": fs, "kind": kind, "lines": lines} for (fs, kind), lines in found["lines"].items()],
           "runs": [{k: v for k, v in run.items() if k not in ("rows", "failures")} for run in runs]}
    report.save(args.out, "scale.json", doc)
    machine, kernel = f"x86_64 in QEMU {args.qemu}", run["kernel"]["release"]
    body = [WHAT.format(turn=found["turn"], window=run["window"] * 1000, spread=spread,
                        check=" and ".join(f"{check:.2f}" for check in found["checks"])), "", *table(cells)]
    for (fs, kind), lines in found["lines"].items():
        body += [f"## {FILESYSTEMS[fs]}, {KINDS[kind]}, one file, {PROCESSORS[-1]} processors, by line", "",
                 *lines_table(lines)]
    report.save_page(args.out, "Cache lines that move: Rust against C",
                     report.facts(doc, machine, kernel, f"{run['guest']['fio']}, brd"), body,
                     list({failure["id"]: failure for run in runs for failure in run["failures"]}.values()))


if __name__ == "__main__":
    main()
