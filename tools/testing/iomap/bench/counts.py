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
PER_IO["vector"] = ("__x64_sys_preadv2", "__x64_sys_pwritev2")
# How vector.py repeats what was refused with RWF_NOWAIT.
AGAIN = "__x64_sys_pwrite64"

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

# What count.py has the guest execute once: rep stosb of so many bytes in user space, and so many getrusage(),
# each of which clears a struct of so many bytes with memset() of the kernel.
REP_BYTES = 1000
MEMSETS = 256
MEMSET_BYTES = 144
# The kernel's memset() without rep takes less than one instruction for two bytes.
MEMSET_MOST = MEMSET_BYTES // 2

C_OBJECT, RUST_OBJECT = "fs/iomap/direct_io_compare.o", "fs/iomap/direct_io.o"
# Where the text of each implementation is: object files, and a pattern of the functions that are of it.
TEXT = {
    "C: direct-io.c": (C_OBJECT, ""),
    "Rust: direct_io.rs and its modules": (RUST_OBJECT, ""),
    "Rust: direct_io_glue.c": ("fs/iomap/direct_io_glue.o", ""),
    "The switch between the two": ("fs/iomap/direct_io_switch.o", ""),
    "Rust: parts in the kernel crate": (
        "rust/kernel.o", r"kernel::(iomap|iov::iter|block::(bdev|bio|plug)|fs::(inode|kiocb)|task::may_sleep)"),
}


@cache
def part(name: str, where: str) -> str:
    """Which part the function of that name and object file belongs to."""
    return next(title for title, objects in PARTS.items()
                if re.match(objects, where) or (title == ALLOCATION and ALLOCATES.match(name)))


Entry = dict[str, Any]
# The functions of a kernel by address: (name, object file).
Functions = dict[int, tuple[str, str]]
# What the plugin counts of a function: instructions, calls, locked instructions, bytes of rep movsb and rep stosb.
Counts = tuple[int, int, int, int]
NOTHING: Counts = (0, 0, 0, 0)
# Instructions in timers, what user space executed, and what the kernel did, by address.
Mark = tuple[int, Counts, dict[int, Counts]]
# The same for each I/O; functions by (name, object file), with instructions, calls and locked instructions.
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


def text_of(build: Path, llvm: str) -> dict[str, int]:
    """Bytes of text of each implementation. What is in line in a file system is not in it, C or Rust."""
    out = {}
    for title, (where, pattern) in TEXT.items():
        symbols = [line.split() for line in run(f"llvm-nm-{llvm}", build, "-S", "--defined-only", where)]
        symbols = [symbol for symbol in symbols if len(symbol) == 4 and symbol[2] in "tTwW"]
        names = readable([name for *_, name in symbols], build, llvm)
        out[title] = sum(int(size, 16) for (_, size, _, _), name in zip(symbols, names, strict=True)
                         if re.search(pattern, name))
    return out


def read_marks(path: Path) -> dict[int, Mark]:
    """What the plugin wrote, by number."""
    marks: dict[int, Mark] = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            where, *words = line.split()
            if where == "mark":
                number, timer = map(int, words)
                current: dict[int, Counts] = {}
                marks[number] = (timer, NOTHING, current)
                continue
            instructions, calls, locked, stepped = map(int, words)
            if where == "user":
                marks[number] = (timer, (instructions, calls, locked, stepped), current)
            else:
                current[int(where, 16)] = (instructions, calls, locked, stepped)
    return marks


def check_processor(known: dict[str, int], marks: dict[int, Mark], functions: Functions) -> None:
    """The processor of the guest is one without instructions that this counts by the byte.

    Raises ValueError for any other, and if the plugin would not notice.
    """
    _, (instructions, _, _, stepped), _ = marks[known["rep"]]
    # The end of the loop is a step as well.
    if not REP_BYTES <= stepped <= instructions <= REP_BYTES + 10:
        raise ValueError(f"the plugin sees {stepped} steps of a rep stosb of {REP_BYTES} bytes, and {instructions} "
                         "instructions: it would not notice that a processor has FSRS")
    mine = [counts for address, counts in marks[known["memset"]][2].items()
            if re.match(r"(__)?memset", functions[address][0])]
    took, calls = sum(counts[0] for counts in mine), max((counts[1] for counts in mine), default=0)
    if calls < MEMSETS:
        raise ValueError(f"{MEMSETS} getrusage() called memset() {calls} times: it does not show what memset() takes")
    if took > MEMSET_MOST * calls:
        raise ValueError(f"memset() of {MEMSET_BYTES} bytes takes {took / calls:.0f} instructions: the guest's "
                         "processor has FSRS, which this counts by the byte; take it away from -cpu in guest.sh")


