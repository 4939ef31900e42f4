#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes the JSON, the report and the picture of a counted run.

Runs in the toolchain root, where matplotlib is.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean

import counts
import rows as bench_rows

import report
from report import Document, Entry

HEAD = ("row", "C", "Rust", "Rust/C", "raw", "C adds", "Rust adds", "added Rust/C", "of raw", "less the copy",
        "own", "locked", "spread")
WHAT = """\
*C* and *Rust* are instructions of the whole kernel for each I/O, as medians, and the first *Rust/C* is their
ratio: below 1.00 Rust is cheaper. *raw* is the same I/O on the bare block device; *adds* is what the file
system and the direct I/O path take on top of that, and *added Rust/C* the ratio of what they add.
*of raw* says the same in another way: as many I/Os as the bare device does in the same number of
instructions, in percent, C and then Rust. The device is memory, so that all of these hold a copy that a disk
does not make: *less the copy* is *of raw* without it.
*own* is the code of the path alone, and *locked* the instructions of the kernel with a lock prefix, both C
and then Rust. *spread* is half the interquartile range of the windows, relative to the median. Timer
interrupts and user space are not counted. Instructions are not time: a cache miss and a mispredicted branch
do not show, a locked instruction counts as one, and one processor shares no cache line with another.
Rows *with a delay* are on a device that completes 10 us later from an interrupt, as a disk does. On the others
the bio ends before the submitter has left, so that no worker is woken."""


def cells(entry: Entry) -> tuple[str, ...]:
    c, rust = entry.get("c", {}), entry.get("rust", {})
    both = [side for side in (c, rust) if side]

    def show(side: Entry, key: str, form: str = ",.0f") -> str:
        return f"{side[key]:{form}}" if key in side else ""

    def of_raw(less: float) -> str:
        if entry["row"].fs == "raw" or "raw" not in entry:
            return ""
        return " / ".join(f"{100 * (entry['raw'] - less) / (side['kernel'] - less):.0f}" for side in both) + " %"

    return (
        entry["row"].label, show(c, "kernel"), show(rust, "kernel"), show(entry, "whole", ".3f"),
        show(entry, "raw"),
        show(c, "added"), show(rust, "added"), show(entry, "ratio", ".3f"),
        of_raw(0), of_raw(entry.get("copy", 0)),
        " / ".join(show(side, "own") for side in both), " / ".join(show(side, "locked", ".1f") for side in both),
        f"{100 * max(side['spread'] for side in both):.2f} %",
    )


def verdict(name: str, entries: list[Entry]) -> str:
    wholes, ratios = ([e[key] for e in entries if key in e] for key in ("whole", "ratio"))
    if not ratios:
        return f"{name}: nothing to compare"
    cheaper = sum(1 for r in ratios if r < 0.995)

    def named(entry: Entry) -> str:
        """With the spread, where chance may be the larger part of the difference."""
        spread = max(entry[impl]["spread"] for impl in ("c", "rust"))
        chance = f", spread {100 * spread:.1f} %" * (spread > 0.005)
        return f"{bench_rows.KINDS[entry['row'].kind]}, {entry['row'].label} ({entry['ratio']:.3f}{chance})"

    dearer = [named(e) for e in entries if e.get("ratio", 0) > 1.005]
    return (f"{name}: Rust takes {geometric_mean(wholes):.3f} of the instructions that C takes (geometric mean of "
            f"{len(wholes)} rows), and adds {geometric_mean(ratios):.3f} of what C adds to the bare device (of "
            f"{len(ratios)}); {cheaper} cheaper, {len(ratios) - cheaper - len(dearer)} within 0.5 %, "
            f"{len(dearer)} dearer" + (": " + "; ".join(dearer)) * bool(dearer))


def refused(entries: list[Entry]) -> list[str]:
    """How many of those that must not wait are refused."""
    lines = [(bench_rows.FILESYSTEMS[e["row"].fs], *(f"{100 * e[impl]['again']:.1f} %" for impl in ("c", "rust")))
             for e in entries if e["row"].kind == "nowait-append" and {"c", "rust"} <= e.keys()]
    if not lines:
        return []
    return ["## Refused with -EAGAIN", "", f"Of the row \"{bench_rows.KINDS['nowait-append']}\". What is refused is "
            "repeated without the flag, and the row counts both.", "",
            *report.markdown_table(("file system", "C", "Rust"), lines, 1)]


def text(doc: Document) -> list[str]:
    """The size of the code."""
    return ["## Text", "", "Bytes of machine code. What is in line in the file systems is not in it.", "",
            *report.markdown_table(("part", "bytes"), [(name, f"{size:,}") for name, size in doc["text"].items()], 1)]


def facts(doc: Document) -> Iterator[tuple[str, str]]:
    run = doc["runs"][0]
    settings = run["settings"]
    worst = max(side["spread"] for e in doc["rows"].values() for side in (e.get("c"), e.get("rust")) if side)
    return report.facts(
        doc, f"x86_64 in QEMU {doc['qemu']}, one processor ({run['guest']['cpu']}, without ERMS, "
             "FSRM and FSRS), instructions counted by a plugin",
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
    """What was counted, from the arguments; it is written to the file of that name as well.

    That file may have rows of guests before these, for the same results: what was counted again counts.
    """
    try:
        rows, runs = counts.digest(args.runs, counts.functions_of(args.build, args.llvm), machine)
        text_bytes = counts.text_of(args.build, args.llvm)
    except ValueError as error:
        sys.exit(f"error: {error}")
    except (OSError, KeyError) as error:
        sys.exit(f"error: {error!r}")
    if not rows:
        sys.exit("error: no row was measured")
    earlier: Document = {"runs": [], "failures": [], "rows": {}}
    if (args.out / name).exists():
        earlier = json.loads((args.out / name).read_text())
    failures = {failure["id"]: failure for run in (earlier, *runs) for failure in run["failures"]}
    doc = {**report.origin(args, args.build / ".config"), "qemu": args.qemu, "text": text_bytes,
           "runs": earlier["runs"] + [{k: v for k, v in run.items() if k not in ("rows", "failures")} for run in runs],
           "failures": [failure for row_id, failure in failures.items() if row_id not in rows],
           "rows": {**earlier["rows"], **rows}}
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
        args.out / "count.png", "Instructions that Rust adds to the raw device, relative to C, for every row", entries,
        lambda e: (e["ratio"], e["ratio"], e["ratio"], True),
        f"x86_64 in QEMU {doc['qemu']}, Linux {doc['runs'][0]['kernel']['release']}, {doc['date'][:10]}",
        "Direct I/O in Rust against C: instructions added to the raw device",
        "Left of 1.00 Rust is cheaper. Exact counts.", "instructions added, Rust / C")
    # The bare device stands beside the others, unless there are none.
    of_fs = [e for e in entries if e["row"].fs != "raw"] or entries
    report.save_page(args.out, "Direct I/O, counted: Rust against C", facts(doc),
                     [WHAT, "", *shown, *report.markdown_tables(of_fs, "", HEAD, cells, verdict), *refused(entries),
                      *text(doc)],
                     doc["failures"], doc["runs"][0]["left_out"])
    sys.exit(bool(doc["failures"]))


if __name__ == "__main__":
    main()
