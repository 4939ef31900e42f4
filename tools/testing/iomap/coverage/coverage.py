#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What the scripts reached: lines of the C file, edges of the Rust code.

Reads what coverage/guest.sh saved of two guests, one with the named scripts and one with those
drawn at random, and writes report.md and coverage.json. `make coverage` runs it, see coverage.sh.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path

ORACLE = "fs/iomap/direct-io.c"
OBJECT = Path("fs/iomap/direct_io_compare")
# The path, and the abstractions that it is built from.
RUST = re.compile(r"(fs/iomap/direct_io(\.rs|/.*\.rs)|rust/kernel/iomap(\.rs|/.*\.rs)|"
                  r"rust/kernel/(block/(bdev|bio|plug)|fs/(inode|kiocb/request)|iov/iter|task/may_sleep)\.rs)$")
# Not of the path: the KUnit tests in Rust.
NOT_RUST = re.compile(r"(fs/iomap/tests/.*|rust/kernel/iomap/tests\.rs)$")


# Where an address comes from: file, line, function.
Frame = tuple[str, int, str]


class Trouble(Exception):
    """One line for whoever ran this."""


@dataclass
class Spot:
    """A line of the C file or an edge of the Rust code, and how often the scripts got there."""

    file: str
    line: int
    function: str
    named: int
    random: int
    text: str = ""
    # Why it is not reached
    reason: str = ""
    # The lines that an edge comes from, innermost first
    frames: list[tuple[str, int]] = field(default_factory=list)

    @property
    def reached(self) -> bool:
        return bool(self.named or self.random)


def run(tool: str, *words: str | Path, given: str = "", cwd: Path | None = None) -> str:
    done = subprocess.run([tool, *words], input=given, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Trouble(f"{tool}: {done.stderr.strip() or done.stdout}")
    return done.stdout


# --- The list of what cannot be reached ---


@dataclass(frozen=True)
class Reason:
    """A line of the file `unreachable`."""

    where: str
    words: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.words}"


def read_reasons(path: Path) -> list[Reason]:
    """Where it is (a C function, or a Rust file), words of the line, why: with tabs in between."""
    reasons = []
    for n, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [f.strip() for f in re.split(r"\t+", line.strip())]
        if len(fields) != 3 or not all(fields):
            raise Trouble(f"{path}:{n}: three fields with tabs in between are wanted, not {len(fields)}")
        reasons.append(Reason(*fields))
    return reasons


# --- C ---


def parse_gcov(text: str) -> dict[int, tuple[str, int]]:
    """{line: (function, count)} of the lines of the oracle that have code, from gcov's intermediate format."""
    counts, functions = {}, {}
    for name, lines in groupby(text.splitlines(), lambda line: line.startswith("file:") and line):
        if name:
            ours = name.endswith("/" + ORACLE)
            continue
        for kind, _, values in (line.partition(":") for line in lines if ours):
            number, count, *rest = values.split(",")
            if kind == "function":
                # In a kernel with both implementations, those that others call have a prefix.
                functions[int(number)] = rest[0].removeprefix("c_")
            elif kind == "lcount":
                counts[int(number)] = int(count)
    return {line: (functions[max(start for start in functions if start <= line)], count)
            for line, count in sorted(counts.items())}


def gcov(args: argparse.Namespace, guest: Path) -> dict[int, tuple[str, int]]:
    """The lines of the oracle, as a guest has left them."""
    run(f"llvm-cov-{args.llvm}", "gcov", "--intermediate-format", f"--gcno={args.build / OBJECT}.gcno",
        f"--gcda={guest / OBJECT.name}.gcda", "oracle", cwd=guest)
    lines = parse_gcov((guest / "oracle.gcov").read_text())
    if not any(count for _, count in lines.values()):
        raise Trouble(f"{guest}: no line of {ORACLE} was counted")
    return lines


def c_lines(args: argparse.Namespace) -> list[Spot]:
    """What there is to know of each line."""
    named, random = gcov(args, args.named), gcov(args, args.random)
    if named.keys() != random.keys():
        raise Trouble("the two guests had different kernels")
    text = (args.tree / ORACLE).read_text().splitlines()
    return [Spot(ORACLE, n, function, count, random[n][1], text[n - 1].strip())
            for n, (function, count) in named.items()]


