# SPDX-License-Identifier: GPL-2.0
"""Unit tests of the benchmark's filter, statistics and report."""

import argparse
import contextlib
import io
import random
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import rows as bench_rows
import stats

import report

HERE = Path(__file__).resolve().parent


def samples(ratio: float, noise: float, rounds: int = 9, seed: int = 3, base: float = 100e3,
            sides: Sequence[str] = ("c", "rust")) -> list[dict[str, Any]]:
    """Rounds with a drift that both sides share, and noise that they do not."""
    rng = random.Random(seed)
    out = []
    for pair in range(rounds):
        drift = 1 + 0.3 * pair / rounds
        for impl in sides:
            iops = base * drift * rng.gauss(1, noise) * (ratio if impl == "rust" else 1)
            out.append({"pair": pair, "impl": impl, "iops": iops, "ios": iops * 0.1,
                        "seconds": 0.1, "usr": 0.02, "sys": 0.08})
    return out


def run_of(rows: list[bench_rows.Row], ratio: float = 1.05, sides: Sequence[str] = ("c", "rust")) -> dict[str, Any]:
    return {"rows": [{"id": row.id, "fio": ["fio"], "fio_share": 1.0, "rounds": 9,
                      "samples": samples(ratio, 0.01, sides=("c",) if row.fs == "raw" else sides)}
                     for row in rows],
            "failures": [{"id": "xfs/dsync/psync/4k", "error": "no luck"}], "left_out": ["10 of 20 rows"],
            "seconds": 61.0, "kernel": {"release": "7.3.0", "machine": "x86_64"},
            "guest": {"cpu": "PC", "cpus": 2, "fio": "fio-3.39"},
            "settings": {"budget": 2}}


class Filter(unittest.TestCase):
    def test_all(self) -> None:
        for machine in bench_rows.MACHINES:
            rows, notes = bench_rows.select(machine=machine)
            self.assertEqual(len(rows), len(bench_rows.all_rows(machine)))
            self.assertEqual(notes, [])
            self.assertEqual(len({row.id for row in rows}), len(rows))

    def test_rows_of_a_machine(self) -> None:
        timed, counted = ({row.id for row in bench_rows.all_rows(machine)} for machine in ("device", "qemu"))
        wanted = {f"{fs}/{kind}/{engine}/{bs}" for fs in ("raw", "ext4", "xfs") for kind in ("randread", "randwrite")
                  for engine in bench_rows.ENGINES if engine != "vector" for bs in ("4k", "16k", "64k", "1M")}
        wanted |= {f"{fs}/{name}" for fs in ("ext4", "xfs")
                   for name in ("unwritten/io_uring/4k", "dsync/psync/4k", "subblock/psync/2k")}
        wanted |= {"xfs/bounce-read/io_uring/64k", "xfs/bounce-write/io_uring/1M"}
        self.assertEqual(wanted - timed, set())
        wanted = {"ext4/unwritten/fixedbufs/16k/depth=8/on=irq",
                  "raw/randwrite/fixedbufs/16k/depth=8/on=irq",
                  "xfs/randread/vector/1M", "ext4/randread/io_uring/1M/memory=huge",
                  "raw/log/fixedbufs/4k/depth=1/on=irq-fua", "btrfs-csum/randwrite/fixedbufs/16k",
                  "xfs/reflinked/fixedbufs/4k"}
        self.assertEqual(wanted - counted, set())
        self.assertNotIn("ext4/bounce-read/fixedbufs/4k", counted)

    def test_ceilings_exist(self) -> None:
        for machine in ("qemu", "device"):
            rows = bench_rows.all_rows(machine)
            self.assertEqual({row.raw for row in rows} - set(rows), set())

    def test_ceiling_comes_along(self) -> None:
        rows, _ = bench_rows.select(fs="xfs", io="bounce", bs="4k")
        self.assertEqual({row.id for row in rows},
                         {"xfs/bounce-read/fixedbufs/4k", "xfs/bounce-write/fixedbufs/4k",
                          "raw/randread/fixedbufs/4k", "raw/randwrite/fixedbufs/4k",
                          "xfs/bounce-read/io_uring/4k", "raw/randread/io_uring/4k"})

    def test_engine_and_kind(self) -> None:
        rows, _ = bench_rows.select(fs="ext4", io="libaio,randread", bs="4k,16k")
        self.assertEqual({row.id for row in rows if row.fs == "ext4"},
                         {"ext4/randread/libaio/4k", "ext4/randread/libaio/16k"})

    def test_a_device_at_a_time(self) -> None:
        devices = [row.device for row in bench_rows.all_rows()]
        changes = sum(one != other for one, other in pairwise(devices))
        self.assertEqual(changes, len(set(devices)) - 1)

    def test_case_and_spaces(self) -> None:
        self.assertEqual(bench_rows.select(fs="XFS, Ext4", bs="1m")[0],
                         bench_rows.select(fs="xfs,ext4", bs="1M")[0])

    def test_one_line_for_a_mistake(self) -> None:
        for names, words in (({"fs": "ext3"}, "FS=ext3: unknown; valid are"),
                             ({"io": "uring"}, "IO=uring: unknown; valid are"),
                             ({"bs": "9k"}, "BS=9k: unknown; valid are"),
                             ({"io": "dsync-fua", "bs": "1M"}, "no row matches IO=dsync-fua BS=1M")):
            with self.assertRaises(ValueError) as caught:
                bench_rows.select(**names)  # type: ignore[arg-type]
            self.assertTrue(str(caught.exception).startswith(words), caught.exception)
            self.assertNotIn("\n", str(caught.exception))

    def test_quick(self) -> None:
        quick, notes = bench_rows.select(quick=True)
        self.assertTrue(notes)
        for what in ("kind", "engine"):
            self.assertEqual({getattr(row, what) for row in quick},
                             {getattr(row, what) for row in bench_rows.all_rows()})
        # a size asked for by name is not taken away by QUICK
        self.assertTrue(bench_rows.select(bs="1M", quick=True)[0])

    def test_notes_name_all_that_is_left_out(self) -> None:
        kept, notes = bench_rows.select(fs="ext4", io="psync", machine="device")
        named = {name.replace("/", f"/{line.strip().split(':')[0]}/", 1) for line in notes[1:]
                 for name in line.split()[1:]}
        everything = {row.id for row in bench_rows.all_rows("device")}
        self.assertEqual(named, everything - {row.id for row in kept})

    def test_command(self) -> None:
        done = subprocess.run([sys.executable, "-B", HERE / "rows.py", "--fs=ufs"],
                              capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)


