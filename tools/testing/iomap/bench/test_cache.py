# SPDX-License-Identifier: GPL-2.0
"""Unit tests of the simulated caches: the model of cache.c itself, and what is made of its misses."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import cache_report
import counts
import walks
from test_counts import FUNCTIONS, ROW, InFolder, printed_by, write_run

HERE = Path(__file__).resolve().parent
CACHES = "caches 64 16 16 32768 8 49152 12 2097152 16"
# Misses of one I/O in each function: with C and with Rust, the last number for each moved L1i.
MISSED = {
    1: ([0, 1, 0, 0, 0, 3, 2, 1, 0, 3], [0] * 10),
    2: ([0] * 10, [1, 0, 0, 0, 1, 5, 2, 1, 0, 5]),
    4: ([0, 0, 0, 64, 0, 2, 3, 0, 64, 2], [0, 0, 0, 64, 0, 2, 3, 0, 64, 2]),
}
WALKED = [{"kind": "execute", "bytes": 36 << 10, "marks": [1, 2, 3]}, {"kind": "read", "bytes": 48 << 10, "marks": [1]},
          {"kind": "read", "bytes": 64 << 10, "marks": [4]}, {"kind": "read", "bytes": 4 << 20, "marks": [5]}]
# Of the user space of marks: those of the walks, then any.
USER = {1: [576, 0, 0, 0, 0], 2: [576, 0, 0, 0, 0], 3: [590, 4, 0, 0, 0], 4: [0, 1024, 0, 0, 0],
        5: [0, 65536, 0, 65536, 0]}


def text(numbers: list[int], times: int = 1) -> str:
    """Five numbers, or twice five, with the last of five as often as there are moved L1i."""
    fives = [numbers[i:i + 5] for i in range(0, len(numbers), 5)]
    return " ".join(str(n * times) for five in fives for n in (*five[:4], *five[4:] * 16))


def write_misses(folder: Path, walked: list[dict[str, object]]) -> None:
    """What cache.c leaves beside what write_run() does."""
    write_run(folder)
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, "walks": walked}))
    impl_of = {w["mark"]: w["impl"] for row in run["rows"] for w in row["windows"]}
    lines = [CACHES]
    for mark in counts.read_marks(folder / "counts"):
        user = USER.get(mark, [0] * 5)
        lines += [f"mark {mark}", "user " + text(user * 2), "timer " + text([0] * 10)]
        for function, both in MISSED.items():
            missed = both[impl_of.get(mark) == "rust"]
            if any(missed):
                lines.append(f"{0x1000 + function:x} {text(missed, 1000)}")
    (folder / "misses").write_text("\n".join(lines) + "\n")


class Report(InFolder):
    def report(self, walked: list[dict[str, object]]) -> str:
        write_misses(self.path, walked)
        return printed_by(cache_report.main, self.path)

    def test_tables(self) -> None:
        said = self.report(WALKED)
        self.assertIn("L1d (48 KiB with 12 ways)", said)
        self.assertIn("rows failed", said)
        self.assertRegex(said, r"L1i: all of the kernel +0\.00 +1\.00 +\+1\.00 +5\.00 +7\.00 +\+2\.00")
        self.assertRegex(said, r"the path's own code +0\.00 +1\.00 +\+1\.00 +3\.00 +5\.00 +\+2\.00")
        self.assertRegex(said, rf"\n +{FUNCTIONS[2][0]} +0\.00 +1\.00 +\+1\.00 +0\.00 +5\.00 +\+5\.00")
        # C alone: an L1d miss of 14 cycles, 64 of L2
        self.assertRegex(said, r"alone( +[\d.]+){2} +\+1\.0 ± 0\.0( +[\d.]+){8} +3,854 +3,854 +\+0\n")
        self.assertRegex(said, r"4k +540 +380 +16 +16 +16 +16 +0 +0\n")
        misses = json.loads((self.path / "profile.json").read_text())["rows"][ROW]["rust"]["misses"]
        self.assertEqual(misses["emptied"]["L1i"]["own"], 5)
        self.assertEqual(misses["emptied"]["L1i, as linked"]["kernel"], 7)
        self.assertEqual(misses["alone"]["L2, data"]["kernel"], 64)

    def test_wrong_caches(self) -> None:
        for walked, words in (
                ([], "no walk"),
                ([{**WALKED[0], "marks": [3]}], "execute 36 KiB missed L1i, as linked 590 times, not 576"),
                ([{**WALKED[1], "marks": [4]}], "read 48 KiB missed L1d 1,024 times, not 0")):
            with self.assertRaises(SystemExit) as caught:
                self.report(walked)
            self.assertIn(words, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))


class Model(InFolder):
    """cache.c without QEMU, on walks of lines; that QEMU tells it everything is proven by walks.py in the guest."""

    def setUp(self) -> None:
        llvm = (HERE.parent / "pins").read_text().partition("LLVM_MAJOR=")[2].split()[0]
        compiler = shutil.which("cc") or shutil.which(f"clang-{llvm}") or shutil.which("clang")
        if not compiler:
            self.skipTest("no C compiler")
        super().setUp()
        source, self.program = self.path / "test.c", self.path / "test"
        # use() is all that the callbacks of QEMU come to.
        source.write_text(f'#include "{HERE}/cache.c"\n' """
            int interrupted;
            int main(void)
            {
                int l1, first, lines;
                cache_begin(stdout);
                for (int i = 0; scanf("%d %d %d", &l1, &first, &lines) == 3; i++) {
                    if (!lines)
                        empty(EMPTIED);
                    while (lines-- > 0)
                        use(0, first++, l1);
                    cache_mark(i);
                }
            }
            """)
        # Without the functions that call QEMU.
        subprocess.run([compiler, "-w", "-ffunction-sections", "-Wl,--gc-sections", "-o", self.program, source,
                        HERE / "map.c"], check=True)

    def missed(self, *walks: tuple[int, int, int]) -> list[list[int]]:
        """The numbers of each walk: (L1, first line, lines); without lines, an entry of a system call."""
        out = self.program.with_suffix(".out")
        told = "\n".join(" ".join(map(str, walk)) for walk in walks)
        out.write_text(subprocess.run([self.program], input=told, capture_output=True, text=True, check=True).stdout)
        misses = cache_report.read_misses(out)
        self.assertEqual(out.read_text().splitlines()[0], CACHES)
        return [of["user"] for of in misses.marks.values()]

    def test_walks(self) -> None:
        # 512 lines fit in L1i, 768 in L1d, 32768 in L2.
        walked = {(1, 0, 768): ["0 768 0 768 0", "0 0 0 0 0"],
                  # L1d evicts what was used least recently; L2 has it all.
                  (1, 0, 832): ["0 64 0 64 0", "0 832 0 0 0"],
                  # All lines of a function are moved together: the other caches miss the same.
                  (0, 0, 512): ["512 0 0 0 512", "0 0 0 0 0"], (0, 512, 64): ["64 0 0 0 64"],
                  (0, 0, 64): ["64 0 0 0 64"],
                  (1, 0, 65536): ["0 65536 0 64704 0", "0 65536 0 65536 0"]}
        expected = [[int(n) for n in text([int(n) for n in missed.split()] * 2).split()]
                    for each in walked.values() for missed in each]
        self.assertEqual(self.missed(*(walk for walk, each in walked.items() for _ in each)), expected)

    def test_emptied(self) -> None:
        walk = (1, 0, 100)
        self.assertEqual(self.missed(walk, (0, 0, 0), walk)[-1], [*[0] * 21, 100, 0, 100, *[0] * 16])

    def test_what_begins_an_io(self) -> None:
        names = (HERE / "cache.c").read_text().partition("io_names[] = {")[2].partition("}")[0]
        self.assertEqual(set(re.findall(r'"(\w+)"', names)), {name for of in counts.PER_IO.values() for name in of})

    def test_code_of_a_walk(self) -> None:
        code = walks.execute(32 << 10)
        self.assertEqual(len(code), 32 << 10)
        self.assertEqual(code.count(walks.MARK), 1)