def explain_c(lines: Sequence[Spot], reasons: Sequence[Reason]) -> list[str]:
    """Gives unreached lines their reason; returns what is wrong with the list."""
    wrong = []
    for r in reasons:
        if r.where.endswith(".rs"):
            continue
        words, _, nth = r.words.partition(" #")
        there = [line for line in lines if line.function == r.where and words in " ".join(line.text.split())]
        if len(there) < int(nth or 1):
            wrong.append(f"unreachable: there is no such line: {r}")
        elif (line := there[int(nth or 1) - 1]).reached:
            wrong.append(f"unreachable: it is reached: {r} (line {line.line})")
        else:
            line.reason = r.why
    return wrong


# --- Rust ---


def read_edges(guest: Path) -> tuple[int, list[tuple[int, bool]]]:
    """Where _stext was, and [(address, reached)]."""
    rows = [line.split() for line in (guest / "edges").read_text().splitlines()]
    if len(rows) < 2 or rows[0][1] != "_stext":
        raise Trouble(f"{guest}/edges: there are none")
    return int(rows[0][0], 16), [(int(pc, 16), flag != "0") for pc, flag in rows[1:]]


def symbolize(args: argparse.Namespace, pcs: Sequence[int]) -> list[list[Frame]]:
    """For each address the frames, innermost first."""
    tool = f"llvm-symbolizer-{args.llvm}"
    answers = run(tool, "--output-style=JSON", "--inlines", f"--obj={args.build}/linux",
                  given="".join(f"{pc:#x}\n" for pc in pcs)).splitlines()
    if len(answers) != len(pcs):
        raise Trouble(f"{tool}: lines are missing")
    return [[(os.path.normpath(s["FileName"]).removeprefix(f"{args.tree}/"), s["Line"], s["FunctionName"])
             for s in json.loads(answer).get("Symbol") or []] for answer in answers]


