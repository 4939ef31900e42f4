#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Measures C and Rust direct I/O by time, on a device of this machine, which runs our kernel.

Each row is measured twice: for IOPS, with one fio that does not read the clock and
goes on without a pause while the switch /sys/kernel/iomap/dio_impl is turned under it:
C, Rust, Rust, C, C, Rust... and for latency, with a fio for each implementation that
does. Both sides so use the same buffers, the same threads and the same file, and what
differs between two runs of a program cannot pose as a difference between two kernels'
code. The device is overwritten.

How much I/O was done in a turn is read from the "stat" of the device, which counts
requests that have ended: below the code that is compared, for block devices and file
systems alike, and without bios that were refused because they would have had to wait.
What fio says it did in the whole row checks these counters and scales them, for writes
include a journal's.

Lines that begin with "@@ " are progress for the one who waits.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import load
import rows as bench_rows
import stats
from load import Failed, Result, Stage, say
from rows import Row
from stats import Sample

import report
from disk import Refused, check_unused, name_of

__all__ = ["Refused", "name_of"]
SETTLE = 0.004          # after the switch, before counting
WARM = 0.12             # after fio's first I/O
# A turn is short, for what disturbs it from outside comes and goes in tenths of
# a second: many short pairs lose a few to that, few long ones are all touched.
# But it holds enough I/O for the count itself to be exact.
TURN, TURN_MAX, TURN_IOS = 0.025, 0.12, 150
ROUNDS_MIN, ROUNDS_MAX = 5, 60
USER_HZ = os.sysconf("SC_CLK_TCK")
# Seconds of fio for each implementation, in both of two turns.
LATENCY_SECONDS = 1
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
# The file, the space that is written into, and what a file system takes for itself.
LEAST_BYTES = load.FILE_SIZE + load.UNWRITTEN_SIZE + 512 * load.MIB
PROGRAMS = {"fio": "fio", "mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", "wipefs": "util-linux",
            "blkid": "util-linux"}


def check(device: str, confirm: str) -> str:
    """The name of the device, if it may be overwritten. Raises Refused with what to do."""
    if os.geteuid():
        raise Refused(f"root is needed: sudo make bench DEVICE={device}")
    name = name_of(device)
    if not load.SWITCH.exists():
        raise Refused(f"this kernel ({os.uname().release}) has no {load.SWITCH}: "
                      "build and boot one with CONFIG_IOMAP_DIO_COMPARE=y")
    for program, package in PROGRAMS.items():
        if not shutil.which(program):
            raise Refused(f"{program} is missing: apt-get install {package}")
    check_unused(device, name)
    size = int(Path("/sys/class/block", name, "size").read_text()) * 512
    if size < LEAST_BYTES:
        raise Refused(f"{device} has {size // load.MIB} MiB, and {LEAST_BYTES // load.MIB} are needed")
    counts = load.queue(name) / "iostats"
    if counts.read_text().strip() != "1":
        raise Refused(f"{device} does not count its requests: echo 1 > {counts}")
    if confirm != device:
        raise Refused(f"everything on {device} will be overwritten: if that is meant, add CONFIRM={device}")
    return name


def available(rows: list[Row], name: str) -> tuple[list[Row], list[str]]:
    """The rows that the device can do, and lines about the others."""
    queue = load.queue(name)
    block = int((queue / "logical_block_size").read_text())
    poll = (queue / "io_poll").read_text().strip() == "1"
    notes = []
    for why, gone in ((f"{name} has no poll queues", [row for row in rows if row.engine == "poll" and not poll]),
                      (f"{name} has blocks of {block} bytes", [row for row in rows if row.bytes < block])):
        if gone:
            notes.append(f"{len(gone)} rows left out, for {why}: " + " ".join(row.id for row in gone))
        rows = [row for row in rows if row not in gone]
    return rows, notes


def percentile(bins: Mapping[int, int], share: float) -> float | None:
    """The latency, in microseconds, that this share of the I/Os did not exceed."""
    left = share * sum(bins.values())
    for nanoseconds in sorted(bins):
        left -= bins[nanoseconds]
        if left <= 0:
            return nanoseconds / 1000
    return None


def latency_job(row: Row, target: load.Target) -> list[str]:
    """The job of the row with the clock on, and an end."""
    own = {"--gtod_reduce=1": "--gtod_reduce=0", "--runtime=600": f"--runtime={LATENCY_SECONDS}"}
    if target.own:
        # Once through what is fallocated, or less.
        own["--time_based=1"] = "--time_based=0"
    own["--output-format=json"] = "--output-format=json+"
    return [own.get(option, option) for option in row.command(target.path, target.size)]


def latency(row: Row, stage: Stage, sides: list[str]) -> Result:
    """Percentiles of each side: of two fios each, C, Rust, Rust, C."""
    bins: dict[str, Counter[int]] = {side: Counter() for side in sides}
    for side in [*sides, *sides[::-1]]:
        with load.Target(row, stage) as target:
            load.set_impl(side)
            done = subprocess.run(latency_job(row, target), capture_output=True, text=True, check=False,
                                  timeout=load.START_TIMEOUT + 10 * LATENCY_SECONDS)
        found = load.did(row, done.stdout, done.stderr).get("clat_ns", {}).get("bins")
        if not found:
            raise Failed(f"fio: {load.complaint(done.stdout, done.stderr)}")
        bins[side].update({int(ns): count for ns, count in found.items()})
    return {"latency": {side: {name: percentile(bins[side], share) for name, share in PERCENTILES.items()}
                        for side in sides}}


