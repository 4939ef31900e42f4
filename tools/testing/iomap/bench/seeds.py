#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The experiments of the papers and mails that began this project, counted again.

Each table shows what was published beside what is counted here. What was
published are rates of I/O on a disk; what is counted are instructions, so that
only ratios compare: of two ways that keep one processor busy, the one that
takes 5 % fewer instructions can do 5 % more.
"""

import math
import sys
from collections.abc import Callable, Iterator

import count_report
from rows import ENGINES, FILESYSTEMS, Row

import report
from report import Entry

# Gain in IOPS through the simple read, in percent, by depth 1, 64, 128, 256.
SIMPLE_DEPTHS = (1, 64, 128, 256)
SIMPLE = {
    ("ext4", "libaio"): (0.11, 3.83, 4.21, 4.40),
    ("ext4", "io_uring"): (0.24, 5.71, 5.46, 5.33),
    ("ext4", "poll"): (-0.06, 2.39, 4.85, 10.06),
    ("xfs", "libaio"): (0.06, 3.99, 4.24, 4.02),
    ("xfs", "io_uring"): (0.17, 4.74, 5.12, 4.93),
    ("xfs", "poll"): (0.54, 1.89, 5.78, 9.76),
}
# IOPS relative to ext4 before it used iomap, of Linux 5.13-rc3.
BEFORE_IOMAP = {
    ("ext4", "seq-read", "4k"): 1.012, ("ext4", "seq-read", "16k"): 1.000,
    ("ext4", "seq-write", "4k"): 0.806, ("ext4", "seq-write", "16k"): 1.000,
    ("xfs", "seq-read", "4k"): 1.002, ("xfs", "seq-read", "16k"): 1.000,
    ("xfs", "seq-write", "4k"): 1.010, ("xfs", "seq-write", "16k"): 1.002,
}
# MiB/s and percent of processor time in user space and in the kernel: zero copy, bounce buffer.
BOUNCE = {
    ("read", "4k"): ((1316, 12.65, 55.40), (1081, 11.76, 49.78)),
    ("read", "64k"): ((3370, 5.46, 18.20), (3365, 4.47, 15.68)),
    ("read", "1M"): ((3401, 0.76, 23.05), (3400, 0.80, 9.06)),
    ("write", "4k"): ((882, 11.83, 33.88), (750, 10.53, 34.08)),
    ("write", "64k"): ((2009, 7.33, 15.80), (2007, 7.47, 24.71)),
    ("write", "1M"): ((1992, 7.26, 9.13), (1992, 9.21, 19.11)),
}


# Of a row that was not measured, and of what is computed with it.
NO_NUMBER = math.nan


class Results:
    def __init__(self, rows: dict[str, Entry]) -> None:
        self.rows = rows

    def side(self, row: Row, impl: str) -> Entry:
        side: Entry = self.rows.get(row.id, {}).get(impl, {"kernel": NO_NUMBER, "user": NO_NUMBER})
        return side

    def all(self, row: Row, impl: str) -> float:
        """Instructions for each I/O, user space included: what keeps the processor from the next."""
        side = self.side(row, impl)
        return float(side["kernel"] + side["user"])

    def compare(self, before: Row, after: Row, form: str) -> Iterator[str]:
        """Of C and of Rust both, and the gain in percent or their ratio."""
        for impl in ("c", "rust"):
            one, other = self.all(before, impl), self.all(after, impl)
            yield from (number(one), number(other), show(100 * (one / other - 1) if "%" in form else one / other, form))


def show(value: float, form: str) -> str:
    return "failed" if math.isnan(value) else form.format(value)


def number(value: float) -> str:
    return show(value, "{:,.0f}")


def simple(results: Results) -> Iterator[list[str]]:
    """The simple read, on and off."""
    for (fs, engine), published in SIMPLE.items():
        for depth, figure in zip(SIMPLE_DEPTHS, published, strict=True):
            off, on = (Row(fs, "randread", engine, "4k", in_flight=depth, block=block) for block in ("2k", "4k"))
            yield [FILESYSTEMS[fs], ENGINES[engine][0], str(depth), f"{figure:+.2f} %",
                   *results.compare(off, on, "{:+.1f} %")]


def deferred(results: Results) -> Iterator[list[str]]:
    """What it costs to complete in a worker."""
    for fs in ("ext4", "xfs"):
        for depth in (1, 2, 4, 8, 16):
            worker, inline = (Row(fs, kind, "fixedbufs", "4k", in_flight=depth, on="irq")
                              for kind in ("cached-write", "randwrite"))
            yield [FILESYSTEMS[fs], str(depth), "up to +37 %", *results.compare(worker, inline, "{:+.1f} %")]


def systems(results: Results) -> Iterator[list[str]]:
    """ext4 beside XFS, in order."""
    for kind in ("seq-read", "seq-write"):
        for bs in ("4k", "16k"):
            ext4, xfs = (BEFORE_IOMAP[fs, kind, bs] for fs in ("ext4", "xfs"))
            cells = [f"{kind[4:]} {bs}", f"{ext4:.3f}", f"{xfs:.3f}", f"{ext4 / xfs:.3f}"]
            for impl in ("c", "rust"):
                of_ext4, of_xfs = (results.all(Row(fs, kind, "libaio", bs, in_flight=64), impl)
                                   for fs in ("ext4", "xfs"))
                cells += [number(of_ext4), number(of_xfs), show(of_xfs / of_ext4, "{:.3f}")]
            yield cells


def subblock(results: Results) -> Iterator[list[str]]:
    """2k writes on blocks of 4k: at a time, or one after the other."""
    for fs in ("ext4", "xfs"):
        alone, shared = (Row(fs, kind, "libaio", "2k", in_flight=256, jobs=8)
                         for kind in ("subblock-unwritten", "subblock"))
        yield [FILESYSTEMS[fs], "4,328 to 801,000 IOPS (185 x)" if fs == "ext4" else "",
               *results.compare(alone, shared, "{:.2f} x")]


def bounce(results: Results) -> Iterator[list[str]]:
    """Zero copy and bounce buffer."""
    for (direction, bs), published in BOUNCE.items():
        for way, (rate, usr, sys_) in zip(("zero copy", "bounce"), published, strict=True):
            cells = [f"{direction} {bs}", way, f"{rate} ({usr:.1f}/{sys_:.1f} %)"]
            row = Row("xfs", f"seq-{'bounce-' if way == 'bounce' else ''}{direction}", "io_uring", bs, in_flight=16)
            for impl in ("c", "rust"):
                side, total = results.side(row, impl), results.all(row, impl)
                # 10^9 instructions are a second of the guest, and of some processors.
                mib = row.bytes * 1e9 / total / (1 << 20)
                cells.append(f"{number(mib)} ({show(100 * side['user'] / total, '{:.1f}')}"
                             f"/{show(100 * side['kernel'] / total, '{:.1f}')} %)")
            yield cells


def with_sides(*names: str) -> list[str]:
    return [f"{side} {name}" for side in ("C", "Rust") for name in names]


EXPERIMENTS: tuple[tuple[Callable[[Results], Iterator[list[str]]], str, str, list[str]], ...] = (
    (simple, "Simple read",
     "Fengnan Chang (June 2026) found that 4k random reads gain 4 to 10 % of IOPS at depth through the simple path, "
     "and nothing at depth 1, where the disk is waited for. Counted: instructions without and with it, user space "
     "included. Off is a file system with blocks of 2k, on which 4k are no single block, so that the generic path "
     "serves them.",
     ["file system", "engine", "depth", "published gain", *with_sides("off", "on", "gain")]),
    (deferred, "Deferred completion",
     "Jens Axboe (July 2023) found up to 37 % more throughput at low depth when 4k random writes need not be "
     "completed by a worker. Counted: overwrites on a device that completes 10 us later from a soft interrupt; "
     "deferred to a worker, because the file has cached pages, and inline.",
     ["file system", "depth", "published gain", *with_sides("deferred", "inline", "gain")]),
    (systems, "ext4 beside XFS",
     "Gabriel Krisman Bertazi (2021) found that 4k writes of ext4 had lost 19 to 22 % of IOPS with iomap, and those "
     "of XFS nothing. Published: IOPS relative to ext4 before iomap (5.13-rc3 to 5.4), and ext4 relative to XFS. "
     "Counted: instructions, libaio, depth 64, in order, and ext4 relative to XFS (above 1 ext4 is the cheaper).",
     ["I/O", "published ext4", "published XFS", "ext4/XFS", *with_sides("ext4", "XFS", "ext4/XFS")]),
    (subblock, "2k writes on blocks of 4k",
     "Brian Foster (2023) found 4,328 IOPS where 2k overwrites excluded each other, and 801,000 where they did not. "
     "Counted: libaio, 8 jobs, depth 256, in order; into fallocated space, where the rest of a block has to be "
     "zeroed and writes exclude each other, and over what was written. Time lost in waiting is no instruction, so "
     "that only a part of it shows.",
     ["file system", "published", *with_sides("zeroing", "overwrite", "ratio")]),
    (bounce, "Bounce buffer",
     "Christoph Hellwig (January 2026) found that bouncing costs 15 to 18 % of bandwidth at 4k, and nothing at 64k "
     "and 1M, where the disk is the limit. MiB/s, and the share of the processor in user space and in the kernel. "
     "Counted: XFS, io_uring, depth 16, in order; a second is 10^9 instructions, and the device is memory, so that "
     "the processor is never idle.",
     ["I/O", "", "published", "C", "Rust"]),
)


def main() -> None:
    args = count_report.arguments(__doc__).parse_args()
    doc = count_report.document(args, "seeds.json", "seeds")
    body = [" ".join((__doc__ or "").split("\n\n")[1].split()), ""]
    for function, title, text, head in EXPERIMENTS:
        body += [f"## {title}", "", text, "", *report.markdown_table(head, function(Results(doc["rows"])), len(head))]
    report.save_page(args.out, "The experiments that began this, counted", count_report.facts(doc), body,
                     doc["failures"])
    sys.exit(bool(doc["failures"]))


if __name__ == "__main__":
    main()
