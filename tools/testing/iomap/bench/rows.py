#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The rows of the benchmark, and the FS=, IO=, BS= filters that pick some of them.

Run by itself it checks a filter and says what it picks; run.py (in the guest)
and report.py (outside) import it, so that a row is defined in one place only.
"""

import argparse
import sys
from dataclasses import dataclass

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
    "unwritten": "write into fallocated space",
    "dsync": "O_DSYNC random overwrite",
    "subblock": "2k overwrite on 4k blocks",
    "bounce-read": "bounce buffer read",
    "bounce-write": "bounce buffer overwrite",
}
# "BS=4k IO=bounce" reads better than both names of it.
ALIASES = {"bounce": ("bounce-read", "bounce-write"), "read": ("randread",), "write": ("randwrite",)}

FILESYSTEMS = {"raw": "block device", "ext4": "ext4", "xfs": "XFS"}


@dataclass(frozen=True)
class Row:
    fs: str
    kind: str
    engine: str
    bs: str

    @property
    def id(self):
        return f"{self.fs}/{self.kind}/{self.engine}/{self.bs}"

    @property
    def label(self):
        return f"{ENGINES[self.engine][0]} {self.bs}"

    @property
    def bytes(self):
        return SIZES[self.bs]

    @property
    def is_read(self):
        return self.kind in ("randread", "bounce-read")

    @property
    def bounce(self):
        return self.kind.startswith("bounce")

    @property
    def device(self):
        """brd is a bio driver and cannot poll; null_blk with poll queues can."""
        return "poll" if self.engine == "poll" else "ram"

    @property
    def stage(self):
        """Rows of one stage share a device, a mkfs and a mount."""
        return (self.device, self.fs, self.bounce)

    @property
    def depth(self):
        if self.engine == "psync":
            return 1
        return 8 if self.bytes >= 1 << 20 else 64

    @property
    def raw_id(self):
        """The same I/O on the bare device: the ceiling this row is held against."""
        kind = {"unwritten": "randwrite", "bounce-read": "randread", "bounce-write": "randwrite"}
        return f"raw/{kind.get(self.kind, self.kind)}/{self.engine}/{self.bs}"

    def fio(self, filename, size):
        """The fio job, as a list of option=value."""
        rw = "randread" if self.is_read else "randwrite"
        if self.kind == "unwritten":
            rw = "write"        # in order, so that the extent tree stays small
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
        if self.depth > 1:
            batch = max(1, self.depth // 4)
            job += [f"iodepth_batch_submit={batch}", f"iodepth_batch_complete_min={batch}",
                    f"iodepth_batch_complete_max={self.depth}"]
        if self.kind == "dsync":
            job.append("sync=dsync")
        return job


def _workloads():
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


def all_rows():
    rows = []
    for fs in FILESYSTEMS:
        for kind, engine, bs in _workloads():
            row = Row(fs, kind, engine, bs)
            # a block device has no unwritten space, and only XFS bounces
            if fs == "raw" and row.raw_id != row.id:
                continue
            if row.bounce and fs != "xfs":
                continue
            rows.append(row)
    # stages in the order in which they first appear, rows of one stage together
    order = {}
    for row in rows:
        order.setdefault(row.stage, len(order))
    return sorted(rows, key=lambda row: order[row.stage])


def _quick(row):
    """QUICK=1: every kind and every engine, but only the smallest size of each."""
    return row.bs in ("2k", "4k")


def _split(what, text, valid):
    names = [name for name in (text or "").replace(" ", ",").split(",") if name]
    lower = {name.lower(): name for name in valid}
    for name in names:
        if name.lower() not in lower:
            raise ValueError(f"{what}={name}: unknown; valid are {', '.join(valid)}")
    return [lower[name.lower()] for name in names]


def select(fs="", io="", bs="", quick=False):
    """The rows picked, and what was left out as lines to print.

    Raw rows that are the ceiling of a picked row come along with it.
    Raises ValueError with one line for a name that does not exist.
    """
    fs_names = _split("FS", fs, list(FILESYSTEMS))
    io_names = _split("IO", io, [*ENGINES, *KINDS, *ALIASES])
    bs_names = _split("BS", bs, list(SIZES))
    engines = [name for name in io_names if name in ENGINES]
    kinds = [k for name in io_names if name not in ENGINES for k in ALIASES.get(name, (name,))]

    rows = all_rows()
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


def _summary(rows):
    """Name every row, a kind a line, file systems and engines that agree together."""
    for kind in KINDS:
        by_engine = {}
        for engine in ENGINES:
            for fs in FILESYSTEMS:
                sizes = tuple(r.bs for r in rows if (r.kind, r.engine, r.fs) == (kind, engine, fs))
                if sizes:
                    by_engine.setdefault(engine, {}).setdefault(sizes, []).append(fs)
        merged = {}
        for engine, by_sizes in by_engine.items():
            for sizes, names in by_sizes.items():
                merged.setdefault((sizes, tuple(names)), []).append(engine)
        for (sizes, names), engines in merged.items():
            yield f"{' '.join(names)}: {kind} {', '.join(engines)}: {' '.join(sizes)}"


def add_arguments(parser):
    parser.add_argument("--fs", default="")
    parser.add_argument("--io", default="")
    parser.add_argument("--bs", default="")
    parser.add_argument("--quick", action="store_true")


def main():
    parser = argparse.ArgumentParser(description="check a row filter and say what it picks")
    add_arguments(parser)
    parser.add_argument("--list", action="store_true", help="one row a line")
    args = parser.parse_args()
    try:
        rows, notes = select(args.fs, args.io, args.bs, args.quick)
    except ValueError as error:
        sys.exit(f"error: {error}")
    if args.list:
        print("\n".join(row.id for row in rows))
    else:
        print("\n".join(notes) or f"all {len(rows)} rows")


if __name__ == "__main__":
    main()
