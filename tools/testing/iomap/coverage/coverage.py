#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What the scripts reached: lines of the C file, edges of the Rust code.

Reads what coverage/guest.sh saved of two guests, one with the named scripts and one with those
drawn at random, and writes report.md and coverage.json. `make coverage` runs it, see coverage.sh.
"""

import argparse
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

ORACLE = "fs/iomap/direct-io.c"
OBJECT = "fs/iomap/direct_io_compare"
# The path, and the abstractions that it is built from.
RUST = re.compile(r"(fs/iomap/direct_io(\.rs|/.*\.rs)|rust/kernel/iomap(\.rs|/.*\.rs)|"
                  r"rust/kernel/(block/(bdev|bio|plug)|fs/inode|iov/iter|task/may_sleep)\.rs)$")
# Not of the path: the KUnit tests in Rust.
NOT_RUST = re.compile(r"(fs/iomap/tests/.*|rust/kernel/iomap/tests\.rs)$")


# Where an address comes from: file, line, function.
Frame = tuple[str, int, str]


class Trouble(Exception):
    """One line for whoever ran this."""


@dataclasses.dataclass
class Spot:
    """A line of the C file or an edge of the Rust code, and how often the scripts got there."""

    file: str
    line: int
    function: str | None
    named: int
    random: int
    text: str = ""
    # Why it is not reached
    reason: str = ""
    # The lines that an edge comes from, innermost first
    frames: list[tuple[str, int]] = dataclasses.field(default_factory=list)

    @property
    def reached(self) -> bool:
        return bool(self.named or self.random)


def slurp(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


# --- The list of what cannot be reached ---


class Reason:
    """A line of the file `unreachable`."""

    def __init__(self, where: str, words: str, why: str) -> None:
        self.where = where
        self.nth = 1
        found = re.fullmatch(r"(.*\S) #(\d+)", words)
        if found:
            words, self.nth = found.group(1), int(found.group(2))
        self.words = words
        self.why = why

    def __str__(self) -> str:
        return f"{self.where}: {self.words}" + (f" #{self.nth}" if self.nth > 1 else "")


def read_reasons(path: str) -> list[Reason]:
    """Where it is (a C function, or a Rust file), words of the line, why: with tabs in between."""
    reasons = []
    for n, line in enumerate(slurp(path).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [f.strip() for f in re.split(r"\t+", line.strip())]
        if len(fields) != 3 or not all(fields):
            raise Trouble(f"{path}:{n}: three fields with tabs in between are wanted, "
                          f"not {len(fields)}")
        reasons.append(Reason(*fields))
    return reasons


# --- C ---


def functions_of(source: str) -> list[str | None]:
    """For each line (from 1) the function it is in. The style of the kernel is relied upon."""
    inside: str | None = None
    name: str | None = None
    result: list[str | None] = [None]
    for line in source.splitlines():
        found = re.match(r"(?=[A-Za-z_]).*?\b(\w+)\(", line)
        if found and not line.startswith("#"):
            name = found.group(1)
        if line.startswith("{"):
            inside = name
        result.append(inside)
        if line.startswith("}"):
            inside = None
    return result


def parse_gcov(text: str) -> dict[int, int]:
    """{line: count} of the lines that have code."""
    counts = {}
    for row in text.splitlines():
        found = re.match(r"\s*([0-9]+|#####|=====)\*?:\s*([0-9]+):", row)
        if found and found.group(2) != "0":
            count = found.group(1)
            counts[int(found.group(2))] = int(count) if count.isdigit() else 0
    return counts


def gcov(args: argparse.Namespace, run: str) -> dict[int, int]:
    """{line: count} of the oracle, as `run` has left it."""
    # Where the build is, since the names of the sources are relative to it.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(args.build)) as tmp:
        for src in (os.path.join(args.build, OBJECT + ".gcno"),
                    os.path.join(run, os.path.basename(OBJECT) + ".gcda")):
            shutil.copy(src, tmp)
        done = subprocess.run([f"llvm-cov-{args.llvm}", "gcov", os.path.basename(OBJECT) + ".gcda"],
                              cwd=tmp, capture_output=True, text=True, check=False)
        path = os.path.join(tmp, os.path.basename(ORACLE) + ".gcov")
        if done.returncode or not os.path.exists(path):
            raise Trouble(f"llvm-cov-{args.llvm} gcov on {run}: {done.stderr.strip() or done.stdout}")
        counts = parse_gcov(slurp(path))
    if not any(counts.values()):
        raise Trouble(f"{run}: no line of {ORACLE} was counted")
    return counts


def explain_c(lines: Sequence[Spot], reasons: Sequence[Reason]) -> list[str]:
    """Gives unreached lines their reason; returns what is wrong with the list."""
    wrong = []
    for r in reasons:
        if r.where.endswith(".rs"):
            continue
        there = [line for line in lines if line.function == r.where and r.words in " ".join(line.text.split())]
        if len(there) < r.nth:
            wrong.append(f"unreachable: there is no such line: {r}")
        elif there[r.nth - 1].reached:
            wrong.append(f"unreachable: it is reached: {r} (line {there[r.nth - 1].line})")
        else:
            there[r.nth - 1].reason = r.why
    return wrong


# --- Rust ---


def read_edges(run: str) -> tuple[int, list[tuple[int, bool]]]:
    """Where _stext was, and [(address, reached)]."""
    rows = [line.split() for line in slurp(os.path.join(run, "edges")).splitlines()]
    if len(rows) < 2 or rows[0][1] != "_stext":
        raise Trouble(f"{run}/edges: there are none")
    return int(rows[0][0], 16), [(int(pc, 16), flag != "0") for pc, flag in rows[1:]]


def symbolize(args: argparse.Namespace, pcs: Sequence[int]) -> list[list[Frame]]:
    """For each address the frames, innermost first."""
    done = subprocess.run([f"llvm-symbolizer-{args.llvm}", "--output-style=JSON", "--inlines",
                           f"--obj={args.build}/linux"], input="".join(f"{pc:#x}\n" for pc in pcs),
                          capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or len(answers) != len(pcs):
        raise Trouble(f"llvm-symbolizer-{args.llvm}: {done.stderr.strip() or 'lines are missing'}")
    prefix = os.path.join(args.tree, "")
    result = []
    for answer in answers:
        frames = []
        for s in answer.get("Symbol") or []:
            name = os.path.normpath(s["FileName"]) if s["FileName"] else ""
            frames.append((name.removeprefix(prefix), s["Line"], s["FunctionName"]))
        result.append(frames)
    return result


def in_tree(frames: Sequence[Frame]) -> list[tuple[str, int]]:
    """The frames that lie in files of the tree, as (file, line)."""
    return [(f[0], f[1]) for f in frames if not f[0].startswith("/") and f[0].endswith(".rs")]


def place(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame in a file of ours, and the function that has the code; or nothing."""
    if any(NOT_RUST.match(f[0]) or "::tests::" in f[2] for f in frames):
        return None
    for f in frames:
        if RUST.match(f[0]):
            return f[0], f[1], frames[-1][2]
    return None


