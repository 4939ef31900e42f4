# SPDX-License-Identifier: GPL-2.0
"""Tests of cover.py: what README.md and the manual say comes into the cover letter, in lines of a mail."""

import re
import shutil
import tempfile
import unittest
from pathlib import Path

import cover

FSTESTS = """\
Result
======

====  ===
name  run
====  ===
ext4  12
====  ===

More
"""


class Cover(unittest.TestCase):
    def setUp(self) -> None:
        self.project = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.readme = self.project / "README.md"
        shutil.copytree(cover.PROJECT / "patches", self.project / "patches")
        shutil.copytree(cover.PROJECT / "Documentation", self.project / "Documentation")
        shutil.copy(cover.PROJECT / "README.md", self.readme)
        (self.project / cover.FSTESTS).unlink(missing_ok=True)

    def test_lines_are_short(self) -> None:
        for text in (cover.whole(self.project), cover.small(self.project)):
            self.assertEqual([line for line in text.splitlines() if len(line) > cover.WIDTH], [])
            # The first paragraph is a subject.
            self.assertTrue(re.match(r"[^\n]{1,60}\n\n", text))

    def test_every_row_and_verdict(self) -> None:
        shown = self.readme.read_text().split(" results -->")[1]
        text = cover.whole(self.project)
        rows = [line.split(" | ") for line in shown.splitlines() if re.match(r"\| (ext4|XFS),", line)]
        self.assertGreater(len(rows), 10)
        for row in rows:
            self.assertRegex(text, r" +".join(map(re.escape, row[4:7])), row[0])
        self.assertEqual(text.count("(geometric"), shown.count("(geometric"))

    def test_numbers_of_bugs_and_limits(self) -> None:
        text = " ".join(cover.whole(self.project).split())
        self.assertRegex(text, r"since 4\.10\. Of \d+ entries, \d+ are brought back")
        for first in ("Linux 7.3 only.", "User Mode Linux has no huge pages"):
            self.assertIn(f"* {first}", text)
        # Not the section behind it.
        self.assertNotIn("Licence", text)

    def test_fstests(self) -> None:
        self.assertIn("* fstests were not run", cover.whole(self.project))
        (self.project / cover.FSTESTS).write_text(FSTESTS)
        text = cover.whole(self.project)
        self.assertNotIn("not run for", text)
        self.assertIn("\nfstests\n=======\n\n====  ===\nname  run\n====  ===\next4  12\n====  ===\n\n", text)

    def test_small_patches(self) -> None:
        text = cover.small(self.project)
        for patch in cover.patches("c"):
            self.assertIn(f"\n{cover.subject(patch)}\n", text)
            # They apply without the others only if none brings Rust.
            self.assertNotRegex(patch.read_text(), r"(?m)^\+\+\+ b/.*(rust|\.rs$)")
        self.assertEqual(len(cover.patches("c")), len(cover.SMALL))

    def test_folded_subject(self) -> None:
        folded = self.project / "patch"
        folded.write_text("From: A\nSubject: [PATCH 02/40] iomap: say\n what\n\nSubject: [PATCH] x\n")
        self.assertEqual(cover.subject(folded), "iomap: say what")

    def test_a_small_patch_is_gone(self) -> None:
        cover.patches("c", self.project)[0].unlink()
        with self.assertRaisesRegex(SystemExit, f"has {len(cover.SMALL) - 1} of the {len(cover.SMALL)} patches"):
            cover.patches("c", self.project)

    def test_what_is_missing_is_named(self) -> None:
        self.readme.write_text(self.readme.read_text().replace("## Limits", "## Limit"))
        with self.assertRaisesRegex(SystemExit, "error: README.md has nothing between '## Limits'"):
            cover.whole(self.project)
