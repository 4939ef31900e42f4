# SPDX-License-Identifier: GPL-2.0
"""Unit tests of what is made of counted cache lines."""

import json
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import counts
import layout
import rows as bench_rows
import scale
import scale_report
from test_counts import InFolder, printed_by

# As clang prints it.
DUMP = """
*** Dumping AST Record Layout
         0 | struct other
         0 |   int inside
           | [sizeof=4, align=4]

*** Dumping AST Record Layout
         0 | struct outer
         0 |   union outer::(anonymous at fs.h:1:2)\x20
         0 |     struct rw_semaphore sem
         0 |       s64 count
         0 |     struct llist_node node
        32 |   struct inode vfs_inode
        32 |     umode_t i_mode
        64 |     struct rw_semaphore i_rwsem
        64 |       s64 count
        96 |     atomic_t i_dio_count
       100 |     struct address_space i_data
       100 |       struct inode * host
   108:0-3 |       unsigned int bits
       112 |     void (*)(struct inode *) free_inode
       120 |   spinlock_t last
           | [sizeof=128, align=8]
         0 | struct after
"""
OUTER = layout.Layout(DUMP, "outer")
FUNCTIONS: counts.Functions = {0: ("(no function)", ""), 0x10: ("ext4_iomap_begin", ""), 0x20: ("kfree", "")}
NAMES = scale_report.Names(FUNCTIONS, "0000000000001000 A offset\nffffffff80000000 D first\nffffffff80000100 D last\n",
                           {"ext4": OUTER})
INODE = 0xff11000000001020


def window(number: int, ios: int, by_c: int, moved: dict[tuple[int, int], int]) -> list[str]:
    return [f"window {number}", f"call __x64_sys_pread64 {ios}", "call __x64_sys_pwrite64 0",
            f"call c_iomap_dio_rw {by_c}", f"inode {INODE:x} 10",
            *(f"moved {address:x} {function:x} {times}" for (address, function), times in moved.items())]


class Fields(unittest.TestCase):
    def test_names(self) -> None:
        self.assertEqual((OUTER.size, OUTER.inode), (128, 32))
        for offset, name in ((0, "outer.sem"), (9, "outer.sem"), (32, "i_mode"), (72, "i_rwsem"), (96, "i_dio_count"),
                             (100, "i_data.host"), (109, "i_data.bits"), (112, "free_inode"), (127, "outer.last")):
            self.assertEqual(OUTER.name(offset), name)

    def test_unknown(self) -> None:
        with self.assertRaisesRegex(ValueError, "no struct inner"):
            layout.Layout(DUMP, "inner")

    def test_addresses(self) -> None:
        inodes = {INODE: 0x10}
        for address, what in ((INODE + 64, ("i_dio_count", True)), (INODE - 32, ("outer.sem", True)),
                              (INODE - 33, ("kfree()", False)), (INODE + 96, ("kfree()", False)),
                              (0xffffffff80000008, ("first", True)), (0xffffffff90000000, ("kfree()", False))):
            self.assertEqual(NAMES.of(address, 0x20, inodes), what)


class Scale(InFolder):
    def write(self, to_and_fro: int = 200, alone: int = 0, by_c: int = 100) -> None:
        """What a guest and the plugin leave: a row with one processor and one with eight."""
        busy = {(INODE + 64, 0x20): 150, (INODE + 68, 0x10): 50, (0xff12000000000000, 0x20): 2}
        lines = ["turn 100", *window(0, 0, 0, {(0x7000, 0): to_and_fro, (0xff12000000000000, 0x20): 9999}),
                 *window(1, 100, by_c, {(INODE, 0x20): alone} if alone else {}), *window(2, 100, 0, {}),
                 *window(3, 100, 100, busy), *window(4, 200, 0, busy)]
        (self.path / "counts").write_text("\n".join(lines))
        rows = [{"id": f"ext4/randread/{n}", "fs": "ext4", "kind": "randread", "processors": n, "windows": [
            {"own": False, "impl": impl, "window": first + i} for i, impl in enumerate(("c", "rust"))]}
            for n, first in ((1, 1), (8, 3))]
        (self.path / "run.json").write_text(json.dumps(
            {"rows": rows, "failures": [{"id": "xfs/randread", "error": "no luck"}], "check": 0, "rounds": 100,
             "window": 0.01, "kernel": {"release": "7.3.4"}, "guest": {"fio": "fio-3.39"}}))

    def digest(self, **how: Any) -> Any:
        self.write(**how)
        return scale_report.digest([self.path, self.path], NAMES)

    def test_sums(self) -> None:
        found = self.digest()
        self.assertEqual(found["turn"], 100)
        self.assertEqual(found["checks"], [2, 2])
        self.assertEqual(found["cells"]["ext4", "randread", False, "c", 8], [2.02, 2.02])
        self.assertEqual(found["cells"]["ext4", "randread", False, "rust", 8], [1.01, 1.01])
        # Two fields, one line; what moves seldom has no name in front.
        self.assertEqual(found["lines"]["ext4", "randread"], [
            {"names": ["i_dio_count", "i_data.host"], "c": 2, "rust": 1},
            {"names": ["kfree()"], "c": 0.02, "rust": 0.01}])

    def test_checks(self) -> None:
        for how, why in (({"to_and_fro": 400}, "4.00 times a round"), ({"alone": 7}, "one processor 0.07"),
                         ({"by_c": 3}, "the switch said c, and C served 3")):
            with self.assertRaisesRegex(ValueError, why):
                self.digest(**how)

    def test_report(self) -> None:
        self.write()
        (self.path / "System.map").write_text("ffffffff80000000 D first\n")
        with mock.patch.object(layout, "read", return_value=OUTER):
            printed = printed_by(scale_report.main, self.path, runs=2, functions=FUNCTIONS)
        for words in (r"ext4 +random read +one file +0\.00 / 0\.00 +nan / nan +nan / nan +2\.02 / 1\.01",
                      r"i_dio_count, i_data\.host +2\.00 +1\.00", r"all others +0\.02 +0\.01", "no luck",
                      r"moved 2\.00 and 2\.00 times a round", r"differ by at most 0\.00", "for 100 instructions"):
            self.assertRegex(" ".join(printed.split("\n")), words)
        self.assertEqual(len(json.loads((self.path / "scale.json").read_text())["cells"]), 4)

    def test_load(self) -> None:
        row = bench_rows.Row("ext4", "randread", "psync", "4k", jobs=2)
        chosen = ("--filename", "--offset", "--cpus_allowed", "--numjobs")
        one, own = ([word for word in scale.command(row, Path("/f"), own) if word.startswith(chosen)]
                    for own in (False, True))
        self.assertEqual(one, ["--filename=/f", "--offset=0", "--cpus_allowed=0",
                               "--filename=/f", f"--offset={scale.PART}", "--cpus_allowed=1"])
        self.assertEqual(own, ["--filename=/mnt/bench/own.0", "--offset=0", "--cpus_allowed=0",
                               "--filename=/mnt/bench/own.1", "--offset=0", "--cpus_allowed=1"])
