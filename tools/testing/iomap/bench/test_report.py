#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Unit tests of the benchmark's filter, statistics and report: python3 bench/test_report.py"""

import random
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import report  # noqa: E402
import rows as bench_rows  # noqa: E402
import stats  # noqa: E402


def samples(ratio, noise, rounds=9, seed=3, base=100e3, sides=("c", "rust")):
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


def run_of(rows, ratio=1.05, sides=("c", "rust")):
    return {"rows": [{"id": row.id, "fio": ["fio"], "fio_share": 1.0, "wall": 1.0, "rounds": 9,
                      "samples": samples(ratio, 0.01, sides=("c",) if row.fs == "raw" else sides)}
                     for row in rows],
            "failures": [], "left_out": [], "seconds": 61.0,
            "kernel": {"release": "7.3.0", "machine": "x86_64"},
            "guest": {"cpus": 2, "fio": "fio-3.39"},
            "settings": {"budget": 2}}


class Filter(unittest.TestCase):
    def test_all(self):
        rows, notes = bench_rows.select()
        self.assertEqual(len(rows), len(bench_rows.all_rows()))
        self.assertEqual(notes, [])
        self.assertEqual(len({row.id for row in rows}), len(rows))

    def test_every_row_of_the_issue(self):
        ids = {row.id for row in bench_rows.all_rows()}
        for fs in ("raw", "ext4", "xfs"):
            for kind in ("randread", "randwrite"):
                for engine in bench_rows.ENGINES:
                    for bs in ("4k", "16k", "64k", "1M"):
                        self.assertIn(f"{fs}/{kind}/{engine}/{bs}", ids)
        for fs in ("ext4", "xfs"):
            for name in ("unwritten/io_uring/4k", "dsync/psync/4k", "subblock/psync/2k"):
                self.assertIn(f"{fs}/{name}", ids)
        self.assertIn("xfs/bounce-read/io_uring/64k", ids)
        self.assertIn("xfs/bounce-write/io_uring/1M", ids)
        self.assertNotIn("ext4/bounce-read/io_uring/4k", ids)

    def test_ceilings_exist(self):
        ids = {row.id for row in bench_rows.all_rows()}
        for row in bench_rows.all_rows():
            self.assertIn(row.raw_id, ids)

    def test_ceiling_comes_along(self):
        rows, _ = bench_rows.select(fs="xfs", io="bounce", bs="4k")
        self.assertEqual({row.id for row in rows},
                         {"xfs/bounce-read/io_uring/4k", "xfs/bounce-write/io_uring/4k",
                          "raw/randread/io_uring/4k", "raw/randwrite/io_uring/4k"})

    def test_engine_and_kind(self):
        rows, _ = bench_rows.select(fs="ext4", io="libaio,randread", bs="4k,1M")
        self.assertEqual({row.id for row in rows if row.fs == "ext4"},
                         {"ext4/randread/libaio/4k", "ext4/randread/libaio/1M"})

    def test_case_and_spaces(self):
        self.assertEqual(bench_rows.select(fs="XFS, Ext4", bs="1m")[0],
                         bench_rows.select(fs="xfs,ext4", bs="1M")[0])

    def test_unknown_name(self):
        for key, value in (("fs", "ext3"), ("io", "uring"), ("bs", "8k")):
            with self.assertRaises(ValueError) as caught:
                bench_rows.select(**{key: value})
            text = str(caught.exception)
            self.assertIn(f"{key.upper()}={value}", text)
            self.assertIn("valid are", text)
            self.assertNotIn("\n", text)

    def test_no_match(self):
        with self.assertRaises(ValueError) as caught:
            bench_rows.select(io="dsync", bs="1M")
        self.assertNotIn("\n", str(caught.exception))

    def test_quick(self):
        quick, notes = bench_rows.select(quick=True)
        self.assertTrue(notes)
        for what in ("kind", "engine"):
            self.assertEqual({getattr(row, what) for row in quick},
                             {getattr(row, what) for row in bench_rows.all_rows()})
        # a size asked for by name is not taken away by QUICK
        self.assertTrue(bench_rows.select(bs="1M", quick=True)[0])

    def test_notes_name_all_that_is_left_out(self):
        kept, notes = bench_rows.select(fs="ext4", io="psync")
        named = set()
        for line in notes[1:]:
            systems, rest, sizes = line.strip().split(": ")
            kind, engines = rest.split(" ", 1)
            named |= {f"{fs}/{kind}/{engine}/{bs}" for fs in systems.split()
                      for engine in engines.split(", ") for bs in sizes.split()}
        everything = {row.id for row in bench_rows.all_rows()}
        self.assertEqual(named, everything - {row.id for row in kept})

    def test_command(self):
        done = subprocess.run([sys.executable, "-B", HERE / "rows.py", "--fs=ufs"],
                              capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)


