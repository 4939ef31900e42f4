#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes the JSON, the report and the picture of a counted run.

Runs in the toolchain root, where matplotlib is.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean

import counts
import rows as bench_rows

import report
from report import Document, Entry

HEAD = ("row", "C", "Rust", "raw", "C adds", "Rust adds", "Rust/C", "own C", "own Rust", "spread")
WHAT = """\
Instructions of the kernel for each I/O, as medians. *raw* is the same I/O on the bare block device;
*adds* is what the file system and the direct I/O path take on top of that, and *Rust/C* the ratio of
what they add: below 1.00 Rust is cheaper. *own* is the code of the path alone. *spread* is half
the interquartile range of the windows, relative to the median. Timer interrupts and user space are not
counted. Instructions are not time: a cache miss, a locked instruction and a mispredicted
branch count as one, and with one processor nobody else touches the same cache lines."""


def cells(entry: Entry) -> tuple[str, ...]:
    c, rust = entry.get("c", {}), entry.get("rust", {})

    def show(side: Entry, key: str) -> str:
        return f"{side[key]:,.0f}" if key in side else ""

    return (
        entry["row"].label, show(c, "kernel"), show(rust, "kernel"), show(entry, "raw"),
        show(c, "added"), show(rust, "added"),
        f"{entry['ratio']:.3f}" if "ratio" in entry else "",
        show(c, "own"), show(rust, "own"),
        f"{100 * max(side['spread'] for side in (c, rust) if side):.2f} %",
    )


def verdict(name: str, entries: list[Entry]) -> str:
    ratios = [e["ratio"] for e in entries if "ratio" in e]
    if not ratios:
        return f"{name}: nothing to compare"
    cheaper = sum(1 for r in ratios if r < 0.995)
    dearer = sum(1 for r in ratios if r > 1.005)
    return (f"{name}: Rust adds {geometric_mean(ratios):.3f} of what C adds (geometric mean of "
            f"{len(ratios)} rows); {cheaper} cheaper, {len(ratios) - cheaper - dearer} within 0.5 %, {dearer} dearer")


def facts(doc: Document) -> Iterator[tuple[str, str]]:
    run = doc["runs"][0]
    settings = run["settings"]
    worst = max(side["spread"] for e in doc["rows"].values() for side in (e.get("c"), e.get("rust")) if side)
    return report.facts(
        doc, f"x86_64 in QEMU {doc['qemu']}, one processor ({run['guest']['cpu']}, without ERMS and "
             "FSRM), instructions counted by a plugin",
        f"{run['kernel']['release']}, CONFIG_IOMAP_DIO_COMPARE, no mitigations, HZ=100",
        f"{run['guest']['fio']}, brd and null_blk; {settings['repeats']} windows or more of "
        f"{settings['window'] * 1000:g} million instructions a side; greatest spread {100 * worst:.2f} %")


def arguments(description: str | None) -> argparse.ArgumentParser:
    """What a run was made of, for this and for the programs like it."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, help="folders with what count.py and the plugin wrote")
    parser.add_argument("--build", type=Path, required=True, help="where the kernel was built")
    parser.add_argument("--llvm", required=True, help="the version in the names of LLVM's programs")
    parser.add_argument("--qemu", default="", help="its version")
    report.add_arguments(parser)
    return parser


def document(args: argparse.Namespace, name: str, machine: str = "qemu") -> Document:
    """What was counted, from the arguments; it is written to the file of that name as well."""
    try:
        rows, runs = counts.digest(args.runs, counts.functions_of(args.build, args.llvm), machine)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {error!r}")
    if not rows:
        sys.exit("error: no row was measured")
    doc = {**report.origin(args, args.build / ".config"), "qemu": args.qemu,
           "runs": [{k: v for k, v in run.items() if k not in ("rows", "failures")} for run in runs],
           "failures": [failure for run in runs for failure in run["failures"]], "rows": rows}
    report.save(args.out, name, doc)
    return doc


def in_order(rows: dict[str, Entry]) -> list[Entry]:
    """The entries as a list with their rows, as a reader wants them."""
    known = {row.id: row for row in bench_rows.all_rows("qemu")}
    return report.in_order({"row": known[row_id], **entry} for row_id, entry in rows.items())


def main() -> None:
    args = arguments(__doc__).parse_args()
    doc = document(args, "count.json")
    entries = in_order(doc["rows"])
    shown = report.picture(
        args.out / "count.svg", "Instructions that Rust adds to the raw device, relative to C, for every row", entries,
        lambda e: (min(1, e["ratio"]), e["ratio"], max(1, e["ratio"]), True),
        f"x86_64 in QEMU {doc['qemu']}, Linux {doc['runs'][0]['kernel']['release']}, {doc['date'][:10]}",
        "Direct I/O in Rust against C: instructions added to the raw device",
        "Left of 1.00 Rust is cheaper. Exact counts.", "instructions added, Rust / C")
    report.save_page(args.out, "Direct I/O, counted: Rust against C", facts(doc),
                     [WHAT, "", *shown, *report.markdown_tables(entries, "", HEAD, cells, verdict)],
                     doc["failures"], doc["runs"][0]["left_out"])


if __name__ == "__main__":
    main()
