# SPDX-License-Identifier: GPL-2.0
"""What makes the load in a guest: the switch, devices, file systems, and fio or vector.py.

device.py measures it by time, count.py by the instructions that it takes.
Lines that begin with "@@ " are progress for the one who waits.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import rows
from rows import Row

sys.path.append(str(Path(__file__).resolve().parents[1]))
import machine
from machine import MIB, SWITCH, Failed, command, set_impl

__all__ = ["MIB", "SWITCH", "Failed", "set_impl"]
MNT = Path("/mnt/bench")
FILE_SIZE = 256 * MIB
NULLB_MB = 640
# A turn into fallocated space must not come round to what it wrote itself.
UNWRITTEN_SIZE = 256 * MIB
# A file of small extents takes a system call to make each of them, or one that is shared again takes them apart.
SPLIT_SIZE, SPLIT = 32 * MIB, 8 << 10
HUGE_PAGES = 16
NR_HUGE_PAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
# In the guest, whose clock runs ahead while it waits for the host.
START_TIMEOUT = 600


Result = dict[str, Any]


def say(text: str) -> None:
    print(f"@@ {text}", flush=True)


# Counters

def io_bytes(read: bool) -> int:
    """Bytes that block devices were asked to read or write since boot."""
    want = "pgpgin" if read else "pgpgout"
    found = re.search(rf"^{want} (\d+)$", Path("/proc/vmstat").read_text(), re.M)
    if not found:
        raise Failed(f"/proc/vmstat has no {want} (CONFIG_VM_EVENT_COUNTERS)")
    return int(found[1]) << 10


# Devices and file systems

# Attributes of null_blk. Polled I/O needs a poll queue; what O_DSYNC costs depends on the cache of the
# device, and on whether it can write through it. irqmode 1 completes from a soft interrupt soon
# after submission, 2 some time later, as a device does; 0 does it at once.
NULLB = {
    # Whoever polls cannot wait for a request to become free.
    "poll": {"irqmode": 0, "poll_queues": 1, "hw_queue_depth": 1024},
    "irq": {"irqmode": 2, "completion_nsec": 10000},
    "irq-fua": {"irqmode": 2, "completion_nsec": 10000, "cache_size": 16, "fua": 1},
    "irq-cache": {"irqmode": 2, "completion_nsec": 10000, "cache_size": 16, "fua": 0},
    "fua": {"irqmode": 1, "cache_size": 16, "fua": 1},
    "cache": {"irqmode": 1, "cache_size": 16, "fua": 0},
}
def queue(name: str) -> Path:
    """Where sysfs has the queue of a disk or of the disk that a partition is on."""
    where = Path("/sys/class/block", name).resolve()
    return (where.parent if (where / "partition").exists() else where) / "queue"


def fill(path: Path, size: int) -> None:
    machine.fill(path, size, os.urandom(4096))


class Disks(dict[str, str]):
    """The disks in memory, by the name that rows have for them, made when they are first wanted.

    There is memory for one null_blk at a time.
    """

    def __missing__(self, kind: str) -> str:
        for last in self.keys() & NULLB:
            (machine.NULLB / f"nullb_{last}").rmdir()
            del self[last]
        # This one completes at once.
        self[kind] = name = "ram0" if kind == "ram" else machine.make_scsi({"delay": 0}) if kind == "scsi" else \
            machine.make_null_blk(f"nullb_{kind}", NULLB_MB, {
                "queue_mode": 2, "submit_queues": 1, "hw_queue_depth": 128, **NULLB[kind]})
        # Where nobody has written, a disk in memory has yet to allocate it; scsi_debug does so at once.
        if kind != "scsi":
            fill(Path("/dev", name), int(Path("/sys/block", name, "size").read_text()) * 512)
        return name


class Stage:
    """A device, perhaps with a file system on it, for the rows that share it."""

    def __init__(self, key: rows.Stage, disks: Mapping[str, str]) -> None:
        kind, self.fs, self.bounce, self.block = key
        self.disk = disks[kind]
        # scsi_debug is slow.
        self.size = FILE_SIZE // 4 if kind == "scsi" else FILE_SIZE
        self.stable = queue(self.disk) / "stable_writes"

    def __enter__(self) -> Self:
        node = Path("/dev", self.disk)
        if self.fs == "raw":
            fill(node, self.size)
            self.path = node
            return self
        block = str(rows.SIZES[self.block])
        # For untorn writes of 16k, which XFS would copy elsewhere, what is allocated is aligned to as much.
        scsi = self.disk.startswith("sd")
        clusters = ("-O", "bigalloc", "-C", "16k") if scsi else ()
        stripes = ("-d", "su=16k,sw=1,agcount=2", "-l", "size=64m") if scsi else ()
        btrfs = ("mkfs.btrfs", "-q", "-f", "-K")
        mkfs = {"ext4": ("mkfs.ext4", "-q", "-F", "-b", block, *clusters,
                         # The journal of a disk of 1 GiB, and no thread that zeroes in the background.
                         "-J", "size=32", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"),
                "xfs": ("mkfs.xfs", "-q", "-f", "-K", "-b", f"size={block}", *stripes),
                "btrfs": btrfs, "btrfs-csum": btrfs, "f2fs": ("mkfs.f2fs", "-q", "-f", "-t", "0")}[self.fs]
        # the last file system of the other kind must not be found again
        command("wipefs", "-aq", node)
        command(*mkfs, node)
        if self.bounce:
            self.stable.write_text("1")
        MNT.mkdir(parents=True, exist_ok=True)
        # With atime, whether a read looks at the clock depends on the second.
        options = "noatime,nodatacow" if self.fs == "btrfs" else "noatime"
        command("mount", "-t", self.fs.partition("-")[0], "-o", options, node, MNT)
        self.path = MNT / "file"
        fill(self.path, self.size)
        os.sync()
        return self

    def __exit__(self, *_: object) -> None:
        if self.fs != "raw":
            command("umount", MNT)
            if self.bounce:
                self.stable.write_text("0")


# One row

class Target:
    """The file or device that a row does its I/O on, in the state that the row wants it in."""

    def __init__(self, row: Row, stage: Stage) -> None:
        self.row, self.path, self.size, self.fd = row, stage.path, stage.size, -1
        # What the row does to each file of its own, and what it does not do to that of the stage.
        self.unwritten = "unwritten" in row.kind or row.kind == "nowait-append"
        self.split, self.cached, self.shared = (row.kind.startswith(what) for what in ("split", "cached", "reflinked"))
        self.own = self.unwritten or self.split or self.shared or row.kind == "append"
        if self.own:
            self.path, self.size = MNT / row.kind, SPLIT_SIZE if self.split or self.shared else UNWRITTEN_SIZE
        elif self.cached:
            self.size -= MIB
        self.other = self.path.with_suffix(".other")

    def __enter__(self) -> Self:
        if self.row.memory == "huge":
            NR_HUGE_PAGES.write_text(str(HUGE_PAGES))
        if self.own:
            self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            # fio lays out an empty file, and appends to one that is not.
            os.write(self.fd, b"\0" * (MIB // 16))
        elif self.cached:
            self.fd = os.open(self.path, os.O_RDONLY)
        if self.split:
            self.lay_out_split()
        elif self.shared:
            fill(self.path, self.size)
        self.prepare()
        return self

    def lay_out_split(self) -> None:
        """Two files by turns, so that no two extents of one are neighbours."""
        os.truncate(self.fd, 0)
        other = os.open(self.other, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        for pos in range(0, self.size, SPLIT):
            for fd in (self.fd, other):
                os.posix_fallocate(fd, pos, SPLIT)
        os.close(other)
        fill(self.path, self.size)
        said = subprocess.run(["filefrag", self.path], stdout=subprocess.PIPE, text=True, check=True).stdout
        if int(said.split(": ")[1].split()[0]) < self.size // SPLIT:
            raise Failed(f"not an extent for each {SPLIT} bytes: {said.strip()}")

    def prepare(self) -> None:
        """Before each turn: what the last one wrote is unwritten again, or shared, what is to be cached is."""
        if self.unwritten:
            command("fallocate", "--zero-range", "--length", str(UNWRITTEN_SIZE), self.path)
        elif self.shared:
            self.other.unlink(missing_ok=True)
            command("cp", "--reflink=always", self.path, self.other)
        if self.own:
            # What came before is not left for the journal to do during the turn.
            os.sync()
        elif self.cached:
            os.posix_fadvise(self.fd, self.size, MIB, os.POSIX_FADV_RANDOM)
            os.pread(self.fd, 4096, self.size + MIB // 2)

    def __exit__(self, *_: object) -> None:
        if self.row.memory == "huge":
            NR_HUGE_PAGES.write_text("0")
        if self.fd >= 0:
            if not self.own:
                os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(self.fd)
        if self.own:
            self.path.unlink()
            self.other.unlink(missing_ok=True)
            # XFS takes files apart in the background, thousands of extents long. A freeze waits for that, and for
            # the log.
            command("fsfreeze", "--freeze", MNT)
            command("fsfreeze", "--unfreeze", MNT)


def one_job(row: Row, target: Target) -> list[str]:
    """The command line of the row."""
    return [*row.command(target.path, target.size),
            # the timer, the console and this script have the other processor
            *(["--cpus_allowed=1"] if (os.cpu_count() or 1) > 1 else [])]


class Fio:
    """A fio that runs. count(read) are the bytes that were moved since boot."""

    def __init__(self, row: Row, argv: list[str], count: Callable[[bool], int] = io_bytes) -> None:
        self.row = row
        self.count = partial(count, row.is_read)
        self.argv = argv
        self.start_bytes = self.count()
        self.proc = subprocess.Popen(self.argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_for_io(self) -> None:
        """Until there is I/O at each of some looks in a row: a journal writes now and then as well."""
        limit = time.monotonic() + START_TIMEOUT
        last, looks = self.start_bytes, 0
        while looks < 4:
            self.alive()
            if time.monotonic() > limit:
                raise Failed(f"no I/O within {START_TIMEOUT} s")
            time.sleep(0.005)
            now = self.count()
            looks = looks + 1 if now - last >= self.row.bytes else 0
            last = now

    def alive(self) -> None:
        if self.proc.poll() is not None:
            out, err = self.proc.communicate()
            raise Failed(f"fio: {complaint(out, err)}")

    def stop(self) -> int:
        """The bytes fio says it moved."""
        self.alive()
        self.proc.send_signal(signal.SIGINT)
        try:
            out, err = self.proc.communicate(timeout=START_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise Failed("fio does not stop") from None
        return int(did(self.row, out, err)["io_bytes"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.communicate()


def did(row: Row, out: str, err: str) -> dict[str, Any]:
    """What fio says of the I/O that it did, from its standard output and standard error."""
    try:
        job = json.loads(out[out.index("{"):])["jobs"][0]
    except ValueError:
        raise Failed(f"fio: {complaint(out, err)}") from None
    if job["error"]:
        raise Failed(f"fio: {os.strerror(job['error'])}")
    direction: dict[str, Any] = job["read" if row.is_read else "write"]
    return direction


def complaint(out: str, err: str) -> str:
    lines = [line for line in (err + "\n" + out).splitlines()
             if line.strip() and line.strip()[0] not in '{}[]"']
    text = lines[0].strip()[-300:] if lines else "it ended without a word"
    return text.replace("fio: ", "")


# All rows

def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def each_row(rows: list[Row], disks: Mapping[str, str], measure: Callable[[Row, Stage], Result],
             describe: Callable[[Row, Result], str] = lambda row, result: "") -> dict[str, Any]:
    """What measure(row, stage) says of each row, stage by stage, the rows that failed, and what it ran on."""
    results: list[Result] = []
    failures: dict[str, str] = {}
    began = time.monotonic()

    def failed(row: Row, why: Exception) -> None:
        failures[row.id] = str(why)
        say(f"FAILED {row.id}: {why}")

    for key in dict.fromkeys(row.stage for row in rows):
        mine = [row for row in rows if row.stage == key]
        try:
            with Stage(key, disks) as stage:
                for row in mine:
                    done = len(results) + len(failures)
                    left = (time.monotonic() - began) / done * (len(rows) - done) if done > 3 else 0
                    try:
                        result = measure(row, stage)
                    except (Failed, OSError, subprocess.TimeoutExpired) as error:
                        failed(row, error)
                        continue
                    results.append(result)
                    say(f"{done + 1}/{len(rows)}{f', {clock(left)} left' if left else ''}: "
                        f"{row.id}{describe(row, result)}")
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            # without its device or file system none of the rest can run
            known = {*failures, *(result["id"] for result in results)}
            for row in mine:
                if row.id not in known:
                    failed(row, error)
    uname = os.uname()
    fio = subprocess.run(["fio", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    processor = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return {
        "kernel": {"release": uname.release, "version": uname.version, "machine": uname.machine,
                   "cmdline": Path("/proc/cmdline").read_text().strip()},
        "guest": {"cpus": os.cpu_count(), "cpu": processor[1] if processor else "unknown", "fio": fio},
        "seconds": time.monotonic() - began,
        "rows": results,
        "failures": [{"id": row_id, "error": why} for row_id, why in failures.items()],
    }


def save(path: Path, document: dict[str, Any]) -> None:
    partial = path.with_suffix(".tmp")
    partial.write_text(json.dumps(document, indent=1) + "\n")
    partial.rename(path)
