#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Measures how long writes take while a busy poller owns the processor on which their bios end.

Runs as root in a guest of QEMU with two processors, whose clock counts instructions.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import load
from rows import Row

from machine import Failed, command

KINDS = ("unwritten", "append", "cached", "dsync")
# What hog.c writes each time, and how often.
SIZE, TURNS = 8 * load.MIB, 5
SIDES = [(impl, what) for impl in ("c", "rust") for what in ("idle", "hog")]


def times(path: Path, kind: str, what: str) -> list[int]:
    """Of the writes to a new file, in ns."""
    path.unlink(missing_ok=True)
    path.touch()
    if kind == "cached":
        load.fill(path, SIZE)
    elif kind != "append":
        command("fallocate", "--length", str(SIZE), path)
    os.sync()
    done = subprocess.run(["/cache/hog", path, kind, what], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise Failed(done.stderr.strip())
    return [*map(int, done.stdout.split())]


def percentiles(ns: list[int]) -> dict[str, int]:
    ns = sorted(ns)
    return {name: ns[len(ns) * of_1000 // 1000] for name, of_1000 in (("p50", 500), ("p99", 990), ("p99.9", 999))}


def measure(row: Row, _stage: load.Stage) -> load.Result:
    found: dict[tuple[str, str], list[int]] = {side: [] for side in SIDES}
    for _ in range(TURNS):
        for impl, what in SIDES:
            load.set_impl(impl)
            found[impl, what] += times(load.MNT / row.kind, row.kind, what)
    return {"id": row.id, "fs": row.fs, "kind": row.kind, "writes": len(found[SIDES[0]]),
            **{impl: {what: percentiles(found[impl, what]) for what in ("idle", "hog")} for impl in ("c", "rust")}}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    args = parser.parse_args()
    # A queue for each processor, as NVMe has; or the hog's may be asked to run that of both.
    load.NULLB["hog"] = {**load.NULLB["irq"], "submit_queues": 2}
    # The scheduler would have others run for 50 ms a second.
    for server in Path("/sys/kernel/debug/sched/fair_server").glob("cpu*/runtime"):
        server.write_text("0")
    os.sched_setaffinity(0, {1})
    rows = [Row(fs, kind, "libaio", "4k", in_flight=1, on="hog") for fs in ("ext4", "xfs") for kind in KINDS]
    out = load.each_row(rows, load.Disks(), measure)
    load.save(args.out, out)
    sys.exit(bool(out["failures"]))


if __name__ == "__main__":
    main()
