# SPDX-License-Identifier: GPL-2.0
"""Unit tests of the ablation: do its patches fit, and what is made of what was counted."""

import json
import shutil
from pathlib import Path
from typing import Any

import ablate_report
import ablations
from test_counts import RAW, ROW, InFolder, printed_by, write_run

PROJECT = Path(__file__).resolve().parents[4]


class Patches(InFolder):
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


class Report(InFolder):
    def test_report(self) -> None:
        said: dict[str, Any] = {}
        for variant in ablations.VARIANTS:
            write_run(self.path)
            run = json.loads((path := self.path / "run.json").read_text())
            if variant != ablations.AS_IT_IS:
                run["rows"] = [row for row in run["rows"] if row["id"] != RAW]
            path.write_text(json.dumps(run))
            if variant == ablations.LIKE_C:
                # One function takes more: what the plugin counted is for 1000 I/Os.
                counted = self.path / "counts"
                counted.write_text(counted.read_text().replace(" 250000 ", " 390000 "))
            said[variant] = printed_by(ablate_report.main, self.path, f"--variant={variant}")
        # The report comes when all are there.
        self.assertEqual({name for name, text in said.items() if text}, {ablations.LIKE_C})
        text = said[ablations.LIKE_C]
        self.assertIn("rows failed", text)
        self.assertRegex(text, r"registered 4k +525 +365 +160( +\+0){9} +\+140\n")
        self.assertRegex(text, r"registered 4k +0\.695 .* 0\.962\n")
        self.assertRegex(text, r"registered 4k +\+10 +\+10 +\+0")
        self.assertEqual([*json.loads((self.path / "ablate.json").read_text())["rows"]], [ROW])

    def test_a_row_that_failed_once_is_left_out(self) -> None:
        side = {"kernel": 20.0, "added": 10.0, "parts": {}}
        whole = {"rows": {ROW: {"c": side, "rust": side, "raw": 10.0, "ratio": 1.0}}}
        self.assertEqual([*ablate_report.merged(dict.fromkeys(ablations.VARIANTS, whole))], [ROW])
        self.assertEqual(ablate_report.merged({**dict.fromkeys(ablations.VARIANTS, whole),
                                               ablations.LIKE_C: {"rows": {}}}), {})
