#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests "make bench DEVICE=" as its user would, in a guest with an NVMe disk that QEMU makes up.

Prints "ok device-NAME" or "FAIL device-NAME: why" for each test into --out.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

DISK, SMALL, PART = "/dev/nvme0n1", "/dev/nvme0n1p1", "/dev/nvme0n1p2"
SWITCH = Path("/sys/kernel/iomap/dio_impl")
RESULTS = Path("/project/results")
MIB = 1 << 20


def sh(*argv: str | Path) -> None:
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def bench(**variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-s", "-C", "/project", "bench", *(f"{k}={v}" for k, v in variables.items())],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def refused(words: str, device: str, confirm: str = "", **variables: str) -> None:
    """It fails with one line that says this, and writes nothing to the disk."""
    def content() -> bytes:
        with open(DISK, "rb") as file:
            return file.read(4 * MIB)

    before = content()
    done = bench(DEVICE=device, CONFIRM=confirm, **variables)
    errors = [line for line in done.stderr.splitlines() if not line.startswith("make:")]
    assert done.returncode, "it did not fail"
    assert len(errors) == 1 and errors[0].startswith("error: "), f"it said {errors}"
    assert words in errors[0], f"it said {errors[0]}"
    assert content() == before, "it wrote to the disk"


def divide() -> None:
    """A small and a large partition, in the old kind of table."""
    sectors = int(Path("/sys/class/block/nvme0n1/size").read_text())
    entries = [(2048, 64 * MIB // 512), (2048 + 64 * MIB // 512, sectors - 4096 - 64 * MIB // 512)]
    table = bytearray(512)
    for i, (start, count) in enumerate(entries):
        struct.pack_into("<B3sB3sII", table, 446 + 16 * i, 0, b"", 0x83, b"", start, count)
    table[510:] = b"\x55\xaa"
    with open(DISK, "r+b") as file:
        file.write(table)
    sh("blockdev", "--rereadpt", DISK)


def mounted() -> None:
    sh("mkfs.ext4", "-q", "-F", PART)
    Path("/mnt/used").mkdir(exist_ok=True)
    sh("mount", PART, "/mnt/used")
    try:
        refused("is mounted on /mnt/used", PART, PART)
        refused("is mounted on /mnt/used", DISK, DISK)
    finally:
        sh("umount", "/mnt/used")


def uncounted() -> None:
    Path("/sys/block/nvme0n1/queue/iostats").write_text("0")
    try:
        refused("does not count its requests", PART, PART)
    finally:
        Path("/sys/block/nvme0n1/queue/iostats").write_text("1")


def swap() -> None:
    sh("mkswap", PART)
    sh("swapon", PART)
    try:
        refused("in use", PART, PART)
    finally:
        sh("swapoff", PART)


def run() -> None:
    SWITCH.write_text("c")
    done = bench(DEVICE=PART, CONFIRM=PART, QUICK="1", IO="randread,unwritten,psync")
    assert done.returncode == 0, f"it failed: {(done.stdout + done.stderr)[-500:]}"
    document = json.loads((RESULTS / "latest/bench.json").read_text())
    rows = document["summary"]
    assert {"raw/randread/psync/4k", "ext4/randread/psync/4k", "xfs/unwritten/psync/4k"} <= set(rows), sorted(rows)
    assert not document["run"]["failures"], document["run"]["failures"]
    for row_id, row in rows.items():
        for side in row["latency"]:
            p = row["latency"][side]
            assert 0 < p["p50"] <= p["p99"] <= p["p99.9"], f"{row_id}: {p}"
            assert row[side]["usr_us"] + row[side]["sys_us"] > 0, row_id
        if not row_id.startswith("raw/"):
            assert set(row["latency"]) == {"c", "rust"} and row["ratio"]["pairs"] > 1, row_id
    assert "QEMU" in document["run"]["device"], document["run"]["device"]
    assert "p99.9" in done.stdout, "the table has no latencies"
    assert SWITCH.read_text().strip() == "c", "the switch is not as it was"
    assert PART not in Path("/proc/mounts").read_text(), "the file system is still mounted"


TESTS: dict[str, Callable[[], None]] = {
    # Devices that are none are refused by the unit tests.
    "partition-table": partial(refused, "has a partition table", DISK, DISK),
    "too-small": partial(refused, "64 MiB", SMALL, SMALL),
    "unconfirmed": partial(refused, f"CONFIRM={PART}", PART),
    "wrong-name-confirmed": partial(refused, f"CONFIRM={PART}", PART, DISK),
    "mounted": mounted,
    "not-counted": uncounted,
    "swap": swap,
    "misspelt-row": partial(refused, "unknown", PART, PART, IO="sideways"),
    "polled-rows-are-left-out": partial(refused, "no poll queues", PART, PART, IO="poll", BS="4k", FS="xfs"),
    "run": run,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    # What is tested is not to be taken for a result.
    sh("mount", "-t", "tmpfs", "tmpfs", RESULTS)
    divide()
    lines = []
    for name, test in TESTS.items():
        try:
            test()
            lines.append(f"ok device-{name}")
        except (AssertionError, subprocess.CalledProcessError, OSError, ValueError, KeyError) as error:
            lines.append(f"FAIL device-{name}: {error}")
        print(f"@@ {lines[-1]}", flush=True)
    args.out.write_text("\n".join(lines) + "\n")
    os.sync()
    sys.exit(any(line.startswith("FAIL") for line in lines))


if __name__ == "__main__":
    main()
