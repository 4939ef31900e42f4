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
from statistics import fmean, median, stdev

import by_function
import count_report
import counts
import rows as bench_rows
from counts import Functions, Mark

import report
from report import Entry

# In the order of cache.c
STATES = ("alone", "emptied")
LINKED, L1D, L2_CODE, L2_DATA = CACHES = ("L1i, as linked", "L1d", "L2, code", "L2, data")
# The mean of the others
L1I = "L1i"
# Cycles that a miss costs at most, if the line is in the next cache: rough values of current processors.
CYCLES = {L1I: 14, L1D: 14, L2_CODE: 60, L2_DATA: 60}
# Functions that differ by less are not shown.
LEAST = 0.25
MOST = 4

WHAT = """\
Misses for each I/O, as medians of the windows, in caches that a plugin of QEMU simulates. All instructions of
the processor, of the kernel and of fio, go through one L1i ({l1i}), one L1d ({l1d})
and one L2 ({l2}). A line is 64 bytes, indices are physical, and the line that was used least
recently is replaced. L2 does not include L1. Writes are as reads. There is no prefetch, no speculation, no TLB
and no L3.

- *L1i* is the mean of {moves} caches. For each of them every function is moved by a number of lines of its own, as
  another link of the kernel might do; behind ± is the standard error. *as linked* is this kernel as it is: which
  functions compete for a set of the cache is chance there, and changes with every build.
- *alone*: nothing else runs, and each I/O finds what the last one left.
- *all emptied*: all caches are emptied every {batch} I/Os, as by other work between two batches. *L1 emptied* is
  other work that leaves L2 as it was: the L1 misses of the former and the L2 misses of *alone*.
- *lines touched* are the lines of code that {batch} I/Os execute something of, each counted once: what an empty L2
  misses. The size of text in a file does not show in any cache, but what is executed of it does.
- *own* is the code of the path alone.
- *cycles* are what the misses of the kernel take at most, {l1_cycles} for one in L1 and {l2_cycles} more for one in L2.
  Since a processor fetches ahead and does other work meanwhile, this is an upper bound.

Misses are of one processor: lines that others take away do not show. Two runs of one kernel agreed within 0.6 %
where there is more than one miss, but for L2 misses for data of emptied caches in writes (3 %)."""


@dataclass
class Misses:
    """What the plugin wrote: by mark, numbers of "user", "timer" and functions by address.

    Numbers are of CACHES and of the moved L1i, and then of the same when emptied.
    """
    line: int
    batch: int
    moves: int
    # (size, ways) of L1i, L1d, L2
    caches: list[tuple[int, int]]
    marks: dict[int, dict[str, list[int]]]


def read_misses(path: Path) -> Misses:
    misses = Misses(0, 0, 0, [], {})
    with open(path, encoding="ascii") as file:
        for line in file:
            words = line.split()
            if words[0] == "caches":
                misses.line, misses.batch, misses.moves, *sizes = map(int, words[1:])
                misses.caches = list(zip(sizes[::2], sizes[1::2], strict=True))
            elif words[0] == "mark":
                misses.marks[int(words[1])] = current = dict[str, list[int]]()
            else:
                current[words[0]] = list(map(int, words[1:]))
    return misses


def check_walks(run: Entry, misses: Misses) -> None:
    """Walks over memory missed exactly as in a cache that replaces the line used least recently."""
    if not run["walks"]:
        raise ValueError("no walk proves the caches: count.py had no --walks")
    for walk in run["walks"]:
        l1 = walk["kind"] == "read"
        for key, (size, _) in ((int(l1), misses.caches[l1]), (2 + l1, misses.caches[2])):
            wanted = walk["bytes"] // misses.line if walk["bytes"] > size else 0
            got = median(misses.marks[mark]["user"][key] for mark in walk["marks"])
            if got != wanted:
                raise ValueError(f"the simulated caches are wrong: a second walk that is to {walk['kind']} "
                                 f"{walk['bytes'] >> 10} KiB missed {CACHES[key]} {got:,.0f} times, not {wanted:,}")


def mark_of(counted: Mark, missed: dict[str, list[int]], key: int) -> Mark:
    """As if misses of one kind were instructions."""
    by_address = {int(address, 16): of[key] for address, of in missed.items() if address not in ("user", "timer")}
    calls = {address: counts[1] for address, counts in counted[2].items()}
    return missed["timer"][key], (missed["user"][key], 0, 0, 0), {
        address: (by_address.get(address, 0), calls.get(address, 0), 0, 0) for address in {**calls, **by_address}}


def mean_of(ofs: list[Entry]) -> Entry:
    """What counts.summary() says of some caches: their mean, and what the kernel misses in each."""
    functions: dict[str, float] = {}
    for of in ofs:
        for f in of["functions"]:
            functions[f["name"]] = functions.get(f["name"], 0) + f["instructions"] / len(ofs)
    names = ("kernel", "user", "timer", "own", "spread")
    return {**{name: round(fmean(of[name] for of in ofs), 4) for name in names},
            "each": [round(of["kernel"], 3) for of in ofs],
            "functions": {name: round(n, 3) for name, n in functions.items()}}


