#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What the scripts reached: regions of the C file and of the Rust code.

Reads the counters that two guests left, one with the named scripts and one with those drawn at
random, and writes report.md and coverage.json. `make coverage` runs it, see coverage.sh.
"""

import argparse
import json
import re
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[4]
ORACLE = "fs/iomap/direct-io.c"
OURS = ("fs/iomap/direct_io.rs", "fs/iomap/direct_io/*.rs", "rust/kernel/**/*.rs")
# The magic number and the version of a profile as a program writes it, and the size of what it has for a function.
MAGIC, VERSION, RECORD = int.from_bytes(b"\xfflprofr\x81", "big"), 10, 64
# Kinds of regions that are code; the others are gaps and expansions of macros.
CODE = 0

# File, first line and column, last line and column.
Region = tuple[str, int, int, int, int]
Counted = dict[Region, tuple[str, int]]


class Trouble(Exception):
    """One line for whoever ran this."""


@dataclass
class Spot:
    """A region, and how often the scripts got there."""

    file: str
    line: int
    function: str
    named: int
    random: int
    text: str = ""
    # Why it is not reached
    reason: str = ""

    @property
    def reached(self) -> bool:
        return bool(self.named or self.random)


@dataclass(frozen=True)
class Reason:
    """A line of the file `unreachable`: a C function or a Rust file, words of the line, why."""

    where: str
    words: str
    why: str

    def spots(self, spots: Iterable[Spot]) -> list[Spot]:
        """Those that it is for."""
        words, _, nth = self.words.partition(" #")
        there = [s for s in spots if self.where in (s.file, s.function) and words in " ".join(s.text.split())]
        lines = sorted({s.line for s in there})
        return [s for s in there if not nth or lines.index(s.line) == int(nth) - 1]


def read_reasons(path: Path) -> list[Reason]:
    reasons = []
    for n, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [f.strip() for f in re.split(r"\t+", line.strip())]
        if len(fields) != 3 or not all(fields):
            raise Trouble(f"{path}:{n}: three fields with tabs in between are wanted, not {len(fields)}")
        reasons.append(Reason(*fields))
    return reasons


def explain(spots: Sequence[Spot], reasons: Iterable[Reason]) -> Iterator[str]:
    """Gives those that are not reached their reason; says what is wrong with the list."""
    for r in reasons:
        there = r.spots(spots)
        left = [s for s in there if not s.reached and not s.reason]
        if not left:
            yield f"unreachable: {'it is reached' if there else 'there is no such line'}: {r.where}: {r.words}"
        for s in left:
            s.reason = r.why


def run(tool: str, args: argparse.Namespace, *words: str | Path) -> str:
    done = subprocess.run([f"{tool}-{args.llvm}", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Trouble(f"{tool}: {done.stderr.strip() or done.stdout}")
    return done.stdout


def profile(args: argparse.Namespace, guest: Path) -> Path:
    """What LLVM's runtime would have written at the end of a program with the counters of a guest."""
    kernel, data, names = args.build / "linux", guest / "data", guest / "names"
    run("llvm-objcopy", args, f"--dump-section=__llvm_prf_data={data}", f"--dump-section=__llvm_prf_names={names}",
        kernel, "/dev/null")
    at = {name: int(address, 16) for name, address in re.findall(
        r" __llvm_prf_(cnts|data) +[0-9a-f]+ ([0-9a-f]+)", run("llvm-objdump", args, "--section-headers", kernel))}
    counters, records, words = ((guest / name).read_bytes() for name in ("counters", "data", "names"))
    # Where the counters are from the records on; without counters of other kinds.
    head = struct.pack("<16Q", MAGIC, VERSION, 0, len(records) // RECORD, 0, len(counters) // 8, 0, 0, 0, len(words),
                       (at["cnts"] - at["data"]) % (1 << 64), 0, 0, 0, 0, 2)
    (guest / "profraw").write_bytes(head + records + counters + words + bytes(-len(words) % 8))
    run("llvm-profdata", args, "merge", "-o", guest / "profile", guest / "profraw")
    return guest / "profile"


