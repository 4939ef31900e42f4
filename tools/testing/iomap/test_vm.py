# SPDX-License-Identifier: GPL-2.0
"""Tests of vm.py, and of how vm.sh gets its variables."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import vm


class Greeting(unittest.TestCase):
    def test_five_lines(self) -> None:
        for impl, other in (("rust", "c"), ("c", "rust")):
            text = vm.greeting(impl, "/home/somebody/.cache/iomap-dio-rust/run/vm", "~/disk.img")
            self.assertEqual(text.count("\n"), 5)
            for words in (f"echo {other} >", f"echo {impl} returns", "~/disk.img is /dev/nvme0n1"):
                self.assertIn(words, text)
        self.assertNotIn("nvme", vm.greeting("c", "/x", ""))


class Variables(unittest.TestCase):
    def test_a_command_reaches_the_shell_as_it_is(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            script = Path(name, "vm.sh")
            script.write_text("#!/bin/sh\nprintf %s \"$CMD\"\n")
            script.chmod(0o755)
            for command in ('for i in "a  b"; do echo $i $(date) $$; done # \'', ""):
                said = subprocess.run(["make", "-s", "-C", vm.PROJECT, "vm", f"T={name}", f"CMD={command}"],
                                      capture_output=True, text=True, check=True).stdout
                self.assertEqual(said, command)
