# SPDX-License-Identifier: GPL-2.0
"""Tests of hog.py and hog_report.py."""

import unittest

import hog
import hog_report


class Hog(unittest.TestCase):
    def test_percentiles(self) -> None:
        self.assertEqual(hog.percentiles([*range(1000, 0, -1)]), {"p50": 501, "p99": 991, "p99.9": 1000})

    def test_who_waits_for_the_hog(self) -> None:
        def row(kind: str, slowest: int) -> dict[str, object]:
            side = {"idle": {"p50": 1, "p99": 1, "p99.9": 10}, "hog": {"p50": 1, "p99": 1, "p99.9": slowest}}
            return {"fs": "xfs", "kind": kind, "c": side, "rust": side}

        doc = {"rows": [row("unwritten", 20), row("append", 21), row("dsync", 1000)]}
        self.assertEqual([r["kind"] for r in hog_report.late(doc)], ["append"])
        self.assertIn("2.10", hog_report.table(doc)[3])