def window(row: Row, mark: Mark, functions: Functions) -> Window:
    """One window: per I/O, the instructions of each function, and how often it was called."""
    timer, (user, *_), counted = mark
    merged: dict[tuple[str, str], Counts] = defaultdict(lambda: NOTHING)
    for address, more in counted.items():
        known = merged[functions[address]]
        merged[functions[address]] = (known[0] + more[0], known[1] + more[1], known[2] + more[2], known[3] + more[3])
    calls = {name: counts[1] for (name, _), counts in merged.items()}
    ios = sum(calls.get(name, 0) for name in PER_IO[row.engine])
    if ios < LEAST_IOS:
        raise ValueError(f"only {ios} I/Os in a window")
    stepped, where = max((counts[3], name) for (name, _), counts in merged.items())
    if stepped > ios:
        raise ValueError(f"rep movsb or rep stosb in {where}, counted by the byte: take ERMS, FSRM and FSRS away from "
                         "-cpu in guest.sh")
    return {
        "ios": ios, "user": user / ios, "timer": timer / ios, "again": calls.get(AGAIN, 0) / ios,
        "functions": {key: (counts[0] / ios, counts[1] / ios, counts[2] / ios) for key, counts in merged.items()},
    }


def summary(windows: list[Window]) -> Entry:
    """Medians over the windows of one implementation."""
    functions = {}
    for key in dict.fromkeys(key for w in windows for key in w["functions"]):
        found = [w["functions"].get(key, NOTHING) for w in windows]
        instructions = median(counts[0] for counts in found)
        if instructions >= 0.05:
            functions[key] = (instructions, *(median(counts[what] for counts in found) for what in (1, 2)))
    totals = [sum(counts[0] for counts in w["functions"].values()) for w in windows]
    parts = {name: median(sum(counts[0] for key, counts in w["functions"].items() if part(*key) == name)
                          for w in windows) for name in PARTS}
    return {
        "ios": sum(w["ios"] for w in windows),
        "windows": totals,
        "kernel": median(totals),
        "spread": stats.spread(totals),
        "user": median(w["user"] for w in windows),
        "timer": median(w["timer"] for w in windows),
        "parts": parts,
        "own": parts[OWN],
        "again": median(w["again"] for w in windows),
        "locked": median(sum(counts[2] for counts in w["functions"].values()) for w in windows),
        "functions": [
            {"name": name, "object": where, "part": part(name, where),
             "instructions": round(n, 2), "calls": round(calls, 4), "locked": round(locked, 4)}
            for (name, where), (n, calls, locked) in sorted(functions.items(), key=lambda item: -item[1][0])],
    }


def check_side(row: Row, impl: str, side: Entry) -> None:
    """The implementation that was asked for is the one that ran."""
    if row.fs == "raw":
        return
    other = C_OBJECT if impl == "rust" else RUST_OBJECT
    stray = sum(f["calls"] for f in side["functions"] if f["object"] == other)
    if stray > 0.01 or side["own"] < 1:
        raise ValueError(f"the switch said {impl}, and {stray:.2f} functions of the other ran")


def digest(directories: Sequence[Path], functions: Functions, machine: str) -> tuple[dict[str, Entry], list[Entry]]:
    """All rows of the runs in these directories, each with what it adds to its raw row.

    A row that cannot be told from what was counted is one of the failures of its run.
    """
    rows = {row.id: row for row in bench_rows.all_rows(machine)}
    entries: dict[str, Entry] = {row_id: {} for row_id in rows}
    runs = [json.loads((directory / "run.json").read_text()) for directory in directories]
    for directory, document in zip(directories, runs, strict=True):
        marks = read_marks(directory / "counts")
        check_processor(document["known"], marks, functions)
        for result in document["rows"]:
            row, entry = rows[result["id"]], entries[result["id"]]
            try:
                for impl in dict.fromkeys(w["impl"] for w in result["windows"]):
                    entry[impl] = summary([window(row, marks[w["mark"]], functions)
                                           for w in result["windows"] if w["impl"] == impl])
                    check_side(row, impl, entry[impl])
                entry["fio"] = result["fio"]
            except ValueError as error:
                entry.clear()
                document["failures"].append({"id": row.id, "error": str(error)})
    for row in rows.values():
        entry, raw = entries[row.id], entries.get(row.raw_id)
        if row.fs != "raw" and entry and raw:
            entry["raw"], entry["raw_id"] = raw["c"]["kernel"], row.raw_id
            # What a disk in memory copies, and another one does not.
            entry["copy"] = sum(f["instructions"] for f in raw["c"]["functions"] if f["name"].startswith("memcpy"))
            for impl in {"c", "rust"} & entry.keys():
                entry[impl]["added"] = entry[impl]["kernel"] - entry["raw"]
            if {"c", "rust"} <= entry.keys():
                entry["whole"] = entry["rust"]["kernel"] / entry["c"]["kernel"]
            # Where the raw device takes more than a file system, there is nothing to compare.
            if all(entry.get(impl, {}).get("added", 0) > 0 for impl in ("c", "rust")):
                entry["ratio"] = entry["rust"]["added"] / entry["c"]["added"]
    return {row_id: entry for row_id, entry in entries.items() if entry}, runs
