# SPDX-License-Identifier: GPL-2.0
"""What a counted run says: instructions for each I/O, by function and in sums.

Puts together what count.py did in the guest (run.json) and what the plugin of
QEMU counted meanwhile (counts). Times of the guest do not come into it.
"""

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import rows as bench_rows
import stats
from rows import Row

# What is executed once for each I/O, whoever issues it again afterwards.
PER_IO = {
    "io_uring": ("io_prep_read", "io_prep_write", "io_prep_read_fixed", "io_prep_write_fixed",
                 "io_prep_readv", "io_prep_writev"),
    "libaio": ("aio_read", "aio_write"),
    "psync": ("__x64_sys_pread64", "__x64_sys_pwrite64"),
}
PER_IO["fixedbufs"] = PER_IO["poll"] = PER_IO["io_uring"]

# The parts of the kernel that a profile is split into, in the order of a table, by object file: the first that
# fits. Nothing else on the way of an I/O is in Rust.
OWN, ALLOCATION, REST = "the path's own code", "allocation", "the rest"
PARTS = {
    OWN: r"fs/iomap/direct_io|rust/",
    ALLOCATION: r"mm/(slub|mempool|slab_common)\.o$",
    "memset, memcpy": r"arch/x86/lib/.*(mem|copy|clear)",
    "block layer": r"(drivers/)?block/",
    "file system": r"fs/(ext4|jbd2|xfs|iomap)/",
    "io_uring, aio": r"io_uring/|fs/aio\.o$",
    REST: "",
}
ALLOCATES = re.compile(r"(bio_(alloc|free|put|init|uninit|reset)|mempool_|kmem_cache_|__?kmalloc|kfree)")

# Of fewer, those at the ends of a window are too large a part.
LEAST_IOS = 64

C_OBJECT, RUST_OBJECT = "fs/iomap/direct_io_compare.o", "fs/iomap/direct_io.o"


@cache
def part(name: str, where: str) -> str:
    """Which part the function of that name and object file belongs to."""
    return next(title for title, objects in PARTS.items()
                if re.match(objects, where) or (title == ALLOCATION and ALLOCATES.match(name)))


Entry = dict[str, Any]
# The functions of a kernel by address: (name, object file).
Functions = dict[int, tuple[str, str]]
# Instructions in user space, in timers, and by address with calls; the last by (name, object file) for each I/O.
Mark = tuple[int, int, dict[int, tuple[int, int]]]
Window = dict[str, Any]