class Statistics(unittest.TestCase):
    def test_interval_of_equal_values(self):
        self.assertEqual(stats.bootstrap([1.5] * 7), (1.5, 1.5))

    def test_interval_is_repeatable(self):
        values = [1.0, 1.1, 0.9, 1.2, 1.05]
        self.assertEqual(stats.bootstrap(values), stats.bootstrap(values))

    def test_interval_covers(self):
        """Of many experiments with a known median, nearly all intervals hold it."""
        rng = random.Random(5)
        held = 0
        for number in range(100):
            low, high = stats.bootstrap([rng.gauss(1.03, 0.02) for _ in range(9)], seed=number)
            held += low <= 1.03 <= high
        self.assertGreaterEqual(held, 88)

    def test_no_samples(self):
        with self.assertRaises(ValueError):
            stats.bootstrap([])

    def test_pairing_cancels_drift(self):
        got = stats.summary(samples(1.04, 0.002))
        self.assertAlmostEqual(got["ratio"]["median"], 1.04, delta=0.005)
        self.assertLess(got["ratio"]["spread"], 0.01)
        self.assertGreater(got["c"]["spread"], 0.03)
        self.assertGreater(got["ratio"]["low"], 1)

    def test_one_side(self):
        got = stats.summary(samples(1, 0.01, sides=("c",)))
        self.assertNotIn("ratio", got)
        self.assertNotIn("rust", got)

    def test_spread(self):
        self.assertEqual(stats.spread([5]), 0)
        self.assertAlmostEqual(stats.spread([90, 95, 100, 105, 110]), 0.05)

    def test_cpu_per_io(self):
        got = stats.summary(samples(1, 0, rounds=1))
        self.assertAlmostEqual(got["c"]["sys_us"], 1e6 * 0.08 / 10000)

    def test_half_a_round_is_no_pair(self):
        self.assertEqual(stats.pairs([{"pair": 0, "impl": "c", "iops": 1.0}]), [])

    def test_geomean(self):
        self.assertAlmostEqual(stats.geomean([0.5, 2.0]), 1)
        self.assertIsNone(stats.geomean([]))


class Report(unittest.TestCase):
    def setUp(self):
        self.run_both = run_of(bench_rows.select(io="io_uring", bs="4k")[0])

    def test_table(self):
        text = report.text_table(report.digest(self.run_both))
        self.assertIn("ext4", text)
        self.assertIn("XFS", text)
        self.assertRegex(text, r"io_uring 4k .* 1\.0\d\d ")
        self.assertNotIn("registered", text)

    def test_table_of_one_side(self):
        run = run_of(bench_rows.select(io="io_uring", bs="4k")[0], sides=("c",))
        entries = report.digest(run)
        self.assertIn("nothing to compare", report.text_table(entries))
        self.assertFalse(any("ratio" in e for e in entries))

    def test_raw_only(self):
        text = report.text_table(report.digest(run_of(bench_rows.select(fs="raw", bs="4k")[0])))
        self.assertIn("block device", text)

    def test_of_raw(self):
        entry = [e for e in report.digest(self.run_both) if e["row"].fs == "xfs"][0]
        self.assertAlmostEqual(entry["of_raw"], entry["rust"]["iops"] / entry["raw"])

    def test_verdict(self):
        v = report.verdict(report.digest(self.run_both))
        self.assertEqual(v["slower"], 0)
        self.assertAlmostEqual(v["geomean"], 1.05, delta=0.01)

    def test_markdown_says_what_is_missing(self):
        run = self.run_both
        run["failures"] = [{"id": "xfs/dsync/psync/4k", "error": "no luck"}]
        run["left_out"] = ["10 of 20 rows"]
        doc = {"run": run, "date": "2026-01-01T00:00:00Z", "config": {}, "git": {},
               "machine": {"cpu": "x", "cores": 2, "memory_gb": 1}}
        text = report.markdown(doc, report.digest(run), [])
        self.assertIn("no luck", text)
        self.assertIn("10 of 20 rows", text)

    def test_numbers(self):
        self.assertEqual(report.kilo(840), "0.84k")
        self.assertEqual(report.kilo(4210), "4.21k")
        self.assertEqual(report.kilo(341234), "341.2k")
        self.assertEqual(report.kilo(None), "")


if __name__ == "__main__":
    unittest.main()
