# SPDX-License-Identifier: GPL-2.0
"""Tests of disk.py: what is refused as the disk of a guest, in one line each. Devices in use are device_guest.py's."""

import fcntl
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import disk


class Disk(unittest.TestCase):
    def setUp(self) -> None:
        self.image = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve() / "an image, of mine"
        self.image.write_bytes(bytes(1 << 20))

    def refused(self, name: str | Path, confirm: str = "") -> str:
        with self.assertRaises(disk.Refused) as caught:
            disk.check_disk(str(name), confirm)
        self.assertNotIn("\n", str(caught.exception))
        return str(caught.exception)

    def test_an_image(self) -> None:
        link = self.image.with_name("link")
        link.symlink_to(self.image)
        for name in (self.image, link):
            self.assertEqual(disk.check_disk(str(name), ""), self.image)
        self.assertEqual(self.image.read_bytes(), bytes(1 << 20))

    def test_no_disk(self) -> None:
        self.assertIn("truncate -s 2G /nowhere/x", self.refused("/nowhere/x"))
        self.assertIn("no block device", self.refused("/dev/null"))
        self.assertIn("no block device", self.refused(self.image.parent))
        with self.assertRaisesRegex(disk.Refused, "^DEVICE=/nowhere/x: No such file or directory$"):
            disk.name_of("/nowhere/x")

    def test_other_formats(self) -> None:
        for magic, name in disk.FORMATS.items():
            self.image.write_bytes(magic + bytes(504))
            self.assertIn(f"a {name} image", self.refused(self.image))

    def test_sizes(self) -> None:
        for size in (0, 513):
            os.truncate(self.image, size)
            self.assertIn(f"{size} bytes", self.refused(self.image))

    def test_in_use_by_a_guest(self) -> None:
        # QEMU locks single bytes. A process does not refuse itself.
        with self.image.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_SH, 1, 203)
            said = subprocess.run([sys.executable, disk.__file__, self.image], capture_output=True, text=True,
                                  check=False)
        self.assertEqual((said.returncode, said.stderr), (1, f"error: {self.image} is in use by another guest\n"))

    def test_a_device_is_confirmed(self) -> None:
        with unittest.mock.patch.multiple(disk, name_of=lambda *_: "x", check_unused=lambda *_: None):
            self.assertIn("CONFIRM=/dev/null", self.refused("/dev/null", "/dev/zero"))
            self.assertEqual(disk.check_disk("/dev/null", "/dev/null"), Path("/dev/null"))
