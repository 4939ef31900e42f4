# SPDX-License-Identifier: GPL-2.0
"""Tests of coverage.py, and of the list of what cannot be reached."""

import tempfile
import unittest
from pathlib import Path

import coverage
from coverage import Spot

LIST = Path(__file__).resolve().parents[1] / "unreachable"
PROJECT = LIST.parents[3]

GCOV = """\
file:../../tree/include/linux/fs.h
function:20,5,other
lcount:21,5
file:../../tree/fs/iomap/direct-io.c
function:3,7,first
function:9,3,c_second
lcount:6,7
lcount:12,0
lcount:14,3
file:../../tree/include/linux/bio.h
lcount:30,5
"""


def reasons_of(text: str) -> list[coverage.Reason]:
    with tempfile.NamedTemporaryFile("w", suffix="-unreachable") as f:
        f.write(text)
        f.flush()
        return coverage.read_reasons(Path(f.name))


def second() -> list[Spot]:
    """The lines of second(), of which only the last is reached."""
    return [Spot(coverage.ORACLE, n, "second", 0, count, text)
            for n, text, count in ((12, "if (oops())", 0), (13, "return -ENOMEM;", 0),
                                   (14, "return -ENOMEM;", 3))]


class Lines(unittest.TestCase):
    def test_counts(self) -> None:
        self.assertEqual(coverage.parse_gcov(GCOV), {6: ("first", 7), 12: ("second", 0), 14: ("second", 3)})

    def test_reasons(self) -> None:
        for text, reasons, wrong in (
                # A reason is for one line.
                ("second\tENOMEM\tno\n", ["", "no", ""], []),
                ("second\t-ENOMEM #2\tno\n", ["", "", ""],
                 ["unreachable: it is reached: second: -ENOMEM #2 (line 14)"]),
                ("second\tENOMEM #3\tno\n", ["", "", ""], ["unreachable: there is no such line: second: ENOMEM #3"]),
                ("first\tENOMEM\tno\n", ["", "", ""], ["unreachable: there is no such line: first: ENOMEM"])):
            lines = second()
            self.assertEqual(coverage.explain_c(lines, reasons_of(text)), wrong)
            self.assertEqual([line.reason for line in lines], reasons)

    def test_comments_and_mistakes(self) -> None:
        self.assertEqual(reasons_of("# a comment\n\n"), [])
        with self.assertRaises(coverage.Trouble):
            reasons_of("second\tENOMEM\n")

    def test_list(self) -> None:
        coverage.read_reasons(LIST)


class Edges(unittest.TestCase):
    def test_all_files_are_looked_at(self) -> None:
        for path in (PROJECT / "rust/kernel").rglob("*.rs"):
            if path.name != "tests.rs":
                self.assertRegex(str(path.relative_to(PROJECT)), coverage.RUST)

    OURS = ("fs/iomap/direct_io/submit.rs", 12, "submit")
    CORE = ("library/core/src/option.rs", 99, "map")
    ENTRY = ("fs/iomap/direct_io.rs", 150, "iomap_dio_rw")

    def test_innermost_of_ours(self) -> None:
        self.assertEqual(coverage.place([self.CORE, self.OURS, self.ENTRY]),
                         ("fs/iomap/direct_io/submit.rs", 12, "iomap_dio_rw"))

    def test_of_others(self) -> None:
        self.assertIsNone(coverage.place([self.CORE]))
        self.assertIsNone(coverage.place([self.OURS, ("fs/iomap/tests/decide.rs", 5, "t")]))
        self.assertIsNone(coverage.place([("rust/kernel/block/buffer.rs", 5, "read")]))

    def test_reason(self) -> None:
        edges = [Spot("fs/a.rs", 1, "f", 0, 0, frames=[("fs/a.rs", 1), ("fs/b.rs", 1)])]
        sources = {"fs/a.rs": ["no_memory()?;"]}
        reasons = reasons_of("fs/a.rs\tno_memory\tno\nfs/a.rs\telsewhere\tno\nsecond\tx\tno\n")
        wrong = coverage.explain_rust(edges, reasons, sources)
        self.assertEqual(edges[0].reason, "no")
        self.assertEqual(len(wrong), 1)

    def test_last_line(self) -> None:
        edges = [Spot("fs/a.rs", 1, "f", n, r) for n, r in ((1, 0), (0, 1), (0, 0))]
        self.assertEqual(coverage.last_line(second(), edges),
                         "C: 1 of 3 lines, Rust: 2 of 3 edges")
