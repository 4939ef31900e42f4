#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes the load for counting instructions; runs as root in a guest of QEMU.

The counting is done outside, by a plugin of QEMU (plugin.c). It is told
by an instruction that does nothing: between two of them lies a window, in which
fio runs without a pause under one implementation. counts.py puts together what
this says of the windows and what the plugin counted in them.
"""

import argparse
import ctypes
import mmap
import resource
import sys
import time
from pathlib import Path
from typing import Any

import counts
import load
import rows as bench_rows
import walks
from load import Failed
from rows import Row
from walks import MARK

# Seconds of the guest, which are 10^9 instructions.
SETTLE = 0.003          # after the switch: what the other implementation began has ended
WARM = 0.02             # after fio's first I/O
WINDOW = 0.05
# With much of the file system in between, what has begun takes longer to end, and a checkpoint of the journal
# comes now and then.
SETTLE_JOURNAL, WINDOW_JOURNAL = 0.03, 0.1
# On a device that completes later each I/O takes some 20 us, and turning to the next interrupt takes QEMU as long
# as 10,000 instructions.
WINDOW_LATER = 0.03
# Of 1M there are 100 in 0.05 s, of which one more or less at an end is as much as what file systems add. If btrfs
# writes out its trees, 48 overwrites of 16k with checksums may be all that is left of 0.1 s.
WINDOW_LONG = 0.3
# Even, so that the windows of both sides are as late: what an I/O costs may rise or fall as the file system ages.
REPEATS = 4
# A journal does not do the same for each I/O.
REPEATS_JOURNAL = 6


# mov $bytes, %ecx; rep stosb
CLEAR = b"\xb9" + counts.REP_BYTES.to_bytes(4, "little") + b"\xf3\xaa"
RETURN = b"\xc3"


class Marks:
    """Marks in what the plugin counts, by code that user space executes."""

    def __init__(self) -> None:
        self.made = 0
        self.page = mmap.mmap(-1, 2 * mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.page.write(MARK + RETURN + MARK + CLEAR + MARK + RETURN)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self.page))
        self.mark = ctypes.CFUNCTYPE(None)(begin)
        self.clear = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(begin + len(MARK + RETURN))

    def __call__(self) -> int:
        """The number of the mark: what the plugin counted before it bears the same."""
        self.mark()
        self.made += 1
        return self.made - 1

    def known(self) -> dict[str, int]:
        """Marks of what counts.check_processor() knows: a "rep stosb", and calls of memset() in the kernel."""
        buffer = ctypes.create_string_buffer(counts.REP_BYTES)
        self.clear(ctypes.addressof(buffer))
        self.made += 2
        rep = self.made - 1
        self()
        for _ in range(counts.MEMSETS):
            resource.getrusage(resource.RUSAGE_SELF)
        return {"rep": rep, "memset": self()}


def in_turns(sides: list[str], repeats: int) -> list[str]:
    return [impl for repeat in range(repeats) for impl in (sides if repeat % 2 == 0 else sides[::-1])]


def measure(row: Row, stage: load.Stage, mark: Marks, sides: list[str], args: argparse.Namespace) -> load.Result:
    """The windows of a row, C, Rust, Rust, C, C, Rust...

    For appending, every window has a new file and a new fio, and so begins where the
    others do; else all share one.
    """
    few = row.bytes >= 1 << 20 or (row.fs == "btrfs-csum" and row.journal)
    seconds = args.window or (WINDOW_LATER if row.on else WINDOW_LONG if few else WINDOW_JOURNAL if row.journal
                              else WINDOW)
    repeats = args.repeats or (REPEATS_JOURNAL if row.journal and not row.on else REPEATS)
    turns = in_turns(sides, repeats)
    windows: list[dict[str, Any]] = []
    for together in [[impl] for impl in turns] if row.kind == "append" else [turns]:
        with load.Target(row, stage) as target, load.Fio(row, load.one_job(row, target)) as fio:
            fio.wait_for_io()
            # Simulated caches begin here.
            mark()
            time.sleep(WARM)
            for number, impl in enumerate(together):
                if number:
                    target.prepare()
                written = load.io_bytes(False)
                load.set_impl(impl)
                time.sleep(SETTLE_JOURNAL if row.journal else SETTLE)
                mark()
                time.sleep(seconds)
                windows.append({"impl": impl, "mark": mark()})
                if target.unwritten and load.io_bytes(False) - written > target.size:
                    raise Failed("all of the fallocated space was written, and then written over")
            if row.kind == "append" and target.path.stat().st_size > target.size:
                raise Failed("the whole file was written, and then written over")
            fio.stop()
    return {"id": row.id, "seconds": seconds, "windows": windows, "fio": fio.argv}


def shard(rows: list[Row], which: str) -> list[Row]:
    """The stages of rows that are for guest I of N: each to the one that has least to do."""
    index, guests = map(int, which.split("/"))
    work: dict[bench_rows.Stage, int] = {}
    for row in rows:
        work[row.stage] = work.get(row.stage, 3) + (1 if row.fs == "raw" else 2)
    load_of, mine = [0] * guests, set()
    for stage, weight in sorted(work.items(), key=lambda item: -item[1]):
        least = load_of.index(min(load_of))
        load_of[least] += weight
        if least == index:
            mine.add(stage)
    return [row for row in rows if row.stage in mine]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    bench_rows.add_arguments(parser)
    parser.add_argument("--sides", default="c,rust")
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--repeats", type=int, help="windows a side")
    parser.add_argument("--window", type=float, help="seconds of the guest")
    parser.add_argument("--walks", action="store_true", help="in the end, walks that prove the simulated caches")
    args = parser.parse_args()
    rows, left_out = bench_rows.chosen(args)
    mark = Marks()
    known = mark.known()

    def one(row: Row, stage: load.Stage) -> load.Result:
        return measure(row, stage, mark, ["c"] if row.fs == "raw" else args.sides.split(","), args)

    out = load.each_row(shard(rows, args.shard), load.Disks(), one)
    out["walks"] = walks.walk(mark.made) if args.walks else []
    load.save(args.out, {**out, "left_out": left_out, "known": known, "settings": {
        "repeats": args.repeats or REPEATS, "window": args.window or WINDOW}})
    sys.exit(bool(out["failures"]))


if __name__ == "__main__":
    main()