def read_regions(exported: dict[str, Any], ours: Iterable[str]) -> Counted:
    """What llvm-cov has exported of our files, each region with its function."""
    found: Counted = {}
    known: dict[str, str] = {}
    for function in exported["data"][0]["functions"]:
        names = [known.setdefault(path, next((f for f in ours if f"/{path}".endswith(f"/{f}")), ""))
                 for path in function["filenames"]]
        # Of the C file, "file:function"; in a kernel with both implementations, those that others call have a prefix.
        name = function["name"].rpartition(":")[2].removeprefix("c_")
        for line, column, last, end, count, file, _, kind in function["regions"]:
            if kind == CODE and names[file]:
                region = names[file], line, column, last, end
                # What is generic or in line is there several times.
                found[region] = name, count + found.get(region, ("", 0))[1]
    return found


def counts(args: argparse.Namespace, guest: Path, ours: Iterable[str]) -> Counted:
    """How often each region was entered in a guest."""
    return read_regions(json.loads(run("llvm-cov", args, "export", "-format=text", "-skip-expansions",
                                       f"-instr-profile={profile(args, guest)}", args.build / "linux")), ours)


def spots(args: argparse.Namespace) -> list[Spot]:
    """All there is to know of each region."""
    ours = [ORACLE, *(str(path.relative_to(PROJECT)) for pattern in OURS for path in PROJECT.glob(pattern)
                      if path.name != "tests.rs")]
    named, random = (counts(args, guest, ours) for guest in (args.named, args.random))
    for part in (ORACLE, "rust/", "fs/iomap/direct_io"):
        if not any(count for (file, *_), (_, count) in named.items() if file.startswith(part)):
            raise Trouble(f"no region of {part} was counted")
    # Another build may have put other files of ours into the tree meanwhile.
    text = {file: ((args.tree if file == ORACLE else PROJECT) / file).read_text().splitlines()
            for file in {file for file, *_ in named}}
    return [Spot(region[0], region[1], function, count, random[region][1], text[region[0]][region[1] - 1].strip())
            for region, (function, count) in sorted(named.items())]


def counted(rows: Sequence[Spot]) -> dict[str, int]:
    return {"total": len(rows), "named": sum(bool(r.named) for r in rows),
            "random": sum(bool(r.random) for r in rows), "together": sum(r.reached for r in rows)}


def table(rows: Sequence[Spot]) -> str:
    """A row for each file, and one for all Rust code."""
    files: dict[str, list[Spot]] = defaultdict(list)
    for r in rows:
        files[r.file].append(r)
        if r.file != ORACLE:
            files["all of Rust"].append(r)
    text = ["| file | regions | named scripts | random scripts | together |", "|---|--:|--:|--:|--:|"]
    for name in sorted(files):
        n = counted(files[name])
        text.append(f"| {name} | {n['total']} | {n['named']} | {n['random']} "
                    f"| {n['together']} ({100 * n['together'] / n['total']:.1f} %) |")
    return "\n".join(text)


def listing(rows: Iterable[Spot]) -> str:
    """Those of one line are one."""
    lines = dict.fromkeys(f"* `{r.file}:{r.line}`: `{r.text}`{': ' if r.reason else ''}{r.reason}" for r in rows)
    return "\n".join(lines) or "None."


def report(args: argparse.Namespace) -> bool:
    """Writes the report; is all of C reached that can be, and the list right?"""
    rows = spots(args)
    wrong = list(explain(rows, read_reasons(args.unreachable)))
    left = [r for r in rows if not r.reached]
    text = ["# What the scripts reach", args.about,
            "A region is a piece of source that is entered only as a whole. What is generic or in line counts once.",
            table(rows), "## Regions not reached", listing(r for r in left if not r.reason),
            "## Regions that cannot be reached", listing(r for r in left if r.reason)]
    if wrong:
        text += ["## Wrong in the list of what cannot be reached", "\n".join(f"* {w}" for w in wrong)]
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "report.md").write_text("\n\n".join(text) + "\n")
    c, rust = ([r for r in rows if (r.file == ORACLE) == is_c] for is_c in (True, False))
    (args.out / "coverage.json").write_text(json.dumps({
        "about": args.about, "c": counted(c), "rust": counted(rust), "unreached": [asdict(r) for r in left]},
        indent=1) + "\n")
    missed = dict.fromkeys(f"not reached: {r.file}:{r.line} in {r.function}(): {r.text}"
                           for r in c if not r.reached and not r.reason)
    print(*missed, *wrong, ", ".join(f"{name}: {n['together']} of {n['total']} regions"
                                     for name, n in (("C", counted(c)), ("Rust", counted(rust)))), sep="\n")
    # What is wrong of Rust alone is only said.
    return not missed and all(".rs: " in w for w in wrong)


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
