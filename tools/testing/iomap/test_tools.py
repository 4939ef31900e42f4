#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of what the scripts of this folder share."""

import subprocess
import sys
import unittest
from pathlib import Path

from only import matches

HERE = Path(__file__).resolve().parent


class Only(unittest.TestCase):
    def test_no_pattern_means_everything(self) -> None:
        self.assertTrue(matches("check/flags", []))

    def test_glob_is_of_the_whole_name(self) -> None:
        self.assertTrue(matches("xfs/rust/mix-sync", ["xfs/*/mix*"]))
        self.assertFalse(matches("diff/xfs/rust/mix-sync", ["xfs/*/mix*"]))

    def test_part_of_a_name(self) -> None:
        self.assertTrue(matches("xfs/rust/mix-sync", ["other", "rust/mix"]))
        self.assertFalse(matches("xfs/rust/mix-sync", ["Rust"]))

    def test_from_a_script(self) -> None:
        said = subprocess.run([sys.executable, HERE / "only.py", "arm", "*-rt"], input="arm64\nx86\nx86-rt\n",
                              capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout, "arm64\nx86-rt\n")


if __name__ == "__main__":
    unittest.main()
