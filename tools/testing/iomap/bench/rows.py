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
from pathlib import Path

SIZES = {"2k": 2 << 10, "4k": 4 << 10, "16k": 16 << 10, "64k": 64 << 10, "1M": 1 << 20}
GRID = ("4k", "16k", "64k", "1M")

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
        """The fio job, as a list of option=value."""
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
            # stopped by run.py
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
        return job


def _timed() -> Iterator[tuple[str, str, str]]:
    """What is measured by time, in User Mode Linux."""
    for kind in ("randread", "randwrite"):
        for engine in ENGINES:
            for bs in GRID:
                yield kind, engine, bs
    for bs in GRID:
        yield "unwritten", "io_uring", bs
    yield "unwritten", "psync", "4k"
    for engine, bs in (("io_uring", "4k"), ("io_uring", "64k"), ("psync", "4k")):
        yield "dsync", engine, bs
    for engine in ("io_uring", "libaio", "psync"):
        yield "subblock", engine, "2k"
    for kind in ("bounce-read", "bounce-write"):
        for bs in GRID:
            yield kind, "io_uring", bs


def _counted() -> Iterator[tuple[str, str, str]]:
    """What is measured by instructions, on x86_64 in QEMU. Larger I/O is only more of memcpy."""
    for kind in ("randread", "randwrite"):
        for engine in ("fixedbufs", "io_uring", "libaio", "psync"):
            for bs in ("4k", "16k", "64k"):
                yield kind, engine, bs
    for engine in ("fixedbufs", "libaio", "psync"):
        yield "subblock", engine, "2k"
    for kind in ("overwrite-1", "unwritten-1", "append", "dsync-fua", "dsync-flush"):
        for bs in ("4k", "16k"):
            yield kind, "fixedbufs", bs
    for kind in ("unwritten", "append", "dsync-fua", "dsync-flush"):
        yield kind, "psync", "4k"
    for kind in ("bounce-read", "bounce-write"):
        for bs in ("4k", "16k", "64k"):
            yield kind, "fixedbufs", bs


def _seeds() -> Iterator[Row]:
    """The rows of seeds.py."""
    for fs in ("ext4", "xfs"):
        for engine in ("libaio", "io_uring", "poll"):
            for depth in (1, 64, 128, 256):
                for block in ("4k", "2k"):
                    yield Row(fs, "randread", engine, "4k", in_flight=depth, block=block)
        for kind in ("inline", "deferred"):
            for depth in (1, 2, 4, 8, 16):
                yield Row(fs, kind, "fixedbufs", "4k", in_flight=depth)
        for kind in ("seq-read", "seq-write"):
            for bs in ("4k", "16k"):
                yield Row(fs, kind, "libaio", bs, in_flight=64)
        for kind in ("subblock", "subblock-unwritten"):
            yield Row(fs, kind, "libaio", "2k", in_flight=256, jobs=8)
    for kind in ("seq-read", "seq-write", "seq-bounce-read", "seq-bounce-write"):
        for bs in ("4k", "64k", "1M"):
            yield Row("xfs", kind, "io_uring", bs, in_flight=16)


MACHINES = {"uml": _timed, "device": _timed, "qemu": _counted}


def all_rows(machine: str = "uml") -> list[Row]:
    if machine == "seeds":
        return _by_stage(list(_seeds()))
    rows = []
    for fs in FILESYSTEMS:
        for kind, engine, bs in MACHINES[machine]():
            row = Row(fs, kind, engine, bs)
            # a block device has no unwritten space, and only XFS bounces
            if fs == "raw" and row.raw_id != row.id:
                continue
            if row.bounce and fs != "xfs":
                continue
            rows.append(row)
    return _by_stage(rows)


def _by_stage(rows: list[Row]) -> list[Row]:
    """Stages in the order in which they first appear, and in each what ages a file system last."""
    order: dict[Stage, int] = {}
    for row in rows:
        order.setdefault(row.stage, len(order))
    return sorted(rows, key=lambda row: (order[row.stage], row.journal))


def _quick(row: Row) -> bool:
    """QUICK=1: every kind and every engine, but only the smallest size of each."""
    return row.bs in ("2k", "4k")


