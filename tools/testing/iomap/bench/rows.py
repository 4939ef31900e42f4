#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The rows of the benchmark, and the FS=, IO=, BS= filters that pick some of them.

Run by itself it checks a filter and says what it picks; count.py (in the guest)
and report.py (outside) import it, so that a row is defined in one place only.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

# The sizes that "make count" has a budget for.
SHORT = "512,4k,8k,16k"
SIZES = {"512": 512, "2k": 2 << 10, "4k": 4 << 10, "8k": 8 << 10, "16k": 16 << 10, "64k": 64 << 10,
         "128k": 128 << 10, "1M": 1 << 20}

# How fio is told to do its I/O. The asynchronous engines submit in batches, as t/io_uring does. What fio
# cannot do, vector.py does.
ENGINES = {
    "io_uring": ("io_uring", ("ioengine=io_uring",)),
    "fixedbufs": ("io_uring, registered", ("ioengine=io_uring", "fixedbufs=1", "registerfiles=1")),
    "poll": ("io_uring, polled", ("ioengine=io_uring", "hipri=1", "fixedbufs=1", "registerfiles=1")),
    "libaio": ("libaio", ("ioengine=libaio",)),
    "psync": ("psync", ("ioengine=psync",)),
    "vector": ("preadv, pwritev of 8k buffers", ()),
}

KINDS = {
    "randread": "random read",
    "randwrite": "random overwrite",
    "overwrite-1": "random overwrite, one in flight",
    "unwritten": "write into fallocated space",
    # Of several in flight, XFS has those wait that are tried while another changes the extents.
    "unwritten-1": "write into fallocated space, one in flight",
    "append": "append",
    "dsync": "O_DSYNC random overwrite",
    "dsync-fua": "O_DSYNC random overwrite, cache with FUA",
    "dsync-flush": "O_DSYNC random overwrite, cache without FUA",
    "subblock": "2k overwrite on 4k blocks",
    "bounce-read": "bounce buffer read",
    "bounce-write": "bounce buffer overwrite",
    "mix": "70 % random read, 30 % overwrite",
    # A single page, elsewhere in the file.
    "cached-read": "random read, one page cached",
    "cached-write": "random overwrite, one page cached",
    # Each 16k are two mappings.
    "split-read": "random read of extents of 8k",
    "split-write": "random overwrite of extents of 8k",
    "log": "O_DSYNC in order, written log",
    "log-unwritten": "O_DSYNC in order, fallocated log",
    # Each begins with the last block of the one before, as that of who fills up blocks does.
    "nowait-append": "append with RWF_NOWAIT from written into fallocated blocks",
    "atomic": "untorn random overwrite (RWF_ATOMIC)",
    "reflinked": "random overwrite of reflinked blocks",
    # Of the experiments only, see seeds.py
    "seq-read": "read in order",
    "seq-write": "overwrite in order",
    "seq-bounce-read": "bounce buffer read in order",
    "seq-bounce-write": "bounce buffer overwrite in order",
    "subblock-unwritten": "2k write into fallocated space",
}
# "BS=4k IO=bounce" reads better than both names of it.
ALIASES = {"bounce": ("bounce-read", "bounce-write"), "read": ("randread",), "write": ("randwrite",),
           "overwrite": ("randwrite",), "fallocated": ("unwritten", "unwritten-1"),
           "cached": ("cached-read", "cached-write"), "split": ("split-read", "split-write"),
           "registered": ("fixedbufs",), "plain": ("io_uring",), "polled": ("poll",)}
IO_NAMES = (*ENGINES, *KINDS, *ALIASES)

FILESYSTEMS = {"raw": "block device", "ext4": "ext4", "xfs": "XFS", "btrfs": "btrfs, nodatacow",
               "btrfs-csum": "btrfs, checksums", "f2fs": "f2fs"}