def linked_at(args: argparse.Namespace) -> int:
    """The address of _stext in the file."""
    done = subprocess.run([f"llvm-nm-{args.llvm}", f"{args.build}/linux"], capture_output=True,
                          text=True, check=True)
    found = re.search(r"^([0-9a-f]+) \w _stext$", done.stdout, re.MULTILINE)
    if not found:
        raise Trouble(f"{args.build}/linux has no _stext")
    return int(found.group(1), 16)


def rust_edges(args: argparse.Namespace) -> list[Spot]:
    """What there is to know of each edge."""
    named_base, named = read_edges(args.named)
    random_base, random = read_edges(args.random)
    at = linked_at(args)
    if [pc - named_base for pc, _ in named] != [pc - random_base for pc, _ in random]:
        raise Trouble("the two guests had different kernels")
    edges = []
    for frames, (_, n), (_, r) in zip(symbolize(args, [pc - named_base + at for pc, _ in named]),
                                      named, random, strict=True):
        where = place(frames)
        if where:
            edges.append(Spot(*where, named=n, random=r, frames=in_tree(frames)))
    if not edges:
        raise Trouble("no edge is in a Rust file of ours: has the kernel no debug information?")
    return edges


def explain_rust(edges: Sequence[Spot], reasons: Sequence[Reason],
                 sources: Mapping[str, Sequence[str]]) -> list[str]:
    """Gives edges their text, and unreached ones their reason: that of any line they come from."""
    wrong = []
    used = set()

    def text_of(name: str, line: int) -> str:
        text = sources.get(name, [])
        return text[line - 1].strip() if 0 < line <= len(text) else "(between lines)"

    for e in edges:
        e.text = text_of(e.file, e.line)
        if e.reached:
            continue
        lines = [(name, text_of(name, line)) for name, line in e.frames]
        for r in reasons:
            if any(r.where == name and r.words in text for name, text in lines):
                e.reason = r.why
                used.add(r)
                break
    for r in reasons:
        if r.where.endswith(".rs") and r not in used:
            wrong.append(f"unreachable: no such edge is left out: {r}")
    return wrong


# --- The report ---


def counted(rows: Sequence[Spot]) -> dict[str, int]:
    return {"total": len(rows), "named": sum(bool(r.named) for r in rows),
            "random": sum(bool(r.random) for r in rows), "together": sum(r.reached for r in rows)}


def unreached(rows: Sequence[Spot]) -> list[Spot]:
    return [r for r in rows if not r.reached]


