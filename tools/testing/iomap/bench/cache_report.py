#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Cache misses for each I/O, C beside Rust: tables and JSON.

Puts together what count.py did in the guest (run.json), the calls that plugin.c counted (counts) and the misses
in the caches that cache.c simulated (misses).
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import by_function
import count_report
import counts
import rows as bench_rows
import stats
from counts import Functions, Mark
from rows import FILESYSTEMS, KINDS

import report
from report import Entry

# In the order of cache.c, first the ones, then the others.
STATES = ("alone", "emptied")
CACHES = ("L1i", "L1d", "L2, code", "L2, data")
KEYS = tuple((state, cache) for state in STATES for cache in CACHES)
SUBMITS = ("__x64_sys_io_uring_enter", "__x64_sys_io_submit", "__x64_sys_pread64", "__x64_sys_pwrite64")
# Cycles that a miss costs at most, if the line is in the next cache: rough values of current processors.
CYCLES = dict(zip(CACHES, (14, 14, 60, 60), strict=True))
# Functions that differ by less are not shown.
LEAST = 0.25
MOST = 4

WHAT = """\
Misses for each I/O, as medians of the windows, in caches that a plugin of QEMU simulates. All instructions of
the processor, kernel and fio, go through one L1i, one L1d and an L2 for both{sizes}.
A line is 64 bytes, indices are physical, and the line used least recently is replaced. L2 does not include L1.
Writes are as reads. There is no prefetch, no speculation, no TLB and no L3.

- *alone*: nothing else runs, and each I/O finds what the last one left.
- *emptied*: all caches are empty at each entry of the system call that submits, as after other work; the I/Os of
  one batch share what the first one fetches. *L1 emptied* is other work that leaves L2 as it was: the L1 misses
  of *emptied* and the L2 misses of *alone*.

*own* is the code of the path alone. *cycles* is what the misses of the kernel take at most, {cycles}:
an upper bound, since a processor fetches ahead and does other work meanwhile. Misses are simulated in one
processor: lines that others take away do not show."""


@dataclass
class Misses:
    """What the plugin wrote: by mark, numbers in the order of KEYS, of "user", "timer" and functions by address."""
    caches: list[int]
    marks: dict[int, dict[str, list[int]]]


def read_misses(path: Path) -> Misses:
    misses = Misses([], {})
    with open(path, encoding="ascii") as file:
        for line in file:
            words = line.split()
            if words[0] == "caches":
                misses.caches = list(map(int, words[1:]))
            elif words[0] == "mark":
                misses.marks[int(words[1])] = current = dict[str, list[int]]()
            else:
                current[words[0]] = list(map(int, words[1:]))
    return misses


def check_walks(run: Entry, misses: Misses) -> None:
    """Walks over memory missed exactly as in a cache that replaces the line used least recently."""
    line, *sizes = misses.caches
    l1i, l1d, l2 = sizes[::2]
    if not run["walks"]:
        raise ValueError("no walk proves the caches: count.py had no --walks")
    for walk in run["walks"]:
        l1, l1_size = (0, l1i) if walk["kind"] == "execute" else (1, l1d)
        for key, size in ((l1, l1_size), (l1 + 2, l2)):
            wanted = walk["bytes"] // line if walk["bytes"] > size else 0
            got = median(misses.marks[mark]["user"][key] for mark in walk["marks"])
            if got != wanted:
                raise ValueError(f"the simulated caches are wrong: a second walk that is to {walk['kind']} "
                                 f"{walk['bytes'] >> 10} KiB missed {CACHES[key]} {got:,.0f} times, not {wanted:,}")


def mark_of(counted: Mark, missed: dict[str, list[int]], key: int) -> Mark:
    """As if misses of one kind were instructions."""
    by_address = {int(address, 16): of[key] for address, of in missed.items() if address not in ("user", "timer")}
    calls = {address: calls for address, (_, calls) in counted[2].items()}
    return missed["user"][key], missed["timer"][key], {
        address: (by_address.get(address, 0), calls.get(address, 0)) for address in {**calls, **by_address}}


def digest(directories: Sequence[Path], functions: Functions, entries: dict[str, Entry]) -> list[int]:
    """Adds the misses to what counts.digest() says of the rows. Returns what is known of the caches."""
    rows = {row.id: row for row in bench_rows.all_rows("qemu")}
    for directory in directories:
        run = json.loads((directory / "run.json").read_text())
        marks, misses = counts.read_marks(directory / "counts"), read_misses(directory / "misses")
        check_walks(run, misses)
        for result in run["rows"]:
            for impl in dict.fromkeys(w["impl"] for w in result["windows"]):
                numbers = [w["mark"] for w in result["windows"] if w["impl"] == impl]
                side = entries[result["id"]][impl]
                side["misses"] = {state: {} for state in STATES}
                for key, (state, cache) in enumerate(KEYS):
                    of = counts.summary([
                        counts.window(rows[result["id"]], mark_of(marks[n], misses.marks[n], key), functions)
                        for n in numbers])
                    side["misses"][state][cache] = {
                        **{name: round(of[name], 3) for name in ("kernel", "user", "timer", "own")},
                        "spread": stats.spread(of["windows"]) if of["kernel"] >= 1 else 0,
                        "functions": {f["name"]: f["instructions"] for f in of["functions"] if f["instructions"]}}
                submits = sum(f["calls"] for f in side["functions"] if f["name"] in SUBMITS)
                side["batch"] = 1 / submits if submits else 0
    return misses.caches


