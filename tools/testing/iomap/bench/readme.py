#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Shows a full run of "make bench": README.md gets its table, example/ its report, census what it estimates with.

    make bench && tools/testing/iomap/bench/readme.py results/latest
"""

import json
import shutil
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import count_report
import mix
import rows as bench_rows

import report

PROJECT = Path(__file__).resolve().parents[4]
BEGIN, END = "<!-- results -->\n", "<!-- /results -->\n"
# The rows that tell most: the short paths, those with work of the file system in them, and the dearest.
SHOWN = ("randread/fixedbufs/4k", "randwrite/fixedbufs/4k", "randread/io_uring/8k", "randread/vector/128k",
         "split-read/fixedbufs/16k", "cached-write/fixedbufs/16k/depth=1/on=irq",
         "unwritten/fixedbufs/16k/depth=8/on=irq", "append/fixedbufs/4k/depth=1/on=irq",
         "log/fixedbufs/4k/depth=1/on=irq-fua", "log-unwritten/fixedbufs/4k/depth=1/on=irq-cache",
         "bounce-read/fixedbufs/4k", "bounce-write/fixedbufs/4k")
HEAD = ("workload", "C", "Rust", "Rust/C", "C adds", "Rust adds", "Rust/C", "of raw", "less the copy")


def section(doc: dict[str, Any]) -> str:
    """What stands between the marks."""
    rows = count_report.in_order(doc["rows"])
    if left_out := {row.id for row in bench_rows.all_rows()} - {e["row"].id for e in rows}:
        sys.exit(f"error: not all rows were counted: there is no {min(left_out)}")
    entries = [e for e in rows if e["row"].fs != "raw"]
    shown, verdicts = [], []
    for fs, of_fs in groupby(entries, lambda e: e["row"].fs):
        mine = list(of_fs)
        verdicts.append(f"* {count_report.verdict(bench_rows.FILESYSTEMS[fs], mine)}")
        for e in mine:
            if e["row"].id.removeprefix(f"{fs}/") in SHOWN and fs in ("ext4", "xfs"):
                _, c, rust, whole, _, *added = count_report.cells(e)
                shown.append((e["row"].title, c, rust, whole, *added[:5]))
    return "\n".join([
        "Instructions of the kernel for each I/O, C / Rust where a cell has two figures",
        f"(Linux {doc['runs'][0]['kernel']['release']}, x86_64 in QEMU {doc['qemu']}, {doc['date'][:10]}, commit "
        f"{doc['git']['commit'][:7]}):", "", *report.markdown_table(HEAD, shown, 1),
        f"All {len(entries)} rows:", "", *verdicts, ""])


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    results = Path(sys.argv[1])
    try:
        doc = json.loads((results / "count.json").read_text())
        text = section(doc)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {results} holds no run of 'make bench': {error!r}")
    example = PROJECT / "tools/testing/iomap/bench/example"
    shutil.copy(results / "report.md", example / "count.md")
    shutil.copy(results / "count.png", example / "count.png")
    readme = PROJECT / "README.md"
    before, rest = readme.read_text().split(BEGIN)
    readme.write_text(before + BEGIN + text + END + rest.split(END)[1])
    mix.update(doc["rows"])


if __name__ == "__main__":
    main()