def cpu_seconds() -> tuple[float, float]:
    """(user, system) of all processors since boot."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _wait, irq, softirq = map(int, file.readline().split()[1:8])
    return (user + nice) / USER_HZ, (system + irq + softirq) / USER_HZ


def moved(disk: str, read: bool) -> int:
    """Bytes that requests to the device have moved since boot."""
    stat = Path("/sys/class/block", disk, "stat").read_text().split()
    return int(stat[2 if read else 6]) * 512


def turn(fio: load.Fio, impl: str, seconds: float, prepare: Callable[[], None]) -> Sample:
    """One sample: I/O under one implementation, for some time."""
    load.set_impl(impl)
    since = fio.count()
    prepare()
    time.sleep(SETTLE)
    cpu, count, start = cpu_seconds(), fio.count(), time.monotonic()
    while True:
        time.sleep(seconds)
        end, after, cpu_end = time.monotonic(), fio.count(), cpu_seconds()
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
    with load.Target(row, stage) as target, \
            load.Fio(row, load.one_job(row, target), partial(moved, stage.disk)) as fio:
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
        total = fio.count() - fio.start_bytes
    scale = claimed / total
    # Reads are counted exactly. Writes share the counter with the journal.
    if not (0.97 if row.is_read else 0.3) < scale < 1.03:
        raise Failed(f"fio counts {claimed} bytes, the kernel {total}")
    for sample in samples:
        sample["ios"] = sample["bytes"] * scale / row.bytes
        sample["iops"] = sample["ios"] / sample["seconds"]
        del sample["since_switch"]
    return {"id": row.id, "fio": fio.argv, "fio_share": scale, "rounds": rounds,
            "turn_seconds": seconds, "samples": samples}


def describe(_row: Row, result: Result) -> str:
    got = stats.summary(result["samples"])
    text = ": " + "  ".join(f"{impl} {got[impl]['iops']:,.0f}" for impl in ("c", "rust") if impl in got)
    if "ratio" in got:
        text += "  rust/c {median:.3f} [{low:.3f}, {high:.3f}]".format(**got["ratio"])
    return text


def run(rows: list[Row], notes: list[str], disks: Mapping[str, str], args: argparse.Namespace) -> dict[str, Any]:
    """The document about the rows."""
    # Seconds of measuring for each row
    budget = 0.9 if args.quick else 2
    sides = ["c", "rust"]
    for note in notes:
        say(note)
    say(f"{len(rows)} rows, each {budget:g} s of rounds of {' and '.join(sides)}")

    def one(row: Row, stage: Stage) -> Result:
        mine = ["c"] if row.fs == "raw" else sides
        # one side has half the work
        return {**measure(row, stage, budget * len(mine) / 2, mine), **latency(row, stage, mine)}

    out = load.each_row(rows, disks, one, describe)
    say(f"measured {len(out['rows'])} rows in {load.clock(out['seconds'])}"
        + (f", {len(out['failures'])} failed" if out["failures"] else ""))
    return {**out, "left_out": notes,
            "settings": {"machine": args.machine, "fs": args.fs, "io": args.io, "bs": args.bs,
                         "quick": args.quick, "budget": budget, "file_bytes": load.FILE_SIZE}}


def model(name: str) -> str:
    """What the device calls itself."""
    where = Path("/sys/class/block", name).resolve()
    for path in (where / "device/model", where.parent / "device/model"):
        if path.exists():
            return path.read_text().strip()
    return "unknown model"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    bench_rows.add_arguments(parser)
    parser.add_argument("--device", required=True)
    parser.add_argument("--confirm", default="")
    report.add_arguments(parser)
    args = parser.parse_args()
    try:
        name = check(args.device, args.confirm)
    except Refused as error:
        sys.exit(f"error: {error}")
    rows, notes = bench_rows.chosen(args)
    rows, unfit = available(rows, name)
    if not rows:
        sys.exit(f"error: no row is left for {args.device}: " + "; ".join(unfit))

    # A kill must not leave the file system mounted, nor the switch as it happened to be.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(130))
    before = load.SWITCH.read_text()
    try:
        document = run(rows, [*notes, *unfit], dict.fromkeys(("ram", "poll"), name), args)
    finally:
        load.SWITCH.write_text(before)
    document["device"] = f"{args.device}, {model(name)}"
    report.write(document, args, Path(f"/boot/config-{os.uname().release}"))
    latest = args.out.with_name("latest")
    latest.unlink(missing_ok=True)
    latest.symlink_to(args.out.name)
    print(f"\nresults: results/{args.out.name}/, also as results/latest/")
    sys.exit(bool(document["failures"]))


if __name__ == "__main__":
    main()