def digest(directories: Sequence[Path], functions: Functions, entries: dict[str, Entry]) -> Misses:
    """Adds the misses to what counts.digest() says of the rows. Returns the last of them."""
    rows = {row.id: row for row in bench_rows.all_rows("qemu")}
    for directory in directories:
        run = json.loads((directory / "run.json").read_text())
        marks, misses = counts.read_marks(directory / "counts"), read_misses(directory / "misses")
        check_walks(run, misses)
        for result in run["rows"]:
            for impl in dict.fromkeys(w["impl"] for w in result["windows"]):
                numbers = [w["mark"] for w in result["windows"] if w["impl"] == impl]
                found: Entry = {state: {} for state in STATES}
                kinds = len(CACHES) + misses.moves
                of = [counts.summary([
                    counts.window(rows[result["id"]], mark_of(marks[n], misses.marks[n], key), functions)
                    for n in numbers]) for key in range(kinds * len(STATES))]
                for number, state in enumerate(STATES):
                    mine = of[number * kinds:(number + 1) * kinds]
                    found[state] = {cache: mean_of([one]) for cache, one in zip(CACHES, mine, strict=False)}
                    found[state][L1I] = mean_of(mine[len(CACHES):])
                code = found["emptied"][L2_CODE]
                found["lines"] = {name: misses.batch * code[name] for name in ("own", "kernel", "user")}
                entries[result["id"]][impl]["misses"] = found
    return misses


# The lines of a row in the first table, with the state that L1 is in and that of L2.
CASES = {"alone": ("alone", "alone"), "L1 emptied": ("emptied", "alone"), "all emptied": ("emptied", "emptied")}
LINES_HEAD = ("row", "instructions C", "Rust", "own lines C", "Rust", "kernel lines C", "Rust", "user lines C", "Rust")
HEAD = ("row", "caches", "L1i C", "Rust", "Rust - C", "L1d C", "Rust", "L2 C", "Rust",
        "own L1i C", "Rust", "own L1d C", "Rust", "cycles C", "Rust", "Rust - C")


def case(side: Entry, l1: str, l2: str) -> tuple[list[float], float]:
    """Misses of one side as HEAD has them, and their cycles."""
    of = {cache: side["misses"][l2 if cache.startswith("L2") else l1][cache] for cache in CYCLES}
    kernel = {cache: float(misses["kernel"]) for cache, misses in of.items()}
    return ([kernel[L1I], kernel[L1D], kernel[L2_CODE] + kernel[L2_DATA], of[L1I]["own"], of[L1D]["own"]],
            sum(CYCLES[cache] * n for cache, n in kernel.items()))


def touched(entries: list[Entry]) -> Iterator[Sequence[str]]:
    for entry in entries:
        c, rust = entry["c"], entry["rust"]
        pairs = [(c["kernel"], rust["kernel"]), *(
            (c["misses"]["lines"][name], rust["misses"]["lines"][name]) for name in ("own", "kernel", "user"))]
        yield entry["row"].title, *(f"{n:,.0f}" for pair in pairs for n in pair)


def difference(c: list[float], rust: list[float]) -> str:
    """Of means over the moved L1i, with its standard error."""
    differences = [b - a for a, b in zip(c, rust, strict=True)]
    return f"{fmean(differences):+.1f} ± {stdev(differences) / len(differences) ** 0.5:.1f}"


def summary(entries: list[Entry]) -> Iterator[Sequence[str]]:
    for entry in entries:
        for name, states in CASES.items():
            (c, c_cycles), (rust, rust_cycles) = (case(entry[impl], *states) for impl in ("c", "rust"))
            numbers = [f"{n:,.1f}" for both in zip(c, rust, strict=True) for n in both]
            each = (entry[impl]["misses"][states[0]][L1I]["each"] for impl in ("c", "rust"))
            yield (entry["row"].title, name, *numbers[:2], difference(*each), *numbers[2:],
                   f"{c_cycles:,.0f}", f"{rust_cycles:,.0f}", f"{rust_cycles - c_cycles:+,.0f}")


def lines_of(entry: Entry) -> Iterator[tuple[str, list[float]]]:
    """(indented name, [C, Rust] of each state) of the table of a row."""
    for cache in (L1I, LINKED, L1D, L2_CODE, L2_DATA):
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
    return [f"## {entry['row'].title}", "",
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
        misses = digest(args.runs, functions, doc["rows"])
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {error}")
    doc["caches"] = {"line": misses.line, "batch": misses.batch, "moves": misses.moves, "size_ways": misses.caches}
    report.save(args.out, "profile.json", doc)
    entries = [e for e in count_report.in_order(doc["rows"]) if {"c", "rust"} <= e.keys()]
    sizes = [f"{size >> 10} KiB with {ways} ways" for size, ways in misses.caches]
    worst = max(e[impl]["misses"][state][cache]["spread"]
                for e in entries for impl in ("c", "rust") for state in STATES for cache in CYCLES
                if e[impl]["misses"][state][cache]["kernel"] >= 5)
    what = WHAT.format(l1i=sizes[0], l1d=sizes[1], l2=sizes[2], batch=misses.batch, moves=misses.moves,
                       l1_cycles=CYCLES[L1I], l2_cycles=CYCLES[L2_CODE])
    report.save_page(args.out, "Direct I/O, cache misses: Rust against C", [
        *count_report.facts(doc),
        ("caches", f"greatest spread of what misses five times or more {100 * worst:.2f} %; "
                   "walks over known memory in the guest missed exactly as they must")], [
        what, "", "## Lines touched", "", *report.markdown_table(LINES_HEAD, touched(entries), 1),
        "## Misses for each I/O", "", *report.markdown_table(HEAD, summary(entries), 2),
        *(line for e in entries for line in table(e))], doc["failures"])
    sys.exit(bool(doc["failures"]))


if __name__ == "__main__":
    main()
