# SPDX-License-Identifier: GPL-2.0
"""Tests of census: what it makes of the events of stock kernels, and of the counted rows."""

import os
import subprocess
import sys
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

PATH = Path(__file__).resolve().with_name("census")


def load() -> Any:
    spec = spec_from_loader("census", SourceFileLoader("census", str(PATH)))
    assert spec and spec.loader
    sys.modules["census"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
census = load()

# Of Linux 6.12; 7.3 has AIO_RW.
BEGIN = ('print fmt: "flags %s dio_flags %s aio %d", __print_flags(REC->ki_flags, "|", { ( int) (( __kernel_rwf_t)'
         '0x00000001), "HIPRI" }, { ( int) (( __kernel_rwf_t)0x00000002), "DSYNC" }, { ( int) (( __kernel_rwf_t)'
         '0x00000008), "NOWAIT" }, { (1 << 21), "ALLOC_CACHE" }), __print_flags(REC->dio_flags, "|", {(1 << 0), '
         '"DIO_FORCE_WAIT" }), REC->aio')
NEWER = BEGIN.replace('(1 << 21), "ALLOC_CACHE"', '(1 << 21), "ALLOC_CACHE" }, { (1 << 22), "AIO_RW"')
DSTMAP = ('print fmt: "type %s flags %s", __print_symbolic(REC->type, { 0, "HOLE" }, { 2, "MAPPED" }, { 3, '
          '"UNWRITTEN" }), __print_flags(REC->flags, "|", { (1U << 0), "NEW" }, { (1U << 1), "DIRTY" }, '
          '{ (1U << 2), "SHARED" })')
MOUNTS = "25 1 8:1 / /no/such/a rw - ext4 /dev/a rw\n26 1 8:2 / /no/such/b rw - xfs /dev/b rw\n"
EXT4 = 8 << 20 | 1
DSYNC, NOWAIT, WRITTEN, UNWRITTEN = 2, 8, 2, 3


def line(task: str, state: str, when: float, event: str, **values: int) -> str:
    shown = "".join(f" {name}=0x{value & (1 << 64) - 1:x} ({value})" for name, value in values.items())
    return f"{task:>20} [001] {state} {when:.6f}: {event}:{shown}\n"


def begin(task: str, when: float, pos: int, flags: int = 0, aio: int = 1, count: int = 4096) -> str:
    return line(task, ".....", when, "iomap_dio_rw_begin", dev=EXT4, ino=12, isize=1 << 20, pos=pos, count=count,
                done_before=0, ki_flags=flags, dio_flags=0, aio=aio)


def mapped(task: str, when: float, flags: int, kind: int = WRITTEN, bios: int = 1) -> str:
    return (line(task, ".....", when, "iomap_iter", dev=EXT4, ino=12, flags=flags)
            + line(task, ".....", when, "iomap_iter_dstmap", dev=EXT4, ino=12, type=kind, flags=0, bdev=7)
            + line(task, ".....", when, "block_bio_queue", dev=7, sector=0).replace("\n", " rwbs=WS comm=x\n") * bios
            + line(task, ".....", when, "block_bio_queue", dev=7, sector=0).replace("\n", " rwbs=WSM comm=x\n"))


def queued(task: str, when: float) -> str:
    return line(task, ".....", when, "iomap_dio_rw_queued", dev=EXT4, ino=12)


def complete(task: str, state: str, when: float, pos: int, ret: int = 4096) -> str:
    return line(task, state, when, "iomap_dio_complete", dev=EXT4, ino=12, pos=pos, error=0, ret=ret)


def read(text: str) -> Any:
    reader = census.Reader()
    reader.feed(text)
    return reader.done


class Events(unittest.TestCase):
    def test_names(self) -> None:
        self.assertEqual(census.labels(BEGIN)["ki_flags"],
                         {"HIPRI": 1, "DSYNC": DSYNC, "NOWAIT": NOWAIT, "ALLOC_CACHE": 1 << 21})
        self.assertEqual(census.labels(DSTMAP)["flags"], {"NEW": 1, "DIRTY": 2, "SHARED": 4})

    def test_histogram(self) -> None:
        self.assertEqual(census.histogram(
            "# event\n\n{ dev:  266338304, error: 18446744073709551605 } hitcount:          2\n\nTotals:\n"),
            {(266338304, -11): 2})

    def test_waits_for_its_own(self) -> None:
        r, = read(begin("a b-7", 1, 0, aio=0) + mapped("a b-7", 1, 17)
                  + complete("a b-7", ".....", 1.5, 1024, ret=1024))
        self.assertEqual((r.write, r.where, r.ended - r.began, r.bios, len(r.maps)), (True, "submitter", 0.5, 1, 1))
        self.assertLess(r.ret, r.count)

    def test_hop(self) -> None:
        """It ends on a worker, after an interrupt during another submission, which has a bio of its own."""
        done = read(begin("a-7", 1, 0) + mapped("a-7", 1, 17) + queued("a-7", 1.1) + begin("a-7", 2, 8192)
                    + line("a-7", "d.h1.", 2.25, "workqueue_queue_work", work=-5, function=-9)
                    + mapped("a-7", 2.3, 16) + line("a-7", "d.s..", 2.4, "block_bio_queue", dev=7, sector=0)
                    + line("kworker/1:0-28", ".....", 2.5, "workqueue_execute_start", work=-5)
                    + complete("kworker/1:0-28", ".....", 3, 4096) + complete("a-7", "d.h..", 4, 8192 + 4096)
                    + queued("a-7", 5))
        self.assertEqual([(r.where, r.hop, r.depth, r.bios, r.ended) for r in done],
                         [("worker", 0.25, 1, 1, 3), ("interrupt", None, 2, 1, 4)])

    def test_simple_read(self) -> None:
        """Linux 7.3 asks for its mapping before it begins."""
        r, = read(begin("a-7", 1, 0) + complete("<idle>-0", "d.h..", 2, 4096) + queued("a-7", 3))
        self.assertEqual((r.write, r.maps, r.where), (False, [(WRITTEN, 0)], "interrupt"))

    def test_refused_and_begun_again(self) -> None:
        """By a worker of io_uring, before it is seen that the first one was refused."""
        first, second = sorted(read(
            begin("a-7", 1, 0, NOWAIT) + begin("iou-wrk-7-9", 2, 0) + mapped("iou-wrk-7-9", 2, 17)
            + complete("iou-wrk-7-9", ".....", 3, 4096) + begin("a-7", 4, 4096, NOWAIT)), key=lambda r: r.began)
        self.assertEqual((first.left, second.left, second.where), (True, False, "submitter"))

    def test_still_under_way(self) -> None:
        done = read(begin("a-7", 1, 0) + mapped("a-7", 1, 17) + queued("a-7", 1) + begin("a-7", 2, 4096))
        self.assertEqual([(r.pos, r.where) for r in done], [(0, "still under way")])


class Kinds(unittest.TestCase):
    def test_kinds(self) -> None:
        machine = census.Machine(NEWER, DSTMAP, MOUNTS)
        machine.queues = {(7, "write_cache"): "write back", (7, "fua"): "1", (7, "stable_writes"): "0",
                          (8, "write_cache"): "write back", (8, "fua"): "0", (9, "write_cache"): "write through"}
        for kind, what in {
                "randread": {}, "split-read": {"maps": [(2, 0)] * 2}, "read of a hole": {"maps": [(0, 0)]},
                "randwrite": {"write": True}, "unwritten": {"write": True, "maps": [(3, 0)]},
                "log-unwritten": {"write": True, "maps": [(3, 0)], "flags": DSYNC},
                "dsync-fua": {"write": True, "flags": DSYNC}, "append": {"write": True, "pos": 1 << 20},
                "dsync-flush": {"write": True, "flags": DSYNC, "bdev": 8},
                "reflinked": {"write": True, "maps": [(2, 4)]},
                "write into a hole": {"write": True, "maps": [(2, 1)]}, "subblock": {"write": True, "count": 512},
                "cached-write": {"write": True, "probe": {"pages": 1}}, "refused": {"write": True, "ret": -11},
                "ended before a mapping": {"left": True}}.items():
            r = census.Request(EXT4, 12, 0, 4096, 1 << 20, 0, 1, 1, 1, {}, False, [(2, 0)], 7)
            vars(r).update(what)
            self.assertEqual(machine.kind(r), kind)
        # An O_DSYNC write to a disk without a cache is like any other.
        r = census.Request(EXT4, 12, 0, 4096, 1 << 20, DSYNC, 1, 1, 1, {}, True, [(2, 0)], 9)
        self.assertEqual(machine.kind(r), "randwrite")

    def test_engines(self) -> None:
        for begun, flags, engine in ((BEGIN, 0, "libaio"), (BEGIN, 1 << 21, "io_uring"), (NEWER, 1 << 22, "libaio"),
                                     (NEWER, 0, "io_uring"), (NEWER, 1, "poll")):
            r = census.Request(EXT4, 12, 0, 4096, 1 << 20, flags, 1, 1, 1, {})
            self.assertEqual(census.Machine(begun, DSTMAP, MOUNTS).engine(r), engine)


ROWS = census.table("ext4/randread/io_uring 4k 4767 4765, 16k 11948 11577, 1M 569507 569519\n"
                    "ext4/randread/psync 4k 4428 4340\next4/randwrite/psync 512 4182 3698, 4k 5226 4734\n"
                    "ext4/unwritten/fixedbufs 4k/depth=1/on=irq 26052 25519, 4k/depth=8/on=irq 20681 15836\n"
                    "ext4/log/fixedbufs 4k/depth=1/on=irq-fua 12879 12227, 4k/depth=1/on=irq-cache 30710 30215\n"
                    "ext4/split-read/fixedbufs 16k 11322 11502")


class Estimate(unittest.TestCase):
    def test_match(self) -> None:
        for want, fs, kind, engine, size, depth, several, flushes in (
                ("randread/io_uring/4k", "ext4", "randread", "io_uring", 4096, 64, False, False),
                # Of two sizes as near, that which saves less
                ("randread/io_uring/4k", "ext4", "randread", "libaio", 8192, 1, False, False),
                ("randread/io_uring/1M", "ext4", "randread", "libaio", 1 << 20, 1, True, False),
                ("split-read/fixedbufs/16k", "ext4", "split-read", "libaio", 16384, 1, True, False),
                ("unwritten/fixedbufs/4k/depth=1/on=irq", "ext4", "unwritten", "libaio", 4096, 1, False, False),
                ("unwritten/fixedbufs/4k/depth=8/on=irq", "ext4", "unwritten", "libaio", 4096, 32, False, False),
                ("log/fixedbufs/4k/depth=1/on=irq-fua", "ext4", "dsync-fua", "io_uring", 4096, 1, False, False),
                ("log/fixedbufs/4k/depth=1/on=irq-cache", "ext4", "dsync-flush", "io_uring", 4096, 64, False, True),
                # The disk has FUA, but the inode has to be written.
                ("log/fixedbufs/4k/depth=1/on=irq-cache", "ext4", "dsync-flush", "io_uring", 4096, 64, False, False),
                ("randwrite/psync/512", "ext4", "subblock", "psync", 1024, 1, False, False),
                # What was counted is another thing: file system, kind, engine, size, number of bios.
                (None, "xfs", "randread", "io_uring", 4096, 1, False, False),
                (None, "ext4", "append", "io_uring", 4096, 1, False, False),
                (None, "ext4", "unwritten", "psync", 4096, 1, False, False),
                (None, "ext4", "randread", "psync", 1 << 16, 1, False, False),
                (None, "ext4", "randread", "io_uring", 1 << 20, 1, False, False)):
            row = census.match(ROWS, fs, kind, engine, size, depth, several, flushes)
            self.assertEqual(row and row.id, want and f"ext4/{want}")

    def judge(self, text: str, begun: dict[tuple[int, ...], int]) -> Any:
        return census.judge({"seconds": 2, "sampled": 1, "lost": 0, "interrupted": "", "status": 0, "dropped": 0,
                             census.BEGIN: begun, census.COMPLETE: {(EXT4, -11): 3}, census.FELL_BACK: {}},
                            read(text), census.Machine(NEWER, DSTMAP, MOUNTS), ROWS)

    def test_shares(self) -> None:
        """Two that were looked at stand for 100 of their kinds, one of which is dearer in Rust; no row is no saving."""
        text = (begin("a-7", 1, 0, aio=0) + mapped("a-7", 1, 17) + complete("a-7", ".....", 2, 4096)
                + begin("a-7", 3, 0, aio=1, count=1 << 20) + mapped("a-7", 3, 16, bios=5)
                + complete("a-7", "d.h..", 4, 1 << 20, ret=1 << 20) + queued("a-7", 4)
                + begin("a-7", 5, 0, aio=1, count=8192) + mapped("a-7", 5, 17) + queued("a-7", 6))
        found = self.judge(text, {(EXT4, 4096, 0): 60, (EXT4, 1 << 20, 0): 40, (EXT4, 8192, 0): 10, (EXT4, 512, 0): 5})
        self.assertEqual((found["requests"], found["not_looked_at"], found["with_row"]), (115, 5, 100))
        self.assertEqual(found["rows"], {"ext4/randwrite/psync/4k": 60, "ext4/randread/io_uring/1M": 40})
        self.assertEqual(found["saves_per_second"], 60 // 2 * (5226 - 4734) - 40 // 2 * (569519 - 569507))
        self.assertEqual(found["errors"], {f"{os.strerror(11)} on /no/such/a": 3})
        shown = census.report(found, ipc=2, ghz=3)
        self.assertIn("87.0 % of the requests have a row", shown)
        self.assertIn("In all: 14,520 instructions a second, 0.000 % of one processor", shown)

    def test_columns(self) -> None:
        self.assertEqual(census.columns(1, ("a", "b"), ("long", "1,000")), ["a         b", "long  1,000"])


class Command(unittest.TestCase):
    def test_bad_input(self) -> None:
        for argv, words in ((["--seconds=0"], "more than 0"),
                            (["--json", "/no/such/x.json"], "root" if os.geteuid() else "/no/such")):
            done = subprocess.run([sys.executable, PATH, *argv], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertTrue(done.stderr.startswith("error: ") and words in done.stderr, done.stderr)
