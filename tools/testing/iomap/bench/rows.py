#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The rows of the benchmark, and the FS=, IO=, BS= filters that pick some of them.

Run by itself it checks a filter and says what it picks; run.py (in the guest)
and report.py (outside) import it, so that a row is defined in one place only.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

SIZES = {"2k": 2 << 10, "4k": 4 << 10, "16k": 16 << 10, "64k": 64 << 10, "1M": 1 << 20}

# How fio is told to do its I/O. The asynchronous engines submit in batches, as
# t/io_uring does: a system call is expensive in UML, and one per I/O would
# hide most of the path that is measured here.
ENGINES = {
    "io_uring": ("io_uring", ("ioengine=io_uring",)),
    "fixedbufs": ("io_uring, registered", ("ioengine=io_uring", "fixedbufs=1", "registerfiles=1")),
    "poll": ("io_uring, polled", ("ioengine=io_uring", "hipri=1", "fixedbufs=1", "registerfiles=1")),
    "libaio": ("libaio", ("ioengine=libaio",)),
    "psync": ("psync", ("ioengine=psync",)),
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
    # Of the experiments only, see seeds.py
    "seq-read": "read in order",
    "seq-write": "overwrite in order",
    "seq-bounce-read": "bounce buffer read in order",
    "seq-bounce-write": "bounce buffer overwrite in order",
    "subblock-unwritten": "2k write into fallocated space",
    "inline": "random overwrite, completed by a soft interrupt some time later",
    "deferred": "the same of a file with cached pages, completed by a worker",
}
# "BS=4k IO=bounce" reads better than both names of it.
ALIASES = {"bounce": ("bounce-read", "bounce-write"), "read": ("randread",), "write": ("randwrite",),
           "overwrite": ("randwrite",), "fallocated": ("unwritten", "unwritten-1"),
           "registered": ("fixedbufs",), "plain": ("io_uring",), "polled": ("poll",)}
IO_NAMES = (*ENGINES, *KINDS, *ALIASES)

FILESYSTEMS = {"raw": "block device", "ext4": "ext4", "xfs": "XFS"}


# Rows that share a device, a mkfs and a mount.
Stage = tuple[str, str, bool, str]


@dataclass(frozen=True)
class Row:
    fs: str
    kind: str
    engine: str
    bs: str
    # What only some experiments change: I/Os in flight for each job, jobs, blocks of the file system.
    in_flight: int = 0
    jobs: int = 1
    block: str = "4k"

    @property
    def id(self) -> str:
        changed = (("depth", self.in_flight, 0), ("jobs", self.jobs, 1), ("block", self.block, "4k"))
        return "/".join([self.fs, self.kind, self.engine, self.bs,
                         *(f"{name}={value}" for name, value, usual in changed if value != usual)])

    @property
    def label(self) -> str:
        return f"{ENGINES[self.engine][0]} {self.bs}"

    @property
    def bytes(self) -> int:
        return SIZES[self.bs]

    @property
    def is_read(self) -> bool:
        return self.kind.endswith("read")

    @property
    def bounce(self) -> bool:
        return "bounce" in self.kind

    @property
    def journal(self) -> bool:
        """Does each I/O change what the file system knows of the file?"""
        return self.fs != "raw" and self.kind in ("unwritten", "unwritten-1", "subblock-unwritten", "append",
                                                  "dsync-flush")

    @property
    def device(self) -> str:
        """brd is a bio driver that completes at once and has no cache; null_blk differs (load.py)."""
        kinds = {"dsync-fua": "fua", "dsync-flush": "cache", "inline": "irq", "deferred": "irq"}
        return "poll" if self.engine == "poll" else kinds.get(self.kind, "ram")

    @property
    def stage(self) -> Stage:
        return (self.device, self.fs, self.bounce, self.block)

    @property
    def depth(self) -> int:
        if self.in_flight:
            return self.in_flight
        # Of those that append to one file, all but one would wait for that one.
        if self.engine == "psync" or self.kind == "append" or self.kind.endswith("-1"):
            return 1
        return 8 if self.bytes >= 1 << 20 else 64

    @property
    def raw_id(self) -> str:
        """The same I/O on the bare device: the ceiling this row is held against."""
        kind = {"unwritten": "randwrite", "unwritten-1": "overwrite-1",
                "append": "randwrite" if self.engine == "psync" else "overwrite-1",
                "bounce-read": "randread", "bounce-write": "randwrite"}
        return f"raw/{kind.get(self.kind, self.kind)}/{self.engine}/{self.bs}"

    def fio(self, filename: Path, size: int) -> list[str]:
        """The command that does the I/O, until it is stopped."""
        # In order where the extent tree would grow, or where a paper did so.
        order = "" if self.kind in ("unwritten", "unwritten-1", "append") or self.kind.startswith("seq") else "rand"
        rw = order + ("read" if self.is_read else "write")
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
        if self.kind.startswith("dsync"):
            job.append("sync=dsync")
        return ["fio", "--eta=never", "--name=row", *(f"--{option}" for option in job)]