def table(title: str, unit: str, rows: Sequence[Spot]) -> str:
    """A row for each file, and one for all."""
    files: dict[str, list[Spot]] = {}
    for r in rows:
        files.setdefault(r.file, []).append(r)
    text = [f"| {title} | {unit} | named scripts | random scripts | together |",
            "|---|--:|--:|--:|--:|"]
    for name, some in [*sorted(files.items()), ("all", rows)][:None if len(files) > 1 else 1]:
        n = counted(some)
        text.append(f"| {name} | {n['total']} | {n['named']} | {n['random']} "
                    f"| {n['together']} ({100 * n['together'] / n['total']:.1f} %) |")
    return "\n".join(text) + "\n"


def listing(rows: Sequence[Spot]) -> str:
    """Unreached ones; those of one line and function are one."""
    groups: dict[tuple[str, int, str, str], list[Spot]] = {}
    for r in rows:
        key = (r.file, r.line, r.function or "", r.reason)
        groups.setdefault(key, []).append(r)
    if not groups:
        return "None.\n"
    text = []
    for (name, line, function, reason), some in sorted(groups.items()):
        times = f" ({len(some)} times)" if len(some) > 1 else ""
        text.append(f"* `{name}:{line}` in `{function}`{times}: `{some[0].text.strip()}`"
                    + (f": {reason}" if reason else ""))
    return "\n".join(text) + "\n"


def last_line(lines: Sequence[Spot], edges: Sequence[Spot]) -> str:
    c, rust = counted(lines), counted(edges)
    return (f"C: {c['together']} of {c['total']} lines, "
            f"Rust: {rust['together']} of {rust['total']} edges")


def markdown(lines: Sequence[Spot], edges: Sequence[Spot], wrong: Sequence[str], about: str) -> str:
    text = ["# What the scripts reach", about]
    text.append("Lines of the C file, counted as by gcov:")
    text.append(table("C", "lines", lines))
    left = unreached(lines)
    text.append("## Lines not reached")
    text.append(listing([line for line in left if not line.reason]))
    text.append("## Lines that cannot be reached")
    text.append(listing([line for line in left if line.reason]))
    text.append("## Rust")
    text.append("An edge leads to a piece of machine code that is entered only as a whole. It belongs "
                "to the line of ours that it was made from; a line that is inlined several times, or "
                "is generic, has its edges each time. All of `direct_io.o` counts, and of the kernel "
                "crate what the path is built from.")
    text.append(table("Rust", "edges", edges))
    left = unreached(edges)
    text.append("## Edges not reached")
    text.append(listing([e for e in left if not e.reason]))
    text.append("## Edges that cannot be reached")
    text.append(listing([e for e in left if e.reason]))
    if wrong:
        text.append("## Wrong in the list of what cannot be reached")
        text.append("\n".join(f"* {w}" for w in wrong) + "\n")
    return "\n\n".join(t.rstrip("\n") for t in text) + "\n"


def report(args: argparse.Namespace) -> bool:
    """Writes the report; is all reached that can be?"""
    reasons = read_reasons(args.unreachable)
    source = slurp(os.path.join(args.tree, ORACLE))
    functions, text = functions_of(source), source.splitlines()
    named, random = gcov(args, args.named), gcov(args, args.random)
    if set(named) != set(random):
        raise Trouble("the two guests had different kernels")
    lines = [Spot(ORACLE, n, functions[n], named[n], random[n], text[n - 1].strip()) for n in sorted(named)]
    wrong = explain_c(lines, reasons)

    edges = rust_edges(args)
    sources = {name: slurp(os.path.join(args.tree, name)).splitlines()
               for name in {f[0] for e in edges for f in e.frames}
               if os.path.exists(os.path.join(args.tree, name))}
    notes = explain_rust(edges, reasons, sources)

    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "report.md"), "w", encoding="utf-8") as f:
        f.write(markdown(lines, edges, wrong + notes, args.about))
    with open(os.path.join(args.out, "coverage.json"), "w", encoding="utf-8") as f:
        json.dump({"about": args.about, "c": counted(lines), "rust": counted(edges),
                   "unreached_lines": [dataclasses.asdict(x) for x in unreached(lines)],
                   "unreached_edges": [dataclasses.asdict(x) for x in unreached(edges)],
                   "lines": {str(x.line): x.named + x.random for x in lines}},
                  f, indent=1)
        f.write("\n")
    missed = [x for x in unreached(lines) if not x.reason]
    for x in missed:
        print(f"not reached: {x.file}:{x.line} in {x.function}(): {x.text}")
    for w in wrong + notes:
        print(w)
    print(last_line(lines, edges))
    return not missed and not wrong


def main() -> int:
    ap = argparse.ArgumentParser(description="what the scripts reached")
    for option in ("llvm", "tree", "build", "named", "random", "unreachable", "out"):
        ap.add_argument(f"--{option}", required=True)
    ap.add_argument("--about", default="")
    try:
        return 0 if report(ap.parse_args()) else 1
    except (Trouble, OSError, subprocess.CalledProcessError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