# The lines of a row in the first table, with the state that L1 is in and that of L2.
CASES = {"alone": ("alone", "alone"), "L1 emptied": ("emptied", "alone"), "all emptied": ("emptied", "emptied")}
HEAD = ("row", "caches", "L1i C", "Rust", "L1d C", "Rust", "L2 C", "Rust", "own L1i C", "Rust", "own L1d C", "Rust",
        "cycles C", "Rust", "Rust - C")


def case(side: Entry, l1: str, l2: str) -> tuple[list[float], float]:
    """Misses of one side as HEAD has them, and their cycles."""
    of = [side["misses"][l2 if cache.startswith("L2") else l1][cache] for cache in CACHES]
    kernel = [float(misses["kernel"]) for misses in of]
    return [*kernel[:2], sum(kernel[2:]), of[0]["own"], of[1]["own"]], sum(
        CYCLES[cache] * n for cache, n in zip(CACHES, kernel, strict=True))


def summary(entries: list[Entry]) -> Iterator[Sequence[str]]:
    for entry in entries:
        row = entry["row"]
        for name, states in CASES.items():
            (c, c_cycles), (rust, rust_cycles) = (case(entry[impl], *states) for impl in ("c", "rust"))
            yield (f"{FILESYSTEMS[row.fs]}, {KINDS[row.kind]}, {row.label}", name,
                   *(f"{n:,.1f}" for both in zip(c, rust, strict=True) for n in both),
                   f"{c_cycles:,.0f}", f"{rust_cycles:,.0f}", f"{rust_cycles - c_cycles:+,.0f}")


def lines_of(entry: Entry) -> Iterator[tuple[str, list[float]]]:
    """(indented name, [C, Rust] of each state) of the table of a row."""
    for cache in CACHES:
        sides = [entry[impl]["misses"][state][cache] for state in STATES for impl in ("c", "rust")]
        yield f"{cache}: all of the kernel", [of["kernel"] for of in sides]
        yield counts.OWN, [of["own"] for of in sides]
        named = {name: [of["functions"].get(name, 0) for of in sides]
                 for name in dict.fromkeys(name for of in sides for name in of["functions"])}
        differ = {name: max(abs(n[1] - n[0]), abs(n[3] - n[2])) for name, n in named.items()}
        for name in sorted(named, key=lambda name: -differ[name])[:MOST]:
            if differ[name] >= LEAST:
                yield "  " + name, named[name]
        yield "apart from that: user space", [of["user"] for of in sides]


def table(entry: Entry) -> list[str]:
    row, c, rust = entry["row"], entry["c"], entry["rust"]
    return [f"## {FILESYSTEMS[row.fs]}, {KINDS[row.kind]}, {row.label}", "",
            f"{c['kernel']:,.0f} instructions of the kernel with C and {rust['kernel']:,.0f} with Rust; "
            f"{c['batch']:.1f} and {rust['batch']:.1f} I/Os between two times that caches are emptied.", "",
            *report.markdown_table(
                ("misses", "alone C", "Rust", "Rust - C", "emptied C", "Rust", "Rust - C"),
                [(by_function.label(name), *(text for a, b in (n[:2], n[2:])
                                             for text in (f"{a:,.2f}", f"{b:,.2f}", f"{b - a:+,.2f}")))
                 for name, n in lines_of(entry)], 1)]


def main() -> None:
    args = count_report.arguments(__doc__).parse_args()
    functions = counts.functions_of(args.build, args.llvm)
    doc = count_report.document(args, "profile.json")
    try:
        caches = digest(args.runs, functions, doc["rows"])
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {error}")
    doc["caches"] = caches
    report.save(args.out, "profile.json", doc)
    entries = [e for e in count_report.in_order(doc["rows"]) if {"c", "rust"} <= e.keys()]
    sizes = "".join(f", {name} of {size >> 10} KiB with {ways} ways"
                    for name, size, ways in zip(("L1i", "L1d", "L2"), caches[1::2], caches[2::2], strict=True))
    worst = max(of["spread"] for e in entries for impl in ("c", "rust")
                for state in e[impl]["misses"].values() for of in state.values())
    what = WHAT.format(sizes=sizes, cycles=f"{CYCLES['L1i']} for one in L1 and {CYCLES['L2, code']} more for one in L2")
    report.save_page(args.out, "Direct I/O, cache misses: Rust against C", [
        *count_report.facts(doc), ("caches", f"greatest spread of the misses of the kernel {100 * worst:.2f} %; "
                                   "walks over known memory in the guest missed exactly as they must")],
        [what, "", *report.markdown_table(HEAD, summary(entries), 2), *(line for e in entries for line in table(e))],
        doc["failures"])


if __name__ == "__main__":
    main()