def run(tool: str, build: Path, *args: str, stdin: str = "") -> list[str]:
    """The lines that it prints."""
    return subprocess.run([tool, *args], cwd=build, check=True, input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout.splitlines()


def owners_of(build: Path, llvm: str) -> dict[str, list[str]]:
    """The object files that define each function."""
    out = defaultdict(list)
    archives = [path for path in ("vmlinux.a", "lib/lib.a", "arch/x86/lib/lib.a") if (build / path).exists()]
    for line in run(f"llvm-nm-{llvm}", build, "-A", "--defined-only", *archives):
        found = re.match(r"(\S+?):(\S+): \S+ [tTwW] (\S+)$", line)
        if found:
            archive, member, name = found.groups()
            out[name].append(member if "/" in member else str(Path(archive).parent / member))
    return out


def readable(names: list[str], build: Path, llvm: str) -> list[str]:
    """Demangled, and without what changes from one build to the next."""
    return [re.sub(r"\[[0-9a-f]{8,}\]", "", new) if name.startswith("_R")
            else re.sub(r"\.(llvm|cold|constprop|isra)\.[0-9.]+$", "", name)
            for name, new in zip(names, run(f"llvm-cxxfilt-{llvm}", build, stdin="\n".join(names)), strict=True)]


def functions_of(build: Path, llvm: str) -> Functions:
    """build: where the kernel was built; llvm: the suffix of the tools, as in llvm-nm-22."""
    owners = owners_of(build, llvm)
    symbols = [line.split() for line in (build / "System.map").read_text().splitlines()]
    symbols = sorted((symbol for symbol in symbols if symbol[1] in "tTwW"), key=lambda symbol: int(symbol[0], 16))
    out: Functions = {}
    last = ""
    names = readable([symbol for *_, symbol in symbols], build, llvm)
    for (address, _, symbol), name in zip(symbols, names, strict=True):
        # Names of static functions may come twice. The functions of a file lie together.
        found = owners.get(symbol, [""])
        last = last if last in found else found[0]
        out.setdefault(int(address, 16), (name, last))
    out[0] = ("(no function)", "")
    return out


def read_marks(path: Path) -> dict[int, Mark]:
    """What the plugin wrote, by number: (instructions in user space, in timers, {address: (n, calls)})."""
    marks: dict[int, Mark] = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            words = line.split()
            if words[0] == "mark":
                current: dict[int, tuple[int, int]] = {}
                marks[int(words[1])] = (int(words[2]), int(words[3]), current)
            else:
                current[int(words[0], 16)] = (int(words[1]), int(words[2]))
    return marks


def window(row: Row, mark: Mark, functions: Functions) -> Window:
    """One window: per I/O, the instructions of each function, and how often it was called."""
    user, timer, counted = mark
    merged: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for address, (instructions, count) in counted.items():
        both = merged[functions[address]]
        both[0] += instructions
        both[1] += count
    calls = {name: both[1] for (name, _), both in merged.items()}
    ios = sum(calls.get(name, 0) for name in PER_IO[row.engine])
    if ios < LEAST_IOS:
        raise ValueError(f"{row.id}: only {ios} I/Os in a window")
    return {
        "ios": ios, "user": user / ios, "timer": timer / ios,
        "functions": {key: (both[0] / ios, both[1] / ios) for key, both in merged.items()},
    }


def summary(windows: list[Window]) -> Entry:
    """Medians over the windows of one implementation."""
    functions = {}
    for key in dict.fromkeys(key for w in windows for key in w["functions"]):
        both = [w["functions"].get(key, (0, 0)) for w in windows]
        instructions = median(b[0] for b in both)
        if instructions >= 0.05:
            functions[key] = (instructions, median(b[1] for b in both))
    totals = [sum(n for n, _ in w["functions"].values()) for w in windows]
    parts = {name: median(sum(n for key, (n, _) in w["functions"].items() if part(*key) == name) for w in windows)
             for name in PARTS}
    return {
        "ios": sum(w["ios"] for w in windows),
        "windows": totals,
        "kernel": median(totals),
        "spread": stats.spread(totals),
        "user": median(w["user"] for w in windows),
        "timer": median(w["timer"] for w in windows),
        "parts": parts,
        "own": parts[OWN],
        "functions": [
            {"name": name, "object": where, "part": part(name, where),
             "instructions": round(n, 2), "calls": round(calls, 4)}
            for (name, where), (n, calls) in sorted(functions.items(), key=lambda item: -item[1][0])],
    }


def check_side(row: Row, impl: str, side: Entry) -> None:
    """The implementation that was asked for is the one that ran."""
    if row.fs == "raw":
        return
    other = C_OBJECT if impl == "rust" else RUST_OBJECT
    stray = sum(f["calls"] for f in side["functions"] if f["object"] == other)
    if stray > 0.01 or side["own"] < 1:
        raise ValueError(f"{row.id}: the switch said {impl}, and {stray:.2f} functions of the other ran")


def digest(directories: Sequence[Path], functions: Functions, machine: str) -> tuple[dict[str, Entry], list[Entry]]:
    """All rows of the runs in these directories, each with what it adds to its raw row."""
    rows = {row.id: row for row in bench_rows.all_rows(machine)}
    entries: dict[str, Entry] = {row_id: {} for row_id in rows}
    runs = [json.loads((directory / "run.json").read_text()) for directory in directories]
    for directory, document in zip(directories, runs, strict=True):
        marks = read_marks(directory / "counts")
        for result in document["rows"]:
            row, entry = rows[result["id"]], entries[result["id"]]
            entry["fio"] = result["fio"]
            for impl in dict.fromkeys(w["impl"] for w in result["windows"]):
                entry[impl] = summary([window(row, marks[w["mark"]], functions)
                                       for w in result["windows"] if w["impl"] == impl])
                check_side(row, impl, entry[impl])
    for row in rows.values():
        entry, raw = entries[row.id], entries.get(row.raw_id)
        if row.fs != "raw" and entry and raw:
            entry["raw"], entry["raw_id"] = raw["c"]["kernel"], row.raw_id
            for impl in {"c", "rust"} & entry.keys():
                entry[impl]["added"] = entry[impl]["kernel"] - entry["raw"]
            # Where the raw device takes more than the file system, there is nothing to divide by.
            if "rust" in entry and entry.get("c", {}).get("added", 0) > 0:
                entry["ratio"] = entry["rust"]["added"] / entry["c"]["added"]
    return {row_id: entry for row_id, entry in entries.items() if entry}, runs
