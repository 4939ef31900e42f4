#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes the load for counting cache lines; runs as root in a guest of QEMU with 8 processors.

The counting is done outside, by a plugin of QEMU (lines.c), in windows from one mark to the next.
"""

import argparse
import ctypes
import mmap
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import count
import load
from rows import Row

PROCESSORS = (1, 2, 4, 8)
KINDS = ("randread", "randwrite")
# A job has this much of the file for itself, or a file of this size.
PART = 8 * load.MIB
# Seconds of the guest, which are 10^9 instructions of all processors together.
SETTLE, WARM, WINDOW = 0.003, 0.01, 0.01

ROUNDS = 2000
# Waits until *%rdi is %esi and makes it %edx, %ecx times:
# 1: mov %esi,%eax; lock cmpxchg %edx,(%rdi); jne 1b; dec %ecx; jne 1b; ret
PASS_ON = bytes.fromhex("89f0f00fb11775f8ffc975f4c3")


def to_and_fro(mark: count.Marks) -> int:
    """The window in which two processors pass a line to each other, ROUNDS times each."""
    at = mark.page.tell()
    mark.page.write(PASS_ON)
    pass_on = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint)(
        ctypes.addressof(ctypes.c_char.from_buffer(mark.page, at)))
    word = ctypes.c_char.from_buffer(mmap.mmap(-1, mmap.PAGESIZE))

    def side(cpu: int) -> None:
        os.sched_setaffinity(0, {cpu})
        pass_on(ctypes.addressof(word), cpu, 1 - cpu, ROUNDS)

    threads = [threading.Thread(target=side, args=(cpu,)) for cpu in (0, 1)]
    mark()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return mark() // 2


def online(processors: int) -> None:
    for cpu in range(1, PROCESSORS[-1]):
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/online")
        wanted = "1" if cpu < processors else "0"
        if path.read_text().strip() != wanted:
            path.write_text(wanted)


def own_file(job: int) -> Path:
    return load.MNT / f"own.{job}"


def command(row: Row, path: Path, own: bool) -> list[str]:
    """fio with a job on each processor."""
    argv = ["fio", "--eta=never", "--output-format=json"]
    for job in range(row.jobs):
        # The first three words are not of the job.
        argv += [*replace(row, jobs=1).command(own_file(job) if own else path, PART)[3:],
                 f"--offset={0 if own else job * PART}", f"--cpus_allowed={job}"]
    return argv


def measure(row: Row, stage: load.Stage, mark: count.Marks) -> load.Result:
    """A window for each implementation: all jobs on one file, then each on its own."""
    windows = []
    online(row.jobs)
    for own in (False,) if row.fs == "raw" else (False, True):
        for job in range(row.jobs if own else 0):
            if not own_file(job).exists():
                load.fill(own_file(job), PART)
        with load.Fio(row, command(row, stage.path, own)) as fio:
            fio.wait_for_io()
            time.sleep(WARM)
            for impl in ("c",) if row.fs == "raw" else ("c", "rust"):
                load.set_impl(impl)
                time.sleep(SETTLE)
                mark()
                time.sleep(WINDOW)
                windows.append({"own": own, "impl": impl, "window": mark() // 2})
            fio.stop()
    return {"id": row.id, "fs": row.fs, "kind": row.kind, "processors": row.jobs, "windows": windows}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    args = parser.parse_args()
    mark = count.Marks()
    os.sched_setaffinity(0, {0})
    check = to_and_fro(mark)
    rows = [Row(fs, kind, "psync", "4k", jobs=n) for fs in ("raw", "ext4", "xfs") for kind in KINDS for n in PROCESSORS]
    out = load.each_row(rows, load.Disks(), lambda row, stage: measure(row, stage, mark))
    load.save(args.out, {**out, "check": check, "rounds": ROUNDS, "window": WINDOW})
    sys.exit(bool(out["failures"]))


if __name__ == "__main__":
    main()
