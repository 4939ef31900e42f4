# SPDX-License-Identifier: GPL-2.0
"""Unit tests of the ablation: do its patches fit, and what is made of what was counted."""

import contextlib
import io
import json
import shutil
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import ablate_report
import ablations
import counts
from test_counts import AT, RAW, ROW, write_run

PROJECT = Path(__file__).resolve().parents[4]


class Patches(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name)

    def checkout(self, name: str) -> Path:
        for top in ("fs", "rust"):
            shutil.copytree(PROJECT / top, self.path / name / top)
        return self.path / name

    def test_all_fit(self) -> None:
        for name, patches in ablations.VARIANTS.items():
            with self.subTest(name):
                ablations.apply(name, self.checkout(name))
                self.assertEqual(list((self.path / name).rglob("*.orig")), [])
            self.assertEqual([patch for patch in patches if not ablations.says(patch).endswith(".")], [])

    def test_none_is_forgotten(self) -> None:
        used = {patch for patches in ablations.VARIANTS.values() for patch in patches}
        self.assertEqual(used, {path.stem for path in ablations.FOLDER.iterdir()})

    def test_one_that_does_not_fit(self) -> None:
        folder = self.checkout("changed")
        (folder / "rust/kernel/iomap/iter.rs").write_text("// nothing\n")
        with self.assertRaisesRegex(SystemExit, r"^error: .*/one-call.patch does not fit rust/kernel/iomap/iter.rs"):
            ablations.apply("one-call", folder)
        (folder / "rust/kernel/iomap/iter.rs").unlink()
        with self.assertRaisesRegex(SystemExit, "does not fit the checkout any more$"):
            ablations.apply("one-call", folder)


class Report(unittest.TestCase):
    def run_variant(self, folder: str, variant: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as printed, \
                mock.patch.object(counts, "functions_of", return_value=AT), \
                mock.patch.object(counts, "text_of", return_value={}), \
                mock.patch("sys.argv", ["", folder, f"--build={folder}", "--llvm=1", f"--out={folder}/out",
                                        f"--variant={variant}"]):
            ablate_report.main()
        return printed.getvalue()

    def test_report(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            said: dict[str, Any] = {}
            for variant in ablations.VARIANTS:
                write_run(Path(folder))
                run = json.loads((path := Path(folder, "run.json")).read_text())
                if variant != ablations.AS_IT_IS:
                    run["rows"] = [row for row in run["rows"] if row["id"] != RAW]
                path.write_text(json.dumps(run))
                if variant == ablations.LIKE_C:
                    # One function takes more: what the plugin counted is for 1000 I/Os.
                    counted = Path(folder, "counts").read_text().replace(" 250000 ", " 390000 ")
                    Path(folder, "counts").write_text(counted)
                said[variant] = self.run_variant(folder, variant)
            # The report comes when all are there.
            self.assertEqual({name for name, text in said.items() if text}, {ablations.LIKE_C})
            text = said[ablations.LIKE_C]
            self.assertRegex(text, r"registered 4k +525 +365 +160 +\+0 +\+0 +\+0 +\+0 +\+0 +\+0 +\+140\n")
            self.assertRegex(text, r"registered 4k +0\.695 .* 0\.962\n")
            self.assertRegex(text, r"registered 4k +\+10 +\+10 +\+0")
            rows = json.loads(Path(folder, "out/ablate.json").read_text())["rows"]
            self.assertEqual([*rows], [ROW])

    def test_a_row_that_failed_once_is_left_out(self) -> None:
        side = {"kernel": 20.0, "added": 10.0, "parts": {}}
        whole = {"rows": {ROW: {"c": side, "rust": side, "raw": 10.0, "ratio": 1.0}}}
        self.assertEqual([*ablate_report.merged(dict.fromkeys(ablations.VARIANTS, whole))], [ROW])
        self.assertEqual(ablate_report.merged({**dict.fromkeys(ablations.VARIANTS, whole),
                                               ablations.LIKE_C: {"rows": {}}}), {})