def _split(what: str, text: str, valid: Sequence[str]) -> list[str]:
    names = [name for name in (text or "").replace(" ", ",").split(",") if name]
    lower = {name.lower(): name for name in valid}
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
    io_names = _split("IO", io, [*ENGINES, *KINDS, *ALIASES])
    bs_names = _split("BS", bs, list(SIZES))
    meant = [meaning for name in io_names for meaning in ALIASES.get(name, (name,))]
    engines = [name for name in meant if name in ENGINES]
    kinds = [name for name in meant if name in KINDS]

    rows = all_rows(machine)
    # A size that was asked for by name is wanted, QUICK or not.
    keep = [row for row in rows
            if (not fs_names or row.fs in fs_names)
            and (not engines or row.engine in engines)
            and (not kinds or row.kind in kinds)
            and (not bs_names or row.bs in bs_names)
            and (not quick or bs_names or _quick(row))]
    if not keep:
        picked = " ".join(f"{k}={v}" for k, v in (("FS", fs), ("IO", io), ("BS", bs)) if v)
        raise ValueError(f"no row matches {picked}{' QUICK=1' if quick else ''}"
                         " (IO= names engines and kinds: a row must match one of each)")
    ceilings = {row.raw_id for row in keep}
    keep = [row for row in rows if row in keep or row.id in ceilings]

    gone = [row for row in rows if row not in keep]
    if not gone:
        return keep, []
    why = [f"{k}={v}" for k, v in (("FS", fs), ("IO", io), ("BS", bs)) if v]
    why += ["QUICK=1"] if quick else []
    return keep, [f"{len(keep)} of {len(rows)} rows; {' '.join(why)} leaves out:"] + [
        f"  {line}" for line in _summary(gone)]


def find(words: str, machine: str) -> list[Row]:
    """The rows that all of the words fit, such as "ext4 overwrite 4k registered"; no raw rows beside.

    Raises ValueError with one line for a word that does not exist.
    """
    of_fs, of_io, of_bs = [], [], []
    for word in words.split():
        if word.lower() in FILESYSTEMS:
            of_fs.append(word)
        elif word in SIZES:
            of_bs.append(word)
        elif word.lower() in (*ENGINES, *KINDS, *ALIASES):
            of_io.append(word)
        else:
            raise ValueError(f"ROW={words}: {word}: unknown; valid are "
                             f"{', '.join([*FILESYSTEMS, *ALIASES, *KINDS, *ENGINES, *SIZES])}")
    rows, _ = select(",".join(of_fs), ",".join(of_io), ",".join(of_bs), machine=machine)
    return [row for row in rows if row.fs != "raw" or "raw" in of_fs]


def _summary(rows: list[Row]) -> Iterator[str]:
    """Name every row, a kind a line, file systems and engines that agree together."""
    for kind in KINDS:
        by_engine: dict[str, dict[tuple[str, ...], list[str]]] = {}
        for engine in ENGINES:
            for fs in FILESYSTEMS:
                sizes = tuple(r.bs for r in rows if (r.kind, r.engine, r.fs) == (kind, engine, fs))
                if sizes:
                    by_engine.setdefault(engine, {}).setdefault(sizes, []).append(fs)
        merged: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
        for engine, by_sizes in by_engine.items():
            for sizes, names in by_sizes.items():
                merged.setdefault((sizes, tuple(names)), []).append(engine)
        for (sizes, systems), engines in merged.items():
            yield f"{' '.join(systems)}: {kind} {', '.join(engines)}: {' '.join(sizes)}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fs", default="")
    parser.add_argument("--io", default="")
    parser.add_argument("--bs", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--machine", choices=(*MACHINES, "seeds"), default="uml")


def main() -> None:
    parser = argparse.ArgumentParser(description="check a row filter and say what it picks")
    add_arguments(parser)
    parser.add_argument("--list", action="store_true", help="one row a line")
    parser.add_argument("--find", help="words that pick rows, such as 'xfs read 4k'")
    args = parser.parse_args()
    try:
        if args.find:
            rows, notes = find(args.find, args.machine), list[str]()
        else:
            rows, notes = select(args.fs, args.io, args.bs, args.quick, args.machine)
    except ValueError as error:
        sys.exit(f"error: {error}")
    if args.list:
        print("\n".join(row.id for row in rows))
    else:
        print("\n".join(notes) or f"all {len(rows)} rows")


if __name__ == "__main__":
    main()
