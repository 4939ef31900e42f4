# SPDX-License-Identifier: GPL-2.0
"""Unit tests of what is made of counted instructions, and of the refusals of device.py."""

import contextlib
import io
import json
import statistics
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import budget
import by_function
import count
import count_report
import counts
import device
import load
import rows as bench_rows
import seeds

import report

HERE = Path(__file__).resolve().parent

# (name, object, instructions, calls and locked instructions of an I/O with C, the same with Rust)
Each = tuple[int, int, int]
FUNCTIONS: tuple[tuple[str, str, Each, Each], ...] = (
    ("io_prep_write_fixed", "io_uring/rw.o", (10, 1, 0), (10, 1, 0)),
    ("c___iomap_dio_rw", counts.C_OBJECT, (400, 1, 3), (0, 0, 0)),
    ("direct_io::submit::submit", counts.RUST_OBJECT, (0, 0, 0), (250, 1, 1)),
    ("kfree", "mm/slub.o", (30, 1, 0), (20, 1, 0)),
    ("ext4_file_write_iter", "fs/ext4/file.o", (100, 1, 2), (100, 1, 2)),
)
ROW, RAW = "ext4/randwrite/fixedbufs/4k", "raw/randwrite/fixedbufs/4k"
MEMCPY, MEMSET = 0x2000, 0x2001


AT = {0: ("(no function)", ""), **{0x1000 + i: function[:2] for i, function in enumerate(FUNCTIONS)},
      MEMCPY: ("memcpy_orig", "arch/x86/lib/lib.o"), MEMSET: ("memset_orig", "arch/x86/lib/lib.o")}


def write_run(folder: Path, wrong: bool = False, memset: int = 45, user_steps: int = counts.REP_BYTES,
              steps: int = 0) -> None:
    """What a guest and the plugin leave of a raw row and an ext4 row."""
    lines: list[str] = []
    windows: list[dict[str, Any]] = []

    def mark(counted: Mapping[int, Each], rep: int = 0) -> int:
        number = sum(line.startswith("mark") for line in lines)
        lines.extend([f"mark {number} 1000", "user 50000 0 0 0"])
        lines.extend(f"{address:x} {n}000 {calls}000 {locked}000 {rep}000"
                     for address, (n, calls, locked) in counted.items() if n)
        return number

    known = {"rep": 0, "memset": 1}
    lines += ["mark 0 0", f"user {user_steps + 3} 0 0 {user_steps}",
              "mark 1 0", f"{MEMSET:x} {memset * counts.MEMSETS} {counts.MEMSETS} 0 0"]
    for impl in ("c", "rust", "rust", "c"):
        mark({})
        side = 1 if wrong or impl == "rust" else 0
        counted = {0x1000 + i: both[side] for i, (_, _, *both) in enumerate(FUNCTIONS)}
        windows.append({"impl": impl, "mark": mark(counted, steps)})
    raw = [{"impl": "c", "mark": mark({0x1000: (10, 1, 0), MEMCPY: (5, 1, 0)})}]
    rows = [{"id": RAW, "fio": ["fio"], "windows": raw}, {"id": ROW, "fio": ["fio"], "windows": windows}]
    run = {"known": known, "rows": rows,
           "failures": [{"id": "xfs/append/psync/4k", "error": "no luck"}], "left_out": ["1 of 2 rows"],
           "settings": {"repeats": 2, "window": 0.2},
           "kernel": {"release": "7.3.4"}, "guest": {"fio": "fio-3.39", "cpu": "TCG"}}
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "counts").write_text("\n".join(lines) + "\n")