class Statistics(unittest.TestCase):
    def test_interval_of_equal_values(self) -> None:
        self.assertEqual(stats.bootstrap([1.5] * 7), (1.5, 1.5))

    def test_interval_is_repeatable(self) -> None:
        values = [1.0, 1.1, 0.9, 1.2, 1.05]
        self.assertEqual(stats.bootstrap(values), stats.bootstrap(values))

    def test_interval_covers(self) -> None:
        """Of many experiments with a known median, nearly all intervals hold it."""
        rng = random.Random(5)
        held = 0
        for number in range(100):
            low, high = stats.bootstrap([rng.gauss(1.03, 0.02) for _ in range(9)], seed=number)
            held += low <= 1.03 <= high
        self.assertGreaterEqual(held, 88)

    def test_pairing_cancels_drift(self) -> None:
        got = stats.summary(samples(1.04, 0.002))
        self.assertAlmostEqual(got["ratio"]["median"], 1.04, delta=0.005)
        self.assertLess(got["ratio"]["spread"], 0.01)
        self.assertGreater(got["c"]["spread"], 0.03)
        self.assertGreater(got["ratio"]["low"], 1)

    def test_one_side(self) -> None:
        got = stats.summary(samples(1, 0.01, sides=("c",)))
        self.assertNotIn("ratio", got)
        self.assertNotIn("rust", got)

    def test_spread(self) -> None:
        self.assertEqual(stats.spread([5]), 0)
        self.assertAlmostEqual(stats.spread([90, 95, 100, 105, 110]), 0.05)

    def test_cpu_per_io(self) -> None:
        got = stats.summary(samples(1, 0, rounds=1))
        self.assertAlmostEqual(got["c"]["sys_us"], 1e6 * 0.08 / 10000)

    def test_half_a_round_is_no_pair(self) -> None:
        self.assertEqual(stats.pairs([{"pair": 0, "impl": "c", "iops": 1.0}]), [])


class Report(unittest.TestCase):
    def digest(self) -> list[report.Entry]:
        return report.digest(run_of(bench_rows.select(io="io_uring", bs="4k", machine="device")[0]))

    def report(self, **rows: Any) -> tuple[str, str]:
        """What is written and what is printed."""
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
            args = argparse.Namespace(out=Path(folder), date="2026-01-01T00:00:00Z", commit="", dirty=False)
            with mock.patch.object(report, "picture", return_value=["![a picture](bench.png)"]):
                report.write(run_of(bench_rows.select(**rows, machine="device")[0]), args, Path("/nowhere"))
            return (Path(folder) / "report.md").read_text(), printed.getvalue()

    def test_report(self) -> None:
        written, printed = self.report(io="io_uring", bs="4k")
        for text in written, printed:
            for words in ("ext4: Rust/C 1.0", "XFS", "no luck", "10 of 20 rows"):
                self.assertIn(words, text)
            self.assertNotIn("registered", text)
        self.assertRegex(written, r"\| random read \| io_uring 4k \| [^|]* \| [^|]* \| 1\.0\d\d \|")
        self.assertRegex(printed, r"random read +io_uring 4k .* 1\.0\d\d ")
        self.assertIn("](bench.png)", written)
        self.assertNotIn("](bench.png)", printed)

    def test_raw_only(self) -> None:
        self.assertIn("## block device", self.report(fs="raw", bs="4k")[1])

    def test_of_raw(self) -> None:
        entry = next(e for e in self.digest() if e["row"].fs == "xfs")
        self.assertAlmostEqual(entry["of_raw"], entry["rust"]["iops"] / entry["raw"])

    def test_verdict(self) -> None:
        self.assertRegex(report.verdict("all", self.digest()), r"Rust/C 1\.0[456].* 0 slower")

    def test_plain(self) -> None:
        table = report.markdown_table(("a", "number"), [("**b**", "1"), ("&emsp;`longer than that`", "")], 1)
        self.assertEqual(report.plain("\n".join(["text", *table]), widest=8),
                         "text\na         number\nb              1\n…an that")

    def test_numbers(self) -> None:
        for iops, text in ((840, "0.84k"), (4210, "4.21k"), (341234, "341.2k"), (None, "")):
            self.assertEqual(report.kilo(iops), text)
