# SPDX-License-Identifier: GPL-2.0
"""Tests of series.py."""

import tempfile
import unittest
from pathlib import Path

import series


class Series(unittest.TestCase):
    def test_targets(self) -> None:
        ours = ["prepare", "rust/", "fs/iomap/"]
        for files, expected in (
                ("MAINTAINERS Documentation/rust/iomap.rst", []),
                ("fs/xfs/xfs_iomap.c fs/ext4/inode.c", ["prepare", "fs/ext4/inode.o", "fs/xfs/xfs_iomap.o"]),
                ("fs/xfs/xfs_iomap.h fs/ext4/inode.c", ["prepare", "fs/ext4/inode.o", "fs/xfs/"]),
                ("include/linux/iomap.h", ours), ("rust/kernel/iomap.rs MAINTAINERS", ours),
                ("fs/iomap/trace.c fs/ext4/inode.c", [*ours, "fs/ext4/inode.o"]), ("fs/Kconfig", ours)):
            with self.subTest(files):
                self.assertEqual(series.targets(files.split()), expected)

    def test_waiting(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "rust").mkdir()
            Path(folder, "rust/.a.o.cmd").write_text("source := /tree/rust/a.rs\ndeps := /tree/fs/b.rs \\\n ../c.h x")
            self.assertEqual(series.waiting(Path(folder), ["rust/a.rs", "fs/b.rs", "c.h", "b.c", "Kconfig"]),
                             ["b.c"])