def place(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame in a file of ours, and the function that has the code; or nothing."""
    if any(NOT_RUST.match(f[0]) or "::tests::" in f[2] for f in frames):
        return None
    return next(((f[0], f[1], frames[-1][2]) for f in frames if RUST.match(f[0])), None)


def rust_edges(args: argparse.Namespace) -> list[Spot]:
    """What there is to know of each edge."""
    named_base, named = read_edges(args.named)
    random_base, random = read_edges(args.random)
    if [pc - named_base for pc, _ in named] != [pc - random_base for pc, _ in random]:
        raise Trouble("the two guests had different kernels")
    linked_at = re.search(r"^([0-9a-f]+) \w _stext$", run(f"llvm-nm-{args.llvm}", args.build / "linux"), re.MULTILINE)
    if not linked_at:
        raise Trouble(f"{args.build}/linux has no _stext")
    edges = []
    found = symbolize(args, [pc - named_base + int(linked_at[1], 16) for pc, _ in named])
    for frames, (_, n), (_, r) in zip(found, named, random, strict=True):
        where = place(frames)
        if where:
            in_tree = [f[:2] for f in frames if not f[0].startswith("/") and f[0].endswith(".rs")]
            edges.append(Spot(*where, named=n, random=r, frames=in_tree))
    if not edges:
        raise Trouble("no edge is in a Rust file of ours: has the kernel no debug information?")
    return edges


def explain_rust(edges: Sequence[Spot], reasons: Sequence[Reason],
                 sources: Mapping[str, Sequence[str]]) -> list[str]:
    """Gives edges their text, and unreached ones their reason: that of any line they come from."""
    used = set()

    def text_of(name: str, line: int) -> str:
        text = sources.get(name, [])
        return text[line - 1].strip() if 0 < line <= len(text) else "(between lines)"

    for e in edges:
        e.text = text_of(e.file, e.line)
        lines = [(name, text_of(name, line)) for name, line in e.frames]
        fits = [r for r in reasons if any(r.where == name and r.words in text for name, text in lines)]
        if fits and not e.reached:
            e.reason = fits[0].why
            used.add(fits[0])
    return [f"unreachable: no such edge is left out: {r}" for r in reasons
            if r.where.endswith(".rs") and r not in used]


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
    text = [f"| {title} | {unit} | named scripts | random scripts | together |", "|---|--:|--:|--:|--:|"]
    for name, some in [*sorted(files.items()), ("all", rows)][:None if len(files) > 1 else 1]:
        n = counted(some)
        text.append(f"| {name} | {n['total']} | {n['named']} | {n['random']} "
                    f"| {n['together']} ({100 * n['together'] / n['total']:.1f} %) |")
    return "\n".join(text)


def listing(rows: Sequence[Spot]) -> str:
    """Those of one line and function are one."""
    groups: dict[tuple[str, int, str, str], list[Spot]] = {}
    for r in rows:
        groups.setdefault((r.file, r.line, r.function, r.reason), []).append(r)
    return "\n".join(f"* `{name}:{line}` in `{function}`{f' ({len(some)} times)' if len(some) > 1 else ''}: "
                     f"`{some[0].text}`{': ' if reason else ''}{reason}"
                     for (name, line, function, reason), some in sorted(groups.items())) or "None."


def last_line(lines: Sequence[Spot], edges: Sequence[Spot]) -> str:
    c, rust = counted(lines), counted(edges)
    return f"C: {c['together']} of {c['total']} lines, Rust: {rust['together']} of {rust['total']} edges"


def markdown(lines: Sequence[Spot], edges: Sequence[Spot], wrong: Sequence[str], about: str) -> str:
    def section(language: str, unit: str, rows: Sequence[Spot]) -> list[str]:
        left = unreached(rows)
        return [table(language, unit, rows),
                f"## {unit.capitalize()} not reached", listing([r for r in left if not r.reason]),
                f"## {unit.capitalize()} that cannot be reached", listing([r for r in left if r.reason])]

    text = ["# What the scripts reach", about,
            "Lines of the C file, counted as by gcov:", *section("C", "lines", lines),
            "## Rust",
            "An edge leads to a piece of machine code that is entered only as a whole. It belongs "
            "to the line of ours that it was made from; a line that is inlined several times, or "
            "is generic, has its edges each time. All of `direct_io.o` counts, and of the kernel "
            "crate what the path is built from.", *section("Rust", "edges", edges)]
    if wrong:
        text += ["## Wrong in the list of what cannot be reached", "\n".join(f"* {w}" for w in wrong)]
    return "\n\n".join(text) + "\n"


def report(args: argparse.Namespace) -> bool:
    """Writes the report; is all reached that can be?"""
    reasons = read_reasons(args.unreachable)
    lines, edges = c_lines(args), rust_edges(args)
    wrong = explain_c(lines, reasons)
    sources = {name: (args.tree / name).read_text().splitlines()
               for name in {f[0] for e in edges for f in e.frames} if (args.tree / name).exists()}
    notes = explain_rust(edges, reasons, sources)

    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "report.md").write_text(markdown(lines, edges, wrong + notes, args.about))
    (args.out / "coverage.json").write_text(json.dumps({
        "about": args.about, "c": counted(lines), "rust": counted(edges),
        "unreached_lines": [asdict(x) for x in unreached(lines)],
        "unreached_edges": [asdict(x) for x in unreached(edges)],
        "lines": {str(x.line): x.named + x.random for x in lines}}, indent=1) + "\n")
    missed = [x for x in unreached(lines) if not x.reason]
    for x in missed:
        print(f"not reached: {x.file}:{x.line} in {x.function}(): {x.text}")
    for w in wrong + notes:
        print(w)
    print(last_line(lines, edges))
    return not missed and not wrong


def main() -> int:
    ap = argparse.ArgumentParser(description="what the scripts reached")
    ap.add_argument("--llvm", required=True)
    for option in ("tree", "build", "named", "random", "unreachable", "out"):
        ap.add_argument(f"--{option}", required=True, type=Path)
    ap.add_argument("--about", default="")
    try:
        return 0 if report(ap.parse_args()) else 1
    except (Trouble, OSError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
