#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Measures the rows of the benchmark by time; runs as root in a guest with KVM, or for device.py.

fio makes the load, one process for each row, and goes on without a pause while
the switch /sys/kernel/iomap/dio_impl is turned under it: C, Rust, Rust, C, C,
Rust... Both sides so use the same buffers, the same threads and the same file,
and what differs between two runs of a program cannot pose as a difference
between two kernels' code.

How much I/O was done in a turn is read from /proc/vmstat (pgpgin, pgpgout:
counted in submit_bio(), below the code that is compared, for block devices
and file systems alike). What fio says it did in the whole row checks these
counters and scales them, for writes include a journal's.

Lines that begin with "@@ " are progress for the one who waits.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import load
import rows as bench_rows
import stats
from load import Failed, Result, Stage, io_bytes, say
from rows import Row
from stats import Sample

SETTLE = 0.004          # after the switch, before counting
WARM = 0.12             # after fio's first I/O
# A turn is short, for what disturbs it from outside comes and goes in tenths of
# a second: many short pairs lose a few to that, few long ones are all touched.
# But it holds enough I/O for the count itself to be exact.
TURN, TURN_MAX, TURN_IOS = 0.025, 0.12, 150
ROUNDS_MIN, ROUNDS_MAX = 5, 60
USER_HZ = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> tuple[float, float]:
    """(user, system) of all processors since boot."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _wait, irq, softirq = map(int, file.readline().split()[1:8])
    return (user + nice) / USER_HZ, (system + irq + softirq) / USER_HZ


def turn(fio: load.Fio, impl: str, seconds: float, prepare: Callable[[], None]) -> Sample:
    """One sample: I/O under one implementation, for some time."""
    load.set_impl(impl)
    since = io_bytes(fio.read)
    prepare()
    time.sleep(SETTLE)
    cpu, count, start = cpu_seconds(), io_bytes(fio.read), time.monotonic()
    while True:
        time.sleep(seconds)
        end, after, cpu_end = time.monotonic(), io_bytes(fio.read), cpu_seconds()
        fio.alive()
        # a host that is busy elsewhere may have given no time at all
        if after > count:
            break
        if end - start > load.START_TIMEOUT:
            raise Failed(f"no I/O for {load.START_TIMEOUT} s")
    return {"impl": impl, "bytes": after - count, "seconds": end - start,
            "usr": cpu_end[0] - cpu[0], "sys": cpu_end[1] - cpu[1],
            "since_switch": after - since}


def plan(row: Row, rate: float, size: int, budget: float, sides: list[str]) -> tuple[float, int]:
    """(seconds of a turn, rounds) for a row that moves rate bytes a second."""
    seconds = min(max(TURN, TURN_IOS * row.bytes / rate), TURN_MAX)
    if row.kind == "unwritten":
        # twice around would overwrite: stop well before
        seconds = min(seconds, 0.6 * size / rate - SETTLE)
        if seconds < 0.01:
            raise Failed("the device is too fast for the size of the file")
    rounds = round(budget / len(sides) / (seconds + SETTLE))
    return seconds, min(max(rounds, ROUNDS_MIN), ROUNDS_MAX)


def measure(row: Row, stage: Stage, budget: float, sides: list[str]) -> Result:
    """The samples of a row, in about budget seconds."""
    with load.Target(row, stage) as target, load.Fio(row, load.one_job(row, target)) as fio:
        fio.wait_for_io()
        rate = 0
        for impl in sides:
            sample = turn(fio, impl, WARM / len(sides), target.prepare)
            rate = max(rate, sample["bytes"] / sample["seconds"])
        seconds, rounds = plan(row, rate, target.size, budget, sides)
        samples = []
        for pair in range(rounds):
            for impl in sides if pair % 2 == 0 else sides[::-1]:
                sample = turn(fio, impl, seconds, target.prepare)
                if row.kind == "unwritten" and sample["since_switch"] > target.size:
                    raise Failed("a turn wrote more than the fallocated space")
                samples.append({"pair": pair, **sample})
        claimed = fio.stop()
        total = io_bytes(fio.read) - fio.start_bytes
    scale = claimed / total
    # Reads are counted exactly. Writes share the counter with the journal, and a polled bio
    # of more segments than null_blk takes is submitted twice: it must not wait, splitting it
    # would, and io_uring then hands it to a worker.
    exact = row.is_read and row.engine != "poll"
    if not (0.97 if exact else 0.3) < scale < 1.03:
        raise Failed(f"fio counts {claimed} bytes, the kernel {total}")
    for sample in samples:
        sample["ios"] = sample["bytes"] * scale / row.bytes
        sample["iops"] = sample["ios"] / sample["seconds"]
        del sample["since_switch"]
    return {"id": row.id, "fio": fio.argv, "fio_share": scale, "rounds": rounds,
            "turn_seconds": seconds, "samples": samples}


# The whole run

def describe(_row: Row, result: Result) -> str:
    got = stats.summary(result["samples"])
    text = ": " + "  ".join(f"{impl} {got[impl]['iops']:,.0f}" for impl in ("c", "rust") if impl in got)
    if "ratio" in got:
        text += "  rust/c {median:.3f} [{low:.3f}, {high:.3f}]".format(**got["ratio"])
    return text


def run(rows: list[Row], notes: list[str], disks: Mapping[str, str], args: argparse.Namespace,
        extra: Callable[[Row, Stage, list[str]], Result] = lambda row, stage, sides: {}) -> dict[str, Any]:
    """The document about the rows; extra(row, stage, sides) adds to what it says of each."""
    budget = args.budget or (0.9 if args.quick else 2)
    sides = ["c", "rust"]
    for note in notes:
        say(note)
    say(f"{len(rows)} rows, each {budget:g} s of rounds of {' and '.join(sides)}")

    def one(row: Row, stage: Stage) -> Result:
        mine = ["c"] if row.fs == "raw" else sides
        # one side has half the work
        return {**measure(row, stage, budget * len(mine) / 2, mine), **extra(row, stage, mine)}

    out = load.each_row(rows, disks, one, describe)
    say(f"measured {len(out['rows'])} rows in {load.clock(out['seconds'])}"
        + (f", {len(out['failures'])} failed" if out["failures"] else ""))
    return {**out, "left_out": notes,
            "settings": {"machine": args.machine, "fs": args.fs, "io": args.io, "bs": args.bs,
                         "quick": args.quick, "budget": budget, "file_bytes": load.FILE_SIZE}}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    bench_rows.add_arguments(parser)
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    parser.add_argument("--budget", type=float, default=0,
                        help="seconds of measuring for each row (default 2; 0.9 if quick)")
    args = parser.parse_args()
    rows, notes = bench_rows.chosen(args)
    out = run(rows, notes, load.Disks(), args)
    load.save(args.out, out)
    sys.exit(bool(out["failures"]))


if __name__ == "__main__":
    main()