def printed_by(main: Callable[[], None], folder: Path, *args: str, runs: int = 1,
               functions: counts.Functions = AT) -> str:
    """What a report says of the runs in a folder, where it also goes, and whether it ends with failed rows."""
    with contextlib.redirect_stdout(io.StringIO()) as printed, \
            mock.patch.object(counts, "functions_of", return_value=functions), \
            mock.patch.object(counts, "text_of", return_value={"C: direct-io.c": 8335}), \
            mock.patch("sys.argv", ["", *[str(folder)] * runs, f"--build={folder}", "--llvm=1", f"--out={folder}",
                                    *args]):
        try:
            main()
        except SystemExit as error:
            # Any other words than that rows failed
            if isinstance(error.code, str):
                raise
            print("rows failed" * bool(error.code))
    return printed.getvalue()


class InFolder(unittest.TestCase):
    def setUp(self) -> None:
        self.path = Path(self.enterContext(tempfile.TemporaryDirectory()))


class Counted(InFolder):
    def digest(self, **how: Any) -> tuple[dict[str, Any], list[Any]]:
        write_run(self.path, **how)
        return counts.digest([self.path], AT, "qemu")

    def refusal(self, **how: Any) -> str:
        """Why the row failed."""
        rows, (run,) = self.digest(**how)
        self.assertNotIn(ROW, rows)
        return str(next(failure["error"] for failure in run["failures"] if failure["id"] == ROW))

    def test_sums(self) -> None:
        rows, _ = self.digest()
        row = rows[ROW]
        self.assertEqual(row["c"]["kernel"], 540)
        self.assertEqual(row["rust"]["kernel"], 380)
        self.assertEqual((row["c"]["own"], row["rust"]["own"]), (400, 250))
        self.assertEqual((row["raw"], row["copy"]), (15, 5))
        self.assertAlmostEqual(row["whole"], 380 / 540)
        self.assertAlmostEqual(row["ratio"], 365 / 525)
        self.assertEqual((row["c"]["locked"], row["rust"]["locked"]), (5, 3))
        self.assertEqual((row["c"]["user"], row["c"]["timer"], row["c"]["spread"]), (50, 1, 0))
        self.assertEqual(row["c"]["parts"][counts.ALLOCATION], 30)

    def test_the_switch_must_have_worked(self) -> None:
        self.assertIn("the switch said c", self.refusal(wrong=True))

    def test_processors_that_count_by_the_byte(self) -> None:
        for how, words in (({"memset": counts.MEMSET_BYTES + 7}, "memset.. of 144 bytes takes 151 .* FSRS"),
                           ({"user_steps": 0}, "would not notice")):
            with self.assertRaisesRegex(ValueError, words):
                self.digest(**how)
        self.assertIn("rep movsb or rep stosb in", self.refusal(steps=2))

    def test_memset_that_nobody_called(self) -> None:
        write_run(self.path)
        marks = counts.read_marks(self.path / "counts")
        with self.assertRaisesRegex(ValueError, "called memset.. 0 times"):
            counts.check_processor({"rep": 0, "memset": 0}, marks, AT)

    def test_no_io(self) -> None:
        row = next(row for row in bench_rows.all_rows("qemu") if row.id == ROW)
        with self.assertRaisesRegex(ValueError, "only 0 I/Os"):
            counts.window(row, (1, counts.NOTHING, {0x1001: (5, 1, 0, 0)}), AT)

    def test_dearer_raw_device_has_no_ratio(self) -> None:
        write_run(self.path)
        counted = self.path / "counts"
        # The last mark is that of the raw row.
        every, _, raw = counted.read_text().rpartition("mark")
        counted.write_text(every + "mark" + raw.replace(" 10000 1000", " 10000000 1000"))
        self.assertNotIn("ratio", counts.digest([self.path], AT, "qemu")[0][ROW])
        # It takes more than Rust, and less than C.
        counted.write_text(every + "mark" + raw.replace(" 10000 1000", " 450000 1000"))
        row = counts.digest([self.path], AT, "qemu")[0][ROW]
        self.assertLess(row["rust"]["added"], 0)
        self.assertGreater(row["c"]["added"], 0)
        self.assertNotIn("ratio", row)

    def test_what_ages_is_as_dear_on_both_sides(self) -> None:
        for repeats in count.REPEATS, count.REPEATS_JOURNAL:
            turns = count.in_turns(["c", "rust"], repeats)
            c, rust = (statistics.median(n for n, impl in enumerate(turns) if impl == side) for side in ("c", "rust"))
            self.assertEqual(c, rust, repeats)

    def test_parts(self) -> None:
        for part, name, where in (
                (counts.OWN, "whatever", "fs/iomap/direct_io_glue.o"),
                (counts.OWN, "kernel::iomap::x", "rust/kernel.o"),
                (counts.ALLOCATION, "bio_alloc_bioset", "block/bio.o"),
                ("block layer", "submit_bio", "block/blk-core.o"),
                ("memset, memcpy", "memcpy_orig", "arch/x86/lib/memcpy_64.o"),
                ("file system", "iomap_iter", "fs/iomap/iter.o"),
                ("io_uring, aio", "aio_read", "fs/aio.o"), (counts.REST, "ktime_get", "kernel/time/timekeeping.o")):
            self.assertEqual(counts.part(name, where), part, name)

    def test_report(self) -> None:
        write_run(self.path)
        with mock.patch.object(report, "picture", return_value=[]):
            printed = printed_by(count_report.main, self.path)
        for text in printed, (self.path / "report.md").read_text():
            for words in (r"registered 4k[ |]+540[ |]+380[ |]+0\.704[ |]+15[ |]+525[ |]+365[ |]+0\.695[ |]+3 / 4 %[ |]+"
                          r"2 / 3 %[ |]+400 / 250[ |]+5\.0 / 3\.0", "no luck", "1 of 2 rows",
                          r"ext4: Rust takes 0\.704 .* adds 0\.695", r"direct-io\.c[ |]+8,335"):
                self.assertRegex(text, words)
        self.assertIn("rows failed", printed)

    def test_profile(self) -> None:
        rows, _ = self.digest()
        entry = next(e for e in count_report.in_order(rows) if e["row"].id == ROW)
        text = report.plain("\n".join(by_function.table(entry)))
        self.assertRegex(text, r"direct_io::submit::submit +0\.0 +250\.0 +\+250\.0")
        self.assertRegex(text, r"kfree +30\.0 +20\.0 +-10\.0")
        self.assertRegex(text, r"c___iomap_dio_rw +3\.0 +0\.0 +-3\.0")
        # The greatest difference comes first.
        self.assertLess(text.index("c___iomap_dio_rw"), text.index("direct_io::submit"))
        self.assertIn("rows failed", printed_by(by_function.main, self.path))

    def test_refused_appends(self) -> None:
        row = next(row for row in bench_rows.all_rows() if row.kind == "nowait-append")
        entry = {"row": row, "c": {"again": 0.98}, "rust": {"again": 0.5}}
        self.assertIn("| ext4 | 98.0 % | 50.0 % |", count_report.refused([entry]))
        self.assertEqual(count_report.refused([]), [])

    def test_dearer_rows_are_named(self) -> None:
        rows, _ = self.digest()
        entry = {**count_report.in_order(rows)[-1], "ratio": 1.1}
        name = "1 dearer: random overwrite, io_uring, registered 4k (1.100"
        self.assertIn(name + ")", count_report.verdict("ext4", [entry]))
        chance = {**entry, "rust": {**entry["rust"], "spread": 0.2}}
        self.assertIn(name + ", spread 20.0 %)", count_report.verdict("ext4", [chance]))

    def test_shards(self) -> None:
        rows = bench_rows.all_rows("qemu")
        halves = [count.shard(rows, f"{i}/2") for i in (0, 1)]
        self.assertEqual(sorted(row.id for half in halves for row in half), sorted(row.id for row in rows))
        self.assertGreater(min(map(len, halves)), len(rows) // 3)


class Budget(InFolder):
    def setUp(self) -> None:
        super().setUp()
        self.figures = {ROW: {"own": 250.0, "added": 370.0}}

    def test_file(self) -> None:
        for figures in (self.figures, {**self.figures, "b/c/d": {"own": 1.0, "total": -3.5}, "xfs/c/d": {"own": 2.0}}):
            self.assertEqual(budget.read(budget.written(figures)), figures)

    def test_verdicts(self) -> None:
        made_of = {ROW: {"own": {"direct_io::submit::submit": 250.0}, "added": {"allocation": 20.0}}}
        for new, verdicts, words in (
                ({"own": 252.0, "added": 367.0}, ["ok", "ok"], ""),
                ({"own": 200.0}, ["better", "ok"], ""),
                ({"own": 262.0}, ["FAIL", "ok"], "direct_io::submit::submit 250"),
                ({"added": 390.0}, ["ok", "FAIL"], "allocation 20")):
            said = list(budget.check(self.figures, {ROW: {**self.figures[ROW], **new}}, made_of))
            self.assertEqual([verdict for verdict, *_ in said], verdicts)
            self.assertIn(words, " ".join(text for verdict, _, text in said if verdict == "FAIL"))

    def test_unsteady(self) -> None:
        for row_id, added, verdict in (
                (ROW, 380.0, "FAIL"), ("ext4/mix/fixedbufs/4k", 390.0, "ok"),
                ("f2fs/randread/fixedbufs/4k", 430.0, "FAIL"),
                ("xfs/cached-write/fixedbufs/4k/depth=8/on=irq", 390.0, "ok")):
            found = {row_id: {**self.figures[ROW], "added": added}}
            said = budget.check({row_id: self.figures[ROW]}, found, {row_id: {"added": {}}})
            self.assertEqual([v for v, *_ in said], ["ok", verdict], row_id)

    def test_total(self) -> None:
        figures = {ROW: {"own": 250.0, "total": 18000.0}}
        for found in ({ROW: {**figures[ROW], "total": 18500.0}}, self.figures):
            said = budget.check(figures, found, {ROW: {"total": {}}})
            self.assertEqual([v for v, *_ in said], ["ok", "FAIL"])

    def test_new_row(self) -> None:
        self.assertEqual(next(budget.check({}, self.figures, {}))[0], "FAIL")

    def test_the_committed_file(self) -> None:
        figures = budget.read((HERE / "budget").read_text())
        wanted = [row.id for row in bench_rows.select(bs=bench_rows.SHORT, machine="qemu")[0]
                  if row.fs != "raw" and budget.has_budget(row)]
        self.assertEqual(sorted(figures), sorted(wanted))
        for row in bench_rows.all_rows("qemu"):
            if row.id in figures:
                whole = bool({"added", "total"} & figures[row.id].keys())
                self.assertEqual(whole, not budget.up_to_chance(row), row.id)

    def test_again(self) -> None:
        """What is counted again replaces what failed, and what passed before stays."""
        passed = "xfs/randwrite/fixedbufs/4k"
        write_run(self.path)
        (self.path / "count.json").write_text(json.dumps(
            {"runs": [], "rows": {passed: counts.digest([self.path], AT, "qemu")[0][ROW]},
             "failures": [{"id": row_id, "error": "no luck"} for row_id in (ROW, "raw/append/psync/4k")]}))
        again = self.path / "again"
        again.write_text(ROW)
        for own, failed in ((200.0, [ROW]), (250.0, [])):
            row = {"own": 250.0, "added": 365.0}
            (self.path / "budget").write_text(budget.written({ROW: {**row, "own": own}, passed: row}))
            said = printed_by(budget.main, self.path, f"--budget={self.path / 'budget'}", f"--again={again}")
            # The last failure is that of write_run().
            self.assertEqual(again.read_text().split(","), [*failed, "raw/append/psync/4k", "xfs/append/psync/4k"])
            self.assertIn(f"{4 - len(failed)} passed, {2 + len(failed)} failed", said)
            self.assertNotIn(passed, said)


class Find(unittest.TestCase):
    def test_by_id(self) -> None:
        self.assertEqual([row.id for row in bench_rows.by_id(ROW, "qemu")], [RAW, ROW])
        of_raw = {row.id for row in bench_rows.by_id(RAW, "qemu")}
        self.assertLess({RAW, ROW, ROW.replace("ext4", "xfs")}, of_raw)
        with self.assertRaisesRegex(ValueError, "no/such"):
            bench_rows.by_id(f"{ROW},no/such", "qemu")

    def test_words(self) -> None:
        found = bench_rows.find("ext4 overwrite 4k registered", "qemu")
        self.assertEqual([row.id for row in found], [ROW])
        found = bench_rows.find("ext4 overwrite 4k registered irq", "qemu")
        self.assertEqual({row.on for row in found}, {"irq"})
        for words, why in (("ext4 sideways", "sideways"), ("ext4 bounce", "no row")):
            with self.assertRaisesRegex(ValueError, why):
                bench_rows.find(words, "qemu")


class Seeds(InFolder):
    def tables(self, rows: dict[str, Any]) -> Iterator[tuple[str, list[str], list[str]]]:
        """(title, head, line) of each line of each experiment."""
        for function, title, _, head in seeds.EXPERIMENTS:
            lines = list(function(seeds.Results(rows)))
            self.assertTrue(lines, title)
            yield from ((title, head, line) for line in lines)

    def test_tables(self) -> None:
        """Every experiment finds the rows that it asks for."""
        side = {"kernel": 5000.0, "user": 500.0}
        rows = {row.id: {"c": side, "rust": side} for row in bench_rows.all_rows("seeds")}
        for title, head, line in self.tables(rows):
            self.assertEqual(len(line), len(head), title)
            self.assertNotIn("failed", " ".join(line), title)

    def test_missing_row(self) -> None:
        for title, _, line in self.tables({}):
            self.assertIn("failed", " ".join(line), title)
        with mock.patch.multiple(count_report, facts=lambda _: [], document=lambda *_: {
                "rows": {}, "failures": [{"id": ROW, "error": "no luck"}]}):
            self.assertIn("rows failed", printed_by(seeds.main, self.path))


class Device(unittest.TestCase):
    """What a device itself is refused for test_disk.py tests, and device_guest.py in a guest."""

    def refusal(self, user: int = 0) -> str:
        with mock.patch("os.geteuid", return_value=user), mock.patch.object(device, "name_of", return_value="x"), \
                self.assertRaises(device.Refused) as caught:
            device.check("/dev/x", "")
        self.assertNotIn("\n", str(caught.exception))
        return str(caught.exception)

    def test_not_root(self) -> None:
        self.assertIn("sudo", self.refusal(1000))

    def test_no_switch(self) -> None:
        with mock.patch.object(load, "SWITCH", Path("/nowhere")):
            self.assertIn("CONFIG_IOMAP_DIO_COMPARE", self.refusal())

    def test_no_program(self) -> None:
        with mock.patch.object(load, "SWITCH", Path("/")), mock.patch("shutil.which", return_value=None):
            self.assertIn("apt-get install fio", self.refusal())

    def test_one_line(self) -> None:
        done = subprocess.run([sys.executable, "-B", HERE / "device.py", "--device=/dev/nothing", "--out=/tmp/nowhere"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_percentiles(self) -> None:
        bins = {1000: 98, 5000: 1, 90000: 1}
        self.assertEqual([device.percentile(bins, share) for share in (0.5, 0.99, 0.999)], [1, 5, 90])
        self.assertIsNone(device.percentile({}, 0.5))

    def test_job_with_the_clock(self) -> None:
        row = bench_rows.Row("ext4", "unwritten", "io_uring", "4k")
        job = device.latency_job(row, mock.Mock(path="/x", size=1 << 20, own=True))
        self.assertIn("--gtod_reduce=0", job)
        self.assertIn("--time_based=0", job)
        self.assertNotIn("--gtod_reduce=1", job)
