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
import sys
import time
from pathlib import Path
from typing import Any

import load
import rows as bench_rows
from load import Failed
from rows import Row

# Seconds of the guest, which are 10^9 instructions.
SETTLE = 0.003          # after the switch: what the other implementation began has ended
WARM = 0.02             # after fio's first I/O
WINDOW = 0.2
# What is appended is not overwritten while the row lasts.
WINDOW_APPEND = 0.08
REPEATS = 3
# A journal does not do the same for each I/O.
REPEATS_JOURNAL = 9


class Marks:
    """nopl 0x10c0d1(%rax,%rax); ret: the plugin writes what it has counted."""

    def __init__(self) -> None:
        self.page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.page.write(bytes.fromhex("0f1f8400d1c01000c3"))
        self.run = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(self.page)))
        self.made = 0

    def __call__(self) -> int:
        """The number of the mark: what the plugin counted before it bears the same."""
        self.run()
        self.made += 1
        return self.made - 1


def measure(row: Row, stage: load.Stage, mark: Marks, sides: list[str], args: argparse.Namespace) -> load.Result:
    """The windows of a row, C, Rust, Rust, C, C, Rust...

    For appending, every window has a new file and a new fio, and so begins where the
    others do; else all share one.
    """
    seconds = args.window or (WINDOW_APPEND if row.kind == "append" else WINDOW)
    repeats = args.repeats or (REPEATS_JOURNAL if row.journal else REPEATS)
    turns = [impl for repeat in range(repeats) for impl in (sides if repeat % 2 == 0 else sides[::-1])]
    windows: list[dict[str, Any]] = []
    for together in [[impl] for impl in turns] if row.kind == "append" else [turns]:
        with load.Target(row, stage) as target, load.Fio(row, load.one_job(row, target)) as fio:
            fio.wait_for_io()
            time.sleep(WARM)
            for number, impl in enumerate(together):
                if number:
                    target.prepare()
                load.set_impl(impl)
                time.sleep(SETTLE)
                mark()
                time.sleep(seconds)
                windows.append({"impl": impl, "mark": mark()})
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
    args = parser.parse_args()
    rows, left_out = bench_rows.chosen(args)
    mark = Marks()

    def one(row: Row, stage: load.Stage) -> load.Result:
        return measure(row, stage, mark, ["c"] if row.fs == "raw" else args.sides.split(","), args)

    out = load.each_row(shard(rows, args.shard), load.Disks(), one)
    load.save(args.out, {**out, "left_out": left_out, "settings": {
        "repeats": args.repeats or REPEATS, "window": args.window or WINDOW}})
    sys.exit(bool(out["failures"]))


if __name__ == "__main__":
    main()
