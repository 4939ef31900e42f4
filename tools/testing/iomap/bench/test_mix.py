# SPDX-License-Identifier: GPL-2.0
"""Tests of mix.py: the table in census is that of the example, and a census picks rows."""

import json
import re
import tempfile
import unittest
from pathlib import Path

import mix
import rows as bench_rows

EXAMPLE = Path(__file__).with_name("example") / "count.md"


def example() -> dict[str, tuple[int, int]]:
    """C and Rust of the rows in count.md."""
    names = {(bench_rows.FILESYSTEMS[row.fs], bench_rows.KINDS[row.kind], row.label): row.id
             for row in bench_rows.all_rows("qemu")}
    found, system = {}, ""
    for line in EXAMPLE.read_text().splitlines():
        if line.startswith("## "):
            system = line[3:]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) > 4 and (system, *cells[:2]) in names and cells[3]:
            c, rust = (int(cell.replace(",", "")) for cell in cells[2:4])
            found[names[system, cells[0], cells[1]]] = c, rust
    return found


class Mix(unittest.TestCase):
    def test_census_has_the_example(self) -> None:
        counted = example()
        self.assertGreater(len(counted), 200)
        found = mix.TABLE.search(mix.CENSUS.read_text())
        assert found
        self.assertEqual(found[2], mix.table(counted))
        for entry in (r"\next4/randread/libaio 4k \d+ \d+", r" 4k/depth=32/on=irq \d+ \d+\b"):
            self.assertRegex(found[2], entry)

    def test_bad_traces(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "census.json"
            for text, words in ((None, "No such file"), ("", "not what"), ("[]", "not what"),
                                ('{"rows": {}}', "no request"),
                                ('{"rows": {"ext4/sideways": 1}}', "no row ext4/sideways")):
                if text is not None:
                    path.write_text(text)
                with self.assertRaisesRegex(SystemExit, f"^error: .*{re.escape(words)}"):
                    mix.requests_of(str(path))
            path.write_text(json.dumps({"rows": {"xfs/randread/psync/4k": 3}}))
            self.assertEqual(mix.requests_of(str(path)), {"xfs/randread/psync/4k": 3})

    def test_sum(self) -> None:
        """Weighted by the requests; a row that failed is left out."""
        said = mix.summary({"a": 3, "b": 1, "failed": 9}, {
            "a": {"c": {"kernel": 100.0}, "rust": {"kernel": 50.0}},
            "b": {"c": {"kernel": 500.0}, "rust": {"kernel": 550.0}},
            "failed": {"c": {"kernel": 1.0}}})
        self.assertIn("   75.0 %  a\n", said)
        self.assertTrue(said.endswith("C 200, Rust 175, Rust/C 0.875"), said)
