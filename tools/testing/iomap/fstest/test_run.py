# SPDX-License-Identifier: GPL-2.0
"""Tests of what reads results: run.py here and report.py above."""

import argparse
import array
import io
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import replay
import run

import ktap
import machine
import report

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = ["mix-sync", "mix-io_uring", "flip", "holes"]


class Plan(unittest.TestCase):
    def names(self, *patterns: str) -> set[str]:
        runs, diffs = run.plan(CASES, patterns)
        return {f"{c.name}/{i}/{case}" for c, i, cases in runs for case in cases} | diffs

    def test_everything(self) -> None:
        names = self.names()
        self.assertIn("ext4-4k/rust/mix-sync", names)
        self.assertIn("xfs-bounce/c/fsck", names)
        self.assertIn("diff/f2fs/holes", names)
        self.assertIn("xfs/both/flip", names)
        self.assertNotIn("xfs/c/flip", names)
        self.assertNotIn("diff/xfs/fsck", names)
        self.assertNotIn("ext2/rust/mix-io_uring", names)

    def test_pattern(self) -> None:
        self.assertEqual(self.names("ext4-4k/rust/mix*"),
                         {"ext4-4k/rust/mix-sync", "ext4-4k/rust/mix-io_uring"})

    def test_diff_needs_both(self) -> None:
        self.assertEqual(self.names("diff/xfs/holes"),
                         {"xfs/rust/holes", "xfs/c/holes", "diff/xfs/holes"})

    def test_case_of_one_file_system(self) -> None:
        runs, diffs = run.plan(["read-only", "zone-conventional", "holes"], [])
        cases = {config.name: chosen for config, impl, chosen in runs if impl == "rust"}
        self.assertNotIn("read-only", cases["ext4-4k"])
        self.assertEqual(cases["erofs"], ["read-only", "which-impl", "remount", "fsck"])
        self.assertEqual(cases["zonefs"], ["zone-conventional", "which-impl", "remount"])
        self.assertIn("diff/erofs/read-only", diffs)
        self.assertNotIn("diff/xfs/zone-conventional", diffs)


class Replay(unittest.TestCase):
    """Of a log of writes (dm-log-writes), and of what a crash has left."""

    def setUp(self) -> None:
        self.dir = self.enterContext(tempfile.TemporaryDirectory())

    def log(self, *entries: tuple[int, int, bytes], magic: int = replay.MAGIC) -> list[replay.Entry]:
        sector = replay.SECTOR
        text = struct.pack("<QQQI", magic, 1, len(entries), sector).ljust(sector, b"\0")
        for at, flags, data in entries:
            sectors, mark = len(data) // sector, flags & replay.MARK
            text += (struct.pack("<QQQQ", at, 0 if mark else sectors, flags, len(data) if mark else 0)
                     + (data if mark else b"")).ljust(sector, b"\0")
            text += data if not flags & (replay.MARK | replay.DISCARD) else b""
        path = Path(self.dir, "log")
        path.write_bytes(text + b"\xdb" * sector)
        return list(replay.entries(path))

    def test_entries(self) -> None:
        written = [(8, 0, b"a" * 1024), (0, replay.MARK, b"0/16384"), (16, replay.DISCARD, b"d" * 512),
                   (0, replay.FLUSH, b""), (24, 0, b"b" * 512)]
        found = [(e.sector, e.flags, e.data) for e in self.log(*written)]
        self.assertEqual(found, [(at, flags, b"" if flags & replay.DISCARD else data)
                                 for at, flags, data in written])
        with self.assertRaisesRegex(machine.Failed, "no log of writes"):
            self.log(magic=1)

    def check(self, text: bytes, *done: int) -> None:
        Path(self.dir, "logged-1").write_bytes(text)
        with mock.patch.object(replay, "MNT", self.dir):
            replay.check_file(1, set(done))

    def test_file(self) -> None:
        length = replay.LEN
        first, second = (array.array("Q", range((1 << 40) + at + 1, (1 << 40) + at + 1 + length, 8)).tobytes()
                         for at in (0, length))
        nothing = bytes(length)
        self.check(b"")
        self.check(nothing + second, length)
        self.check(first + second, 0, length)
        for text, done, error in (
                (b"", 0, "write to 0 of file 1 was complete and is lost"),
                (first, length, "write to 16384 of file 1 was complete and is lost"),
                (first[:-8] + bytes(8), 0, "write to 0 of file 1 was complete and is lost"),
                (first + nothing, length, "write to 16384"),
                (b"\xdb" * length + second, length, "at 0 of file 1 is neither"),
                (second + second, length, "at 0 of file 1 is neither")):
            with self.assertRaisesRegex(machine.Failed, error):
                self.check(text, done)