# Kinds, engines and sizes of rows, each with each.
Spec = tuple[str, str, str]
# What is measured by time.
TIMED: tuple[Spec, ...] = (
    ("randread randwrite", " ".join(ENGINES), "4k 16k 64k 1M"),
    ("unwritten", "io_uring", "4k 16k 64k 1M"), ("unwritten", "psync", "4k"),
    ("dsync", "io_uring", "4k 64k"), ("dsync", "psync", "4k"),
    ("subblock", "io_uring libaio psync", "2k"),
    ("bounce-read bounce-write", "io_uring", "4k 16k 64k 1M"))
# What is measured by instructions, on x86_64 in QEMU. Larger I/O is only more of memcpy.
COUNTED: tuple[Spec, ...] = (
    ("randread randwrite", "fixedbufs io_uring libaio psync", "4k 16k 64k"),
    ("subblock", "fixedbufs libaio psync", "2k"),
    ("overwrite-1 unwritten-1 append dsync-fua dsync-flush", "fixedbufs", "4k 16k"),
    ("unwritten append dsync-fua dsync-flush", "psync", "4k"),
    ("bounce-read bounce-write", "fixedbufs", "4k 16k 64k"))
MACHINES = {"uml": TIMED, "device": TIMED, "qemu": COUNTED, "seeds": ()}


def _seeds() -> Iterator[Row]:
    """The rows of seeds.py."""
    for fs in ("ext4", "xfs"):
        for engine, depth, block in product(("libaio", "io_uring", "poll"), (1, 64, 128, 256), ("4k", "2k")):
            yield Row(fs, "randread", engine, "4k", in_flight=depth, block=block)
        for kind, depth in product(("inline", "deferred"), (1, 2, 4, 8, 16)):
            yield Row(fs, kind, "fixedbufs", "4k", in_flight=depth)
        for kind, bs in product(("seq-read", "seq-write"), ("4k", "16k")):
            yield Row(fs, kind, "libaio", bs, in_flight=64)
        for kind in ("subblock", "subblock-unwritten"):
            yield Row(fs, kind, "libaio", "2k", in_flight=256, jobs=8)
    for kind, bs in product(("seq-read", "seq-write", "seq-bounce-read", "seq-bounce-write"), ("4k", "64k", "1M")):
        yield Row("xfs", kind, "io_uring", bs, in_flight=16)


def all_rows(machine: str = "uml") -> list[Row]:
    """Stages in the order in which they first appear, and in each what ages a file system last."""
    rows = list(_seeds()) if machine == "seeds" else [
        Row(fs, kind, engine, bs) for fs in FILESYSTEMS for spec in MACHINES[machine]
        for kind, engine, bs in product(*(words.split() for words in spec))]
    # a block device has no unwritten space, and only XFS bounces
    rows = [row for row in rows if (row.fs != "raw" or row.raw_id == row.id) and (row.fs == "xfs" or not row.bounce)]
    stages = list(dict.fromkeys(row.stage for row in rows))
    return sorted(rows, key=lambda row: (stages.index(row.stage), row.journal))


def _split(what: str, text: str, valid: Sequence[str]) -> list[str]:
    lower = {name.lower(): name for name in valid}
    names = text.replace(",", " ").split()
    for name in names:
        if name.lower() not in lower:
            raise ValueError(f"{what}={name}: unknown; valid are {', '.join(valid)}")
    return [lower[name.lower()] for name in names]


def select(fs: str = "", io: str = "", bs: str = "", quick: bool = False, machine: str = "uml") -> tuple[
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
    # QUICK=1 leaves the smallest size of each kind and engine, unless a size was asked for by name.
    sizes = bs_names or (["2k", "4k"] if quick else list(SIZES))
    keep = [row for row in rows
            if (not fs_names or row.fs in fs_names) and (not engines or row.engine in engines)
            and (not kinds or row.kind in kinds) and row.bs in sizes]
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

    Raises ValueError with one line for a word that does not exist.
    """
    names = _split("ROW", words, [*FILESYSTEMS, *IO_NAMES, *SIZES])
    fs, io, bs = (",".join(name for name in names if name in table) for table in (FILESYSTEMS, IO_NAMES, SIZES))
    return [row for row in select(fs, io, bs, machine=machine)[0] if row.fs != "raw" or "raw" in names]


def _summary(rows: list[Row]) -> Iterator[str]:
    """Name every row, a kind a line, file systems and engines that agree together."""
    for kind in KINDS:
        merged: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
        for engine in ENGINES:
            systems: dict[tuple[str, ...], list[str]] = {}
            for fs in FILESYSTEMS:
                sizes = tuple(r.bs for r in rows if (r.kind, r.engine, r.fs) == (kind, engine, fs))
                if sizes:
                    systems.setdefault(sizes, []).append(fs)
            for sizes, found in systems.items():
                merged.setdefault((sizes, tuple(found)), []).append(engine)
        for (sizes, names), engines in merged.items():
            yield f"  {' '.join(names)}: {kind} {', '.join(engines)}: {' '.join(sizes)}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("--fs", "--io", "--bs"):
        parser.add_argument(name, default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--find", default="", help="words that pick rows, such as 'xfs read 4k'")
    parser.add_argument("--machine", choices=MACHINES, default="uml")


def chosen(args: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """As select(). What nobody can run ends the program."""
    try:
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
