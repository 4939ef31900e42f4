#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Where the saving comes from: keeps what was counted of one variant, and makes the report once all are there.

ablate.sh calls it for each variant of ablations.py, with the same folder.
"""

import json
import sys
from collections.abc import Callable
from itertools import chain

import count_report
import counts
from ablations import AS_IT_IS, LIKE_C, MEASURES, VARIANTS, says
from rows import FILESYSTEMS, KINDS

import report
from report import Document, Entry

WHAT = """\
Rust is cheaper than C because its algorithm differs. Each patch below puts the algorithm of C back in one place, for
this measurement only. **C could take each of these measures too**: none of them needs Rust."""
WORTH = """\
What Rust adds without the measure, less what it adds as it is, in instructions of the kernel for each I/O. *adds* is
what comes on top of the same I/O on the bare block device. *All four* is without the first four together; *no memset*
is no change of the algorithm, but of how the iterator is zeroed. The three after it are for writes that a worker
completes; without one work item for many there is nothing to tell or to flush at once. The compiler lays the code out
anew for each variant, so that less than ten instructions say nothing. A locked instruction counts as one, so that the
reference count is worth more in time than it shows here."""
LEFT = """\
What Rust adds, relative to C. *Like C* is Rust with all that C does: without *single-bio*, *no-cache-calls*, *one-call*
and *no-memset*. It adds more than without the five, because a request that counts its bios also has the loops for many
of them and for many mappings, as in C. They cannot be separated further: there is no Rust of them without memory and
count. Reads of one block are the same in C and in Rust, so that nothing is taken out of them."""
PARTS = """\
What is left by parts of the kernel: what C adds less what *like C* adds. Above zero C takes more."""


def merged(counted: dict[str, Document]) -> dict[str, Entry]:
    """By row: what C and each variant add, for the rows that were counted in all of them."""
    out = {}
    for row_id, entry in counted[AS_IT_IS]["rows"].items():
        if "ratio" in entry and all(row_id in doc["rows"] for doc in counted.values()):
            sides = {"c": entry["c"], **{name: doc["rows"][row_id]["rust"] for name, doc in counted.items()}}
            out[row_id] = {"raw": entry["raw"], "sides": {
                name: {"kernel": side["kernel"], "added": side["kernel"] - entry["raw"],
                       "ratio": (side["kernel"] - entry["raw"]) / entry["c"]["added"], "parts": side["parts"]}
                for name, side in sides.items()}}
    return out


def table(entries: list[Entry], head: list[str], cells: Callable[[dict[str, Entry]], list[str]]) -> list[str]:
    return report.markdown_table(["workload", "", *head], [
        (f"{FILESYSTEMS[e['row'].fs]}, {KINDS[e['row'].kind]}", e["row"].label, *cells(e["sides"]))
        for e in entries], 2)


def worth(sides: dict[str, Entry]) -> list[str]:
    c, rust = sides["c"]["added"], sides[AS_IT_IS]["added"]
    return [*(f"{n:,.0f}" for n in (c, rust, c - rust)),
            *(f"{sides[name]['added'] - rust:+,.0f}" for name in VARIANTS if name != AS_IT_IS)]


def page(entries: list[Entry]) -> list[str]:
    without = [*MEASURES.values(), "all four", "like C"]
    return [
        WHAT, "", *report.markdown_table(("patch", "what it does"), [
            (f"`{name}`", says(name)) for name in dict.fromkeys(chain.from_iterable(VARIANTS.values()))], 2),
        "## What each is worth", "", WORTH, "",
        *table(entries, ["C adds", "Rust adds", "C - Rust", *without], worth),
        "## What is left without it", "", LEFT, "",
        *table(entries, ["Rust", *without], lambda sides: [f"{sides[name]['ratio']:.3f}" for name in VARIANTS]),
        PARTS, "",
        *table(entries, [*counts.PARTS], lambda sides: [
            f"{sides['c']['parts'][part] - sides[LIKE_C]['parts'][part]:+,.0f}" for part in counts.PARTS]),
    ]


def main() -> None:
    parser = count_report.arguments(__doc__)
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    args = parser.parse_args()
    count_report.document(args, f"{args.variant}.json")
    files = {name: args.out / f"{name}.json" for name in VARIANTS}
    if not all(file.exists() for file in files.values()):
        return
    counted = {name: json.loads(file.read_text()) for name, file in files.items()}
    first = counted[AS_IT_IS]
    doc = {**first, "rows": merged(counted),
           "failures": [*{f["id"]: f for one in counted.values() for f in one["failures"]}.values()]}
    report.save(args.out, "ablate.json", doc)
    report.save_page(args.out, "Direct I/O, counted: where the saving comes from", count_report.facts(first),
                     page(count_report.in_order(doc["rows"])), doc["failures"])
    sys.exit(bool(doc["failures"]))


if __name__ == "__main__":
    main()