class Trace(unittest.TestCase):
    def test_caller(self) -> None:
        trace = ("# tracer: nop\n"
                 " python3-33 [000] ..... 1.0: iomap_iter: dev 252:0 ino 0xd pos 0x0 length 0x1000"
                 " status 0 flags WRITE ops ext4_iomap_ops caller __iomap_dio_rw+0x1a/0x30\n")
        other = trace.replace("ino 0xd ", "ino 0xe ").replace("__iomap_dio_rw", "iomap_read_folio")
        first = trace.replace("__iomap_dio_rw", "iomap_file_buffered_write")
        self.assertEqual(run.trace_caller(first + trace + other, 13), "__iomap_dio_rw")
        self.assertEqual(run.trace_caller(other, 13), "")


class Compare(unittest.TestCase):
    def test_compare(self) -> None:
        self.assertEqual(run.compare(["a", "b"], ["a", "b"]), "")
        self.assertIn("line 2", run.compare(["a", "b"], ["a", "c"]))
        self.assertIn("Rust 1", run.compare(["a", "b"], ["a"]))

    def test_diff_of_records(self) -> None:
        # What they are read from is for root alone.
        with tempfile.TemporaryDirectory() as out, mock.patch.object(run, "pins", return_value=0):
            runner = run.Runner(argparse.Namespace(out=out))
            for impl, facts in (("c", "write -> 512"), ("rust", "write -> -14")):
                with open(f"{out}/xfs.{impl}.record", "w", encoding="ascii") as f:
                    f.write(f"mix\t{facts}\nsame\tx\n")
            runner.seen = {f"xfs/{impl}/{case}": "skip" if (impl, case) == ("c", "odd") else "pass"
                           for impl in ("c", "rust") for case in ("mix", "same", "odd", "quiet", "mix-lost")}
            for impl in ("c", "rust"):
                runner.result(f"xfs/{impl}/idle", "skip", "not supported")
                runner.result(f"xfs/{impl}/apart", "skip", impl)
            runner.diff({f"diff/xfs/{c}" for c in ("mix", "same", "odd", "quiet", "mix-lost", "gone", "idle", "apart")})
            runner.log.close()
        self.assertEqual({name: status for name, status in runner.seen.items() if name.startswith("diff/")},
                         {"diff/xfs/mix": "fail", "diff/xfs/same": "pass", "diff/xfs/odd": "fail",
                          "diff/xfs/mix-lost": "fail", "diff/xfs/apart": "fail"})


def short(results: list[report.Result]) -> list[tuple[str, str, str]]:
    return [(r["name"], r["status"], r["reason"]) for r in results]


