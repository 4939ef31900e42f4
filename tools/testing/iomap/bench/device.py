#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Measures C and Rust direct I/O on a device of this machine, which runs our kernel.

The rows are those of run.py. Each is measured twice: for IOPS, with the switch
turned under one fio that does not read the clock, and for latency, with a fio
for each implementation that does. The device is overwritten.
"""

import argparse
import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import load
import rows as bench_rows
import run
from load import Failed
from rows import Row

import report

# Seconds of fio for each implementation, in both of two turns.
LATENCY_SECONDS = 1
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
# The file, the space that is written into, and what a file system takes for itself.
LEAST_BYTES = load.FILE_SIZE + load.UNWRITTEN_SIZE + 512 * load.MIB
PROGRAMS = {"fio": "fio", "mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", "wipefs": "util-linux",
            "blkid": "util-linux"}


class Refused(Exception):
    """One line for the person who called."""


def name_of(device: str) -> str:
    """The name of a block device in sysfs."""
    try:
        info = os.stat(device)
    except OSError as error:
        raise Refused(f"DEVICE={device}: {error.strerror}") from None
    if not stat.S_ISBLK(info.st_mode):
        raise Refused(f"DEVICE={device} is no block device")
    return Path(f"/sys/dev/block/{os.major(info.st_rdev)}:{os.minor(info.st_rdev)}").resolve().name


def check_unused(device: str, name: str) -> None:
    """Nobody else has anything to do with the device, and nothing is divided on it."""
    disk = Path("/sys/class/block", name).resolve()
    # The disk and its partitions.
    parts = {(path / "dev").read_text().strip(): path
             for path in (disk, *(path.parent for path in disk.glob("*/partition")))}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        if words[2] in parts:
            raise Refused(f"/dev/{parts[words[2]].name} is mounted on {words[4]}: umount it, or take another device")
    for part in parts.values():
        holders = ", ".join(path.name for path in (part / "holders").glob("*"))
        if holders:
            raise Refused(f"/dev/{part.name} is in use by {holders}: take another device")
    if len(parts) > 1:
        raise Refused(f"{device} has a partition table: name one of its partitions, or wipe it: wipefs -a {device}")
    try:
        # Whoever mounts it, swaps to it or builds on it has it open in this way.
        os.close(os.open(device, os.O_RDWR | os.O_EXCL))
    except OSError as error:
        why = ("is in use (swap, a volume, a mount elsewhere)" if error.errno == errno.EBUSY
               else f"cannot be opened: {error.strerror}")
        raise Refused(f"{device} {why}: take another device") from None
    table = subprocess.run(["blkid", "-p", "-s", "PTTYPE", "-o", "value", device], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
    if table:
        raise Refused(f"{device} has a partition table ({table}): wipe it if it is not needed: wipefs -a {device}")


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


def latency(row: Row, stage: load.Stage, sides: list[str]) -> dict[str, Any]:
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
    args.budget = 0
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
        document = run.run(rows, [*notes, *unfit], dict.fromkeys(("ram", "poll"), name), args, latency)
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
