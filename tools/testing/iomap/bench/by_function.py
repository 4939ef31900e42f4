#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Instructions for each I/O by function, and those that are locked, C beside Rust: tables and JSON."""

import sys
from collections.abc import Iterator

import count_report
import counts

import report
from report import Entry

Compared = tuple[str, float, float]

# Functions of less than that, on both sides, are one line together.
LEAST = 0.5
LEAST_LOCKED = 0.05
# Outside of the path's own code both sides run the same, but for the moment at which things happen.
DIFFERS = 2


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


def locked_of(entry: Entry) -> Iterator[Compared]:
    """The same of locked instructions: the sum, and the functions that have some."""
    yield "all of the kernel", entry["c"]["locked"], entry["rust"]["locked"]
    sides = [{f["name"]: f["locked"] for f in entry[impl]["functions"]} for impl in ("c", "rust")]
    found = [("  " + name, *(side.get(name, 0) for side in sides)) for name in dict.fromkeys([*sides[0], *sides[1]])]
    yield from sorted((line for line in found if max(line[1:]) >= LEAST_LOCKED), key=lambda line: -max(line[1:]))


def label(name: str) -> str:
    if not name.startswith("  "):
        return f"**{name}**"
    return f"&emsp;{name.strip()}" if "other functions" in name else f"&emsp;`{name.strip()}`"


def table(entry: Entry) -> list[str]:
    out = []
    for what, lines in ((f"## {entry['row'].title}", lines_of(entry)), ("Locked instructions:", locked_of(entry))):
        out += [what, "", *report.markdown_table(
            ("function", "C", "Rust", "Rust - C"),
            [(label(name), f"{c:,.1f}", f"{rust:,.1f}", f"{rust - c:+,.1f}") for name, c, rust in lines], 1)]
    return out


def main() -> None:
    args = count_report.arguments(__doc__).parse_args()
    doc = count_report.document(args, "profile.json")
    report.save_page(args.out, "Direct I/O, by function: Rust against C", count_report.facts(doc), [
        "Instructions for each I/O. Within a part, the functions that differ most come first; functions that take",
        "the same on both sides are summed up, and `profile.json` has them all.", "",
        # The bare device has one side only.
        *(line for e in count_report.in_order(doc["rows"]) if {"c", "rust"} <= e.keys() for line in table(e)),
    ], doc["failures"])
    sys.exit(bool(doc["failures"]))


if __name__ == "__main__":
    main()
