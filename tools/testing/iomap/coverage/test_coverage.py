# SPDX-License-Identifier: GPL-2.0
"""Tests of coverage.py, and of the list of what cannot be reached."""

import argparse
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import coverage
from coverage import Reason, Spot

TOOLS = Path(__file__).resolve().parents[1]
LLVM = (TOOLS / "pins").read_text().partition("LLVM_MAJOR=")[2].split()[0]
# Leaves its counters as the kernel does, without the runtime of LLVM.
PROGRAM = """\
#include <stdio.h>
extern char __start___llvm_prf_cnts[], __stop___llvm_prf_cnts[];
static int half(int n)
{
	if (n & 1)
		return -1;
	return n / 2;
}
int main(void)
{
	half(2); half(4);
	fwrite(__start___llvm_prf_cnts, 1, __stop___llvm_prf_cnts - __start___llvm_prf_cnts, stdout);
}
"""


class Regions(unittest.TestCase):
    @unittest.skipUnless(shutil.which(f"clang-{LLVM}"), f"no clang-{LLVM}")
    def test_program(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            (path / "a.c").write_text(PROGRAM)
            subprocess.run([f"clang-{LLVM}", "-O2", "-fprofile-instr-generate", "-fcoverage-mapping", "-c", "a.c"],
                           cwd=path, check=True)
            subprocess.run([f"clang-{LLVM}", "-o", "linux", "a.o"], cwd=path, check=True)
            (path / "counters").write_bytes(subprocess.run([path / "linux"], stdout=subprocess.PIPE, check=True).stdout)
            found = coverage.counts(argparse.Namespace(llvm=LLVM, build=path), path, ["a.c"])
        lines = {region[1]: count for region, count in found.items() if count[0] == "half"}
        self.assertEqual(lines, {4: ("half", 2), 5: ("half", 2), 6: ("half", 0), 7: ("half", 2)})

    def test_ours(self) -> None:
        def function(name: str, path: str, count: int, kind: int = coverage.CODE) -> dict[str, object]:
            return {"name": name, "filenames": [path], "regions": [[4, 2, 5, 1, count, 0, 0, kind]]}

        functions = [function("x.c:first", "/t/x.c", 3), function("x.c:first", "/t/x.c", 2),
                     function("c_rw", "x.c", 1, 3), function("rw", "/t/y.c", 1)]
        self.assertEqual(coverage.read_regions({"data": [{"functions": functions}]}, ["x.c"]),
                         {("x.c", 4, 2, 5, 1): ("first", 5)})


class Reasons(unittest.TestCase):
    def test_reasons(self) -> None:
        for where, words, reasons, wrong in (
                ("second", "ENOMEM", ["", "no", ""], None),
                ("x.c", "oops() #1", ["no", "", ""], None),
                ("second", "-ENOMEM #2", ["", "", ""], "it is reached: second: -ENOMEM #2"),
                ("second", "EIO", ["", "", ""], "there is no such line: second: EIO"),
                ("first", "ENOMEM", ["", "", ""], "there is no such line: first: ENOMEM")):
            spots = [Spot("x.c", n, "second", 0, count, text) for n, text, count in (
                (12, "if (oops())", 0), (13, "return -ENOMEM;", 0), (14, "return -ENOMEM;", 3))]
            self.assertEqual(list(coverage.explain(spots, [Reason(where, words, "no")])),
                             [f"unreachable: {wrong}"] if wrong else [])
            self.assertEqual([spot.reason for spot in spots], reasons)

    def test_comments_and_mistakes(self) -> None:
        with tempfile.NamedTemporaryFile("w+") as file:
            for text, fails in (("# a comment\n\na\tb\tc\n", False), ("second\tENOMEM\n", True)):
                Path(file.name).write_text(text)
                with self.assertRaises(coverage.Trouble) if fails else self.subTest():
                    self.assertEqual(coverage.read_reasons(Path(file.name)), [Reason("a", "b", "c")])

    def test_list(self) -> None:
        coverage.read_reasons(TOOLS / "unreachable")

    def test_table(self) -> None:
        rows = [Spot("fs/a.rs", 1, "f", n, r) for n, r in ((1, 0), (0, 1), (0, 0))]
        self.assertIn("| all of Rust | 3 | 1 | 1 | 2 (66.7 %) |", coverage.table(rows))