class Report(unittest.TestCase):
    def test_check(self) -> None:
        results = report.parse_check("noise\nok patches (3 in order)\nFAIL clippy: 2 warnings\n")
        self.assertEqual(short(results), [("check/patches", "pass", "3 in order"),
                                          ("check/clippy", "fail", "2 warnings")])

    def test_guest(self) -> None:
        unfinished = ("guest-0/fstest", "fail", "the file system suite did not finish")
        for text, expected in (
                ('{"start": "x"}\n{"name": "x", "status": "skip", "reason": "r"}\n{"done": true}\n',
                 [("x", "skip", "r")]),
                ('{"start": "x"}\n{"name": "x", "status": "pass"}\n{"start": "y"}\n{"name": "a/',
                 [("x", "pass", ""), ("y", "fail", "the guest ended during this test"), unfinished]),
                ("", [unfinished])):
            self.assertEqual(short(report.parse_fstest(text)), expected)

    def test_kunit(self) -> None:
        def suite(name: str, line: int, *cases: ktap.Test) -> ktap.Test:
            return ktap.Test(name, "fail", "no result", [], line, list(cases))
        suites = [suite("other", 9, ktap.Test("x", "fail")),
                  suite("rust_iomap_plan", 9, ktap.Test("later", "skip"), ktap.Test("align", "pass", tests=[
                      ktap.Test("D1 odd", "pass"), ktap.Test("D2 even", "skip", "no page")])),
                  suite("iomap_dio_rw", 0, ktap.Test("zero", "fail", "expected 1"),
                        ktap.Test("hang", "crash")),
                  suite("iomap_dio_empty", 9)]
        self.assertEqual(short(report.kunit_results(suites)),
                         [("kunit/rust_iomap_plan/later", "skip", "skipped by the test"),
                          ("kunit/rust_iomap_plan/align", "pass", ""),
                          ("kunit/rust_iomap_plan/align/D2 even", "skip", "no page"),
                          ("kunit/iomap_dio_rw/zero", "fail", "expected 1"),
                          ("kunit/iomap_dio_rw/hang", "fail", ""),
                          ("kunit/iomap_dio_rw", "fail", "no result"),
                          ("kunit/iomap_dio_empty", "fail", "no result")])

    def test_checkers(self) -> None:
        def status(console: str, lockdep_stats: str = "") -> list[str]:
            return [r["status"] for r in report.checker_results(console, lockdep_stats, "0")]

        on = "[ 0.0] KernelAddressSanitizer initialized (generic)\n[ 0.0] Lock dependency validator: (c)\n"
        self.assertEqual(status(on), ["pass", "pass"])
        self.assertEqual(status(on + "[ 1.0] Disabling lock debugging\n"), ["pass", "fail"])
        self.assertEqual(status(on, " debug_locks:    1\n"), ["pass", "pass"])
        self.assertEqual(status(on, " debug_locks:    0\n"), ["pass", "fail"])
        self.assertEqual(status(""), ["fail", "fail"])

    def test_splat_scanner(self) -> None:
        """splat.sh itself: it speaks, and does not cry wolf."""
        quiet = ("[ 1.0] EXT4-fs (nullb0): mounted filesystem\n"
                 "[ 1.1] Page cache invalidation failure on direct I/O.  Possible data corruption\n")
        loud = ("[ 2.0] WARNING: CPU: 0 PID: 1 at fs/iomap/direct-io.c:643 x+0x1\n",
                "[ 2.0] BUG: KASAN: slab-use-after-free in iomap_dio_complete+0x1\n",
                "[ 2.0] BUG: sleeping function called from invalid context\n",
                "[ 2.0] WARNING: possible circular locking dependency detected\n",
                "[ 2.0] rust_kernel: panicked at fs/iomap/direct_io.rs:1\n",
                "[ 2.0] XFS (nullb0): Metadata CRC error detected at xfs_agf_read_verify+0x1, xfs_agf block 0x1\n",
                "[ 2.0] XFS (nullb0): Metadata corruption detected at xfs_inode_buf_verify+0x1, xfs_inode block 0x40\n",
                "[ 2.0] EXT4-fs (nullb0): This should not happen!! Data will be lost\n",
                "[ 2.0] EXT4-fs (nullb0): failed to convert unwritten extents -- potential data loss!"
                "  (inode 12, error -5)\n",
                "[ 2.0] BTRFS: error (device nullb0 state A) in btrfs_finish_one_ordered:1: errno=-5 IO failure\n",
                "[ 2.0] F2FS-fs (nullb0): Inconsistent error blkaddr:1, sit bitmap:0\n")
        for text in ("", *loud):
            p = self.scan(quiet + text)
            self.assertEqual(p.returncode, 1 if text else 0, text)
            self.assertEqual(report.splat_result(p.stdout)["status"],
                             "fail" if text else "pass")
        found = report.splat_result("/a/console.log:7: the kernel complains:\n    WARNING: x\n", "1")
        self.assertEqual(short([found]), [("console-1/splat", "fail", "line 7: WARNING: x")])

    def test_log_that_cannot_be_read(self) -> None:
        said = subprocess.run([os.path.join(os.path.dirname(HERE), "splat.sh"), "/no/console.log"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual((said.returncode, said.stdout), (1, "/no/console.log: cannot be read\n"))
        self.assertEqual(short([report.splat_result(said.stdout)]), [("console-0/splat", "fail", said.stdout.strip())])

    def test_lost_timer(self) -> None:
        """A processor of UML that loses its timer is noted; a loop in the path is a complaint."""
        stall = ("[ 9.7] rcu: INFO: rcu_sched detected stalls on CPUs/tasks:\n"
                 "[ 9.7] rcu: \t(detected by 0, t=2602 jiffies, g=9129, q=12 ncpus=2)\n"
                 "[ 9.7] rcu: All QSes seen, last rcu_sched kthread activity 2602\n"
                 "[ 9.7]  [<600b8e3e>] ? schedule+0x13e/0x340\n"
                 "%s"
                 "@@ fstest: ext4-4k/rust: 52 passed, 0 failed, 2 skipped\n")
        idle = self.scan(stall % "")
        self.assertEqual((idle.returncode, report.splat_result(idle.stdout)["status"]), (0, "skip"))
        busy = self.scan(stall % "[ 9.7]  [<60593160>] ? iomap_dio_rw+0x0/0x20\n")
        self.assertEqual((busy.returncode, report.splat_result(busy.stdout)["status"]), (1, "fail"))

    @staticmethod
    def scan(text: str) -> subprocess.CompletedProcess[str]:
        with tempfile.NamedTemporaryFile("w", suffix=".log") as f:
            f.write(text)
            f.flush()
            return subprocess.run([os.path.join(os.path.dirname(HERE), "splat.sh"), f.name],
                                  stdout=subprocess.PIPE, text=True, check=False)

    def test_last_line_is_alone(self) -> None:
        out = io.StringIO()
        report.print_report([report.result("a", "pass"), report.result("b/x", "fail", "why\nnot"),
                             report.result("c/1/s", "skip", "no disk"),
                             report.result("c/2/s", "skip", "no disk")], out)
        lines = out.getvalue().splitlines()
        self.assertEqual(lines[-1], "1 passed, 1 failed, 2 skipped")
        self.assertIn("  b/x: why not", lines)
        self.assertIn("  c/1/s, c/2/s: no disk", lines)
        self.assertEqual(report.last_line([report.result("a", "pass")]), "1 passed, 0 failed")
