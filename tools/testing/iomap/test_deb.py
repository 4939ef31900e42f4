# SPDX-License-Identifier: GPL-2.0
"""Tests of deb_guest.py: each block of README is run, and what a guest answers is looked at."""

import re
import unittest
from pathlib import Path

import deb_guest

README = (Path(__file__).resolve().parents[3] / "README.md").read_text()
OLD = "6.12.1-amd64"


class Fake:
    """A guest that does what the commands would do. `broken` is a word of commands that it ignores."""

    def __init__(self, broken: str = "nothing of it") -> None:
        self.broken, self.kernel, self.once, self.impl, self.first = broken, OLD, "", "none", "c"

    def boot(self) -> None:
        self.kernel, self.once = self.once or OLD, ""
        self.impl = self.first if self.kernel != OLD else "none"

    def run(self, script: str, _seconds: int = 0) -> str:
        if self.broken in script:
            return ""
        if "grub-reboot" in script:
            self.once = deb_guest.NEW
        if "iomap_dio=rust" in script:
            self.first = "rust"
        if chosen := re.search(r"echo (c|rust) \|", script):
            self.impl = chosen[1]
        return f"{self.kernel}\n{self.impl}\n" if "cat /sys" in script else \
            self.kernel if "uname -r" in script else "ext4 /" if "census.json" in script else ""

    def restart(self, script: str, _what: str) -> None:
        self.run(script)
        self.boot()

    def send(self, _line: str) -> None:
        pass

    def expect(self, *_args: object) -> None:
        pass

    def login(self, _what: str) -> None:
        self.boot()


class Page(unittest.TestCase):
    def run_all(self, fake: Fake, page: list[str]) -> None:
        for step in deb_guest.Test(fake, page).all():  # type: ignore[arg-type]
            step()

    def test_all_is_run(self) -> None:
        self.run_all(Fake(), deb_guest.blocks(README))

    def test_what_a_guest_does_not_do(self) -> None:
        for broken, why in (("grub-reboot", "another kernel"), ("echo rust", "not 7.3.4-iomap-dio with rust"),
                            ("census.json", "census says"), ("iomap_dio=rust", "with c runs"),
                            ("echo c", "with rust runs")):
            with self.assertRaisesRegex(deb_guest.Failed, why):
                self.run_all(Fake(broken), deb_guest.blocks(README))

    def test_block_without_a_test(self) -> None:
        with self.assertRaisesRegex(deb_guest.Failed, "no test runs 'new"):
            self.run_all(Fake(), [*deb_guest.blocks(README), "new\n"])
        with self.assertRaisesRegex(deb_guest.Failed, "0 blocks of README have 'apt-get purge'"):
            self.run_all(Fake(), [block for block in deb_guest.blocks(README) if "purge" not in block])