# Devices that complete some time later from an interrupt, as disks do, so that requests which need a worker
# are seen to wake one. Others end the bio before the submitter has left.
LATER = {"irq": "device with a delay", "irq-fua": "delay, cache with FUA", "irq-cache": "delay, cache without FUA"}
MEMORY = {"huge": "on huge pages"}


# Rows that share a device, a mkfs and a mount.
Stage = tuple[str, str, bool, str]


@dataclass(frozen=True)
class Row:
    fs: str
    kind: str
    engine: str
    bs: str
    # What only some rows change: I/Os in flight for each job, jobs, blocks of the file system, the device (of
    # LATER), the memory (of MEMORY).
    in_flight: int = 0
    jobs: int = 1
    block: str = "4k"
    on: str = ""
    memory: str = ""

    @property
    def id(self) -> str:
        changed = (("depth", self.in_flight, 0), ("jobs", self.jobs, 1), ("block", self.block, "4k"),
                   ("on", self.on, ""), ("memory", self.memory, ""))
        return "/".join([self.fs, self.kind, self.engine, self.bs,
                         *(f"{name}={value}" for name, value, usual in changed if value != usual)])

    @property
    def label(self) -> str:
        more = (MEMORY.get(self.memory), self.in_flight and f"{self.in_flight} in flight", LATER.get(self.on))
        return ", ".join([f"{ENGINES[self.engine][0]} {self.bs}", *(words for words in more if words)])

    @property
    def title(self) -> str:
        return f"{FILESYSTEMS[self.fs]}, {KINDS[self.kind]}, {self.label}"

    @property
    def bytes(self) -> int:
        return SIZES[self.bs]

    @property
    def is_read(self) -> bool:
        return self.kind.endswith("read")

    @property
    def in_order(self) -> bool:
        """Where the extent tree would grow otherwise, where a paper did so, and of logs."""
        return self.kind.startswith(("seq", "log", "unwritten")) or self.kind == "append"

    @property
    def bounce(self) -> bool:
        return "bounce" in self.kind

    @property
    def journal(self) -> bool:
        """Does each I/O change what the file system knows of the file?"""
        return self.fs != "raw" and (
            "unwritten" in self.kind or self.kind in ("append", "nowait-append", "dsync-flush", "log", "reflinked")
            or (self.fs == "btrfs-csum" and not self.is_read))

    @property
    def device(self) -> str:
        """brd is a bio driver that completes at once and has no cache; null_blk differs (load.py)."""
        kinds = {"dsync-fua": "fua", "dsync-flush": "cache", "atomic": "scsi"}
        return self.on or ("poll" if self.engine == "poll" else kinds.get(self.kind, "ram"))

    @property
    def stage(self) -> Stage:
        return (self.device, self.fs, self.bounce, self.block)

    @property
    def depth(self) -> int:
        if self.in_flight:
            return self.in_flight
        # Of those that append to one file, all but one would wait for that one.
        if self.engine in ("psync", "vector") or self.kind == "append" or self.kind.endswith("-1"):
            return 1
        return 8 if self.bytes >= 1 << 20 else 64

    @property
    def raw(self) -> "Row":
        """The same I/O on the bare device: the ceiling this row is held against."""
        kinds = {"unwritten": "randwrite", "unwritten-1": "overwrite-1", "log-unwritten": "log",
                 "append": "randwrite" if self.engine == "psync" or self.in_flight else "overwrite-1",
                 "nowait-append": "randwrite", "reflinked": "randwrite",
                 **{f"{what}-{way}": f"rand{way}" for what, way in
                    product(("bounce", "cached", "split"), ("read", "write"))}}
        return replace(self, fs="raw", kind=kinds.get(self.kind, self.kind), block="4k")

    @property
    def raw_id(self) -> str:
        return self.raw.id

    def command(self, filename: Path, size: int) -> list[str]:
        """The command that does the I/O, until it is stopped; if it is fio, three words and then those of the job."""
        if self.engine == "vector":
            return ["python3", "-B", str(Path(__file__).with_name("vector.py")), f"--kind={self.kind}",
                    f"--filename={filename}", f"--size={size}", f"--bs={self.bytes}",
                    f"--buffer={SIZES['8k']}"]
        rw = ("" if self.in_order else "rand") + ("rw" if self.kind == "mix" else "read" if self.is_read else "write")
        job = [
            f"filename={filename}", f"rw={rw}", f"bs={self.bytes}", f"size={size}",
            f"iodepth={self.depth}", "direct=1", "thread=1", "norandommap=1", "randrepeat=1",
            # the file is laid out and clean: fio should only do I/O
            "allow_file_create=0", "invalidate=0", "fallocate=none", "refill_buffers=0",
            # no clock calls in the I/O loop
            "gtod_reduce=1", "disk_util=0",
            "time_based=1", "runtime=600",
            *ENGINES[self.engine][1],
        ]
        if self.kind == "append":
            job.append("file_append=1")
        if self.jobs > 1:
            job += [f"numjobs={self.jobs}", "group_reporting=1"]
        if self.depth > 1:
            batch = max(1, self.depth // 4)
            job += [f"iodepth_batch_submit={batch}", f"iodepth_batch_complete_min={batch}",
                    f"iodepth_batch_complete_max={self.depth}"]
        if self.kind.startswith(("dsync", "log")):
            job.append("sync=dsync")
        if self.kind == "mix":
            job.append("rwmixread=70")
        if self.kind == "atomic":
            job.append("atomic=1")
        if self.memory == "huge":
            job += ["iomem=shmhuge", "hugepage-size=2m"]
        return ["fio", "--eta=never", "--output-format=json", "--name=row", *(f"--{option}" for option in job)]


BOTH = "ext4 xfs"


def _each(systems: str, kinds: str, engines: str, sizes: str, **how: Any) -> Iterator[Row]:
    """Each file system with each kind, engine and size."""
    for words in product(systems.split(), kinds.split(), engines.split(), sizes.split()):
        yield Row(*words, **how)


def _timed() -> Iterator[Row]:
    """What is measured by time."""
    yield from _each(BOTH, "randread randwrite", "io_uring fixedbufs poll libaio psync", "4k 16k 64k 1M")
    yield from _each(BOTH, "unwritten", "io_uring", "4k 16k 64k 1M")
    yield from _each(BOTH, "unwritten", "psync", "4k")
    yield from _each(BOTH, "dsync", "io_uring", "4k 64k")
    yield from _each(BOTH, "dsync", "psync", "4k")
    yield from _each(BOTH, "subblock", "io_uring libaio psync", "2k")
    yield from _each("xfs", "bounce-read bounce-write", "io_uring", "4k 16k 64k 1M")


def _counted() -> Iterator[Row]:
    """What is measured by instructions, on x86_64 in QEMU."""
    yield from _each(BOTH, "randread randwrite", "fixedbufs io_uring libaio psync", "4k 16k")
    yield from _each(BOTH, "subblock", "fixedbufs libaio psync", "2k")
    yield from _each(BOTH, "overwrite-1 unwritten-1 append dsync-fua dsync-flush", "fixedbufs", "4k 16k")
    yield from _each(BOTH, "unwritten append dsync-fua dsync-flush", "psync", "4k")
    yield from _each("xfs", "bounce-read bounce-write", "fixedbufs", "4k 16k 64k")
    yield from _each("xfs", "bounce-read", "io_uring", "4k 16k")
    # What databases do. PostgreSQL has pages of 8k and reads up to 1M at once into as many buffers; redo logs are
    # written in blocks of 512 bytes.
    yield from _each(BOTH, "randread randwrite", "io_uring psync", "8k")
    yield from _each(BOTH, "randread randwrite", "psync", "512")
    yield from _each(BOTH, "randread randwrite", "io_uring", "128k 1M")
    yield from _each(BOTH, "randread randwrite", "io_uring", "128k 1M", memory="huge")
    yield from _each(BOTH, "randread randwrite", "vector", "128k 1M")
    for depth in (1, 8, 32):
        yield from _each(BOTH, "unwritten", "fixedbufs", "4k 16k 128k", in_flight=depth, on="irq")
    for depth in (1, 8):
        yield from _each(BOTH, "append", "fixedbufs", "4k", in_flight=depth, on="irq")
    for cache in ("irq-fua", "irq-cache"):
        yield from _each(BOTH, "log log-unwritten", "fixedbufs", "4k", in_flight=1, on=cache)
    for depth in (8, 32):
        yield from _each(BOTH, "log-unwritten", "fixedbufs", "4k", in_flight=depth, on="irq-cache")
    for depth in (1, 8):
        yield from _each(BOTH, "randread randwrite cached-read cached-write", "fixedbufs", "4k 16k", in_flight=depth,
                         on="irq")
    yield from _each(BOTH, "nowait-append", "vector", "16k", on="irq")
    yield from _each(BOTH, "split-read split-write", "fixedbufs", "16k")
    yield from _each(BOTH, "randread randwrite", "poll", "4k 16k")
    yield from _each(BOTH, "mix", "fixedbufs", "4k")
    yield from _each(BOTH, "atomic", "io_uring", "16k")
    yield from _each("xfs", "reflinked", "fixedbufs", "4k")
    yield from _each("btrfs btrfs-csum f2fs", "randread randwrite", "fixedbufs", "4k 16k")


def _seeds() -> Iterator[Row]:
    """The rows of seeds.py."""
    for fs in ("ext4", "xfs"):
        for engine, depth, block in product(("libaio", "io_uring", "poll"), (1, 64, 128, 256), ("4k", "2k")):
            yield Row(fs, "randread", engine, "4k", in_flight=depth, block=block)
        for kind, depth in product(("randwrite", "cached-write"), (1, 2, 4, 8, 16)):
            yield Row(fs, kind, "fixedbufs", "4k", in_flight=depth, on="irq")
        for kind, bs in product(("seq-read", "seq-write"), ("4k", "16k")):
            yield Row(fs, kind, "libaio", bs, in_flight=64)
        for kind in ("subblock", "subblock-unwritten"):
            yield Row(fs, kind, "libaio", "2k", in_flight=256, jobs=8)
    for kind, bs in product(("seq-read", "seq-write", "seq-bounce-read", "seq-bounce-write"), ("4k", "64k", "1M")):
        yield Row("xfs", kind, "io_uring", bs, in_flight=16)


# What seeds.py compares is not the bare device.
MACHINES = {"qemu": (_counted, True), "device": (_timed, True), "seeds": (_seeds, False)}


def all_rows(machine: str = "qemu") -> list[Row]:
    """A device at a time, on it stages in the order in which they first appear, in each what ages it last."""
    made, with_raw = MACHINES[machine]
    rows = list(made())
    if with_raw:
        rows = [*dict.fromkeys(row.raw for row in rows), *rows]
    stages, devices = list(dict.fromkeys(row.stage for row in rows)), list(dict.fromkeys(row.device for row in rows))
    return sorted(rows, key=lambda row: (devices.index(row.device), stages.index(row.stage), row.journal))


def _split(what: str, text: str, valid: Sequence[str]) -> list[str]:
    lower = {name.lower(): name for name in valid}
    names = text.replace(",", " ").split()
    for name in names:
        if name.lower() not in lower:
            raise ValueError(f"{what}={name}: unknown; valid are {', '.join(valid)}")
    return [lower[name.lower()] for name in names]


def select(fs: str = "", io: str = "", bs: str = "", quick: bool = False, machine: str = "qemu") -> tuple[
        list[Row], list[str]]:
    """The rows picked, and what was left out as lines to print.

    Raw rows that are the ceiling of a picked row come along with it.
    Raises ValueError with one line for a name that does not exist.
    """
    fs_names = _split("FS", fs, list(FILESYSTEMS))
    io_names = _split("IO", io, IO_NAMES)
    bs_names = _split("BS", bs, list(SIZES))
    meant = [meaning for name in io_names for meaning in ALIASES.get(name, (name,))]
    engines = [name for name in meant if name in ENGINES]
    kinds = [name for name in meant if name in KINDS]

    rows = all_rows(machine)
    keep = [row for row in rows
            if (not fs_names or row.fs in fs_names) and (not engines or row.engine in engines)
            and (not kinds or row.kind in kinds) and (not bs_names or row.bs in bs_names)]
    # QUICK=1 leaves the smallest size of each kind and engine, unless a size was asked for by name.
    if quick and not bs_names:
        least = {(row.kind, row.engine): row.bs for row in sorted(keep, key=lambda row: -row.bytes)}
        keep = [row for row in keep if row.bs == least[row.kind, row.engine]]
    picked = [f"{k}={v}" for k, v in (("FS", fs), ("IO", io), ("BS", bs)) if v] + ["QUICK=1"] * quick
    if not keep:
        raise ValueError(f"no row matches {' '.join(picked)}"
                         " (IO= names engines and kinds: a row must match one of each)")
    ceilings = {row.raw_id for row in keep}
    keep = [row for row in rows if row in keep or row.id in ceilings]
    gone = [row for row in rows if row not in keep]
    if not gone:
        return keep, []
    return keep, [f"{len(keep)} of {len(rows)} rows; {' '.join(picked)} leaves out:", *_summary(gone)]


def find(words: str, machine: str) -> list[Row]:
    """The rows that all of the words fit, such as "ext4 overwrite 4k registered"; no raw rows beside.

    Unusual devices and memory want their word, such as "irq".
    Raises ValueError with one line for a word that does not exist.
    """
    names = _split("ROW", words, [*FILESYSTEMS, *IO_NAMES, *SIZES, *LATER, *MEMORY])
    fs, io, bs = (",".join(name for name in names if name in table) for table in (FILESYSTEMS, IO_NAMES, SIZES))
    unusual = {"", *names}
    found = [row for row in select(fs, io, bs, machine=machine)[0]
             if (row.fs != "raw" or "raw" in names) and {row.on, row.memory} <= unusual
             and (row.on or not set(LATER) & set(names))]
    if not found:
        raise ValueError(f"no row matches ROW={words}")
    return found


def by_id(ids: str, machine: str) -> list[Row]:
    """The rows of these names with their raw rows; for a raw row, all that are compared with it.

    Raises ValueError with one line for a name that does not exist.
    """
    rows, names = all_rows(machine), set(ids.split(","))
    if unknown := names - {row.id for row in rows}:
        raise ValueError(f"no row is called {' or '.join(sorted(unknown))}")
    meant = {row.raw_id for row in rows if {row.id, row.raw_id} & names}
    return [row for row in rows if row.id in {*names, *meant} or row.raw_id in names]


def _summary(rows: list[Row]) -> Iterator[str]:
    """Name every row, a kind a line."""
    for kind in dict.fromkeys(row.kind for row in rows):
        yield f"  {kind}: {' '.join(row.id.replace(f'/{kind}/', '/', 1) for row in rows if row.kind == kind)}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("--fs", "--io", "--bs"):
        parser.add_argument(name, default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--find", default="", help="words that pick rows, such as 'xfs read 4k'")
    parser.add_argument("--ids", default="", help="rows by name, with commas between them, and nothing else")
    parser.add_argument("--machine", choices=MACHINES, default="qemu")


def chosen(args: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """As select(). What nobody can run ends the program."""
    try:
        if args.ids:
            return by_id(args.ids, args.machine), []
        if args.find:
            return find(args.find, args.machine), []
        return select(args.fs, args.io, args.bs, args.quick, args.machine)
    except ValueError as error:
        sys.exit(f"error: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(description="check a row filter and say what it picks")
    add_arguments(parser)
    rows, notes = chosen(parser.parse_args())
    print("\n".join(notes) or f"{len(rows)} rows")


if __name__ == "__main__":
    main()
