#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes the report of what hog.py has measured, and fails if a poller keeps completions in Rust waiting."""

import json
import sys

import count_report
from rows import FILESYSTEMS

import report
from report import Document, Entry

WHAT = """\
Writes of 4k, one in flight, by a poller on one of two processors, to a device that interrupts that processor after
10 us. *idle*: the poller is a task like others. *hog*: it has real-time priority (SCHED_FIFO), so that no worker ever
runs on its processor. In us of a clock that counts the instructions of both processors, 1,000 a us: compare them with
each other only. C has the patch that makes the work queue unbound as well: without it a write that needs the queue
does not end. Where a side has up to 10,000 us, which is a tick, a worker is likely to have waited on the hog's
processor. That is chance, and may fail a row."""
KINDS = {"unwritten": "into fallocated space", "append": "append", "cached": "a page of it is cached meanwhile",
         "dsync": "O_DSYNC into fallocated space"}
NAMES = ("p50", "p99", "p99.9")
# What O_DSYNC waits for is the journal, with threads of its own.
MOST = {"unwritten": 2, "append": 2, "cached": 2}


def ratio(row: Entry, impl: str) -> float:
    """How much longer the slowest of a thousand writes takes with the hog."""
    hog, idle = (row[impl][what]["p99.9"] for what in ("hog", "idle"))
    return float(hog / idle)


def late(doc: Document) -> list[Entry]:
    return [row for row in doc["rows"] if ratio(row, "rust") > MOST.get(row["kind"], float("inf"))]


def table(doc: Document) -> list[str]:
    def show(side: dict[str, int]) -> str:
        return " / ".join(f"{side[name] / 1000:,.0f}" for name in NAMES)

    head = [f"{impl}, {what}" for impl in ("C", "Rust") for what in ("idle", "hog", "p99.9 hog/idle")]
    return report.markdown_table([" / ".join(NAMES), "", *head], [
        [FILESYSTEMS[row["fs"]], KINDS[row["kind"]],
         *(cell for impl in ("c", "rust") for cell in
           (show(row[impl]["idle"]), show(row[impl]["hog"]), f"{ratio(row, impl):.2f}"))]
        for row in doc["rows"]], 2)


def main() -> None:
    args = count_report.arguments(__doc__).parse_args()
    run = json.loads((args.runs[0] / "run.json").read_text())
    doc = {**report.origin(args, args.build / ".config"), "qemu": args.qemu, **run}
    report.save(args.out, "hog.json", doc)
    report.save_page(args.out, "Writes while a poller owns the processor", report.facts(
        doc, f"x86_64 in QEMU {args.qemu}, two processors that take turns of 1,000 instructions",
        run["kernel"]["release"], f"{run['rows'][0]['writes'] if run['rows'] else 0} writes a side, null_blk"),
        [WHAT, "", *table(doc)], run["failures"])
    for row in late(doc):
        print(f"FAIL {row['id']}: with the hog p99.9 is {ratio(row, 'rust'):.2f} times as long")
    sys.exit(bool(late(doc) or run["failures"]))


if __name__ == "__main__":
    main()
