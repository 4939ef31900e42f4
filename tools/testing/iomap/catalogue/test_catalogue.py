#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of catalogue.py."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
import catalogue

SCRIPTS = ("D1 a call is traced", "D1 D2 so is a call for no bytes")
# Two numbers that scripts show and one that none does.
GOOD = """\
D1 : ``__iomap_dio_rw()``
  A call is traced.
  Script: "D1 a call
  is traced".

D2 : ``__iomap_dio_rw()``, ``iomap_dio_done()``
  No bytes are none, as in D1.
  Script: "D1 D2 so is a call for no bytes".

D3 : ``__iomap_dio_rw()``
  It depends.
  Not shown: nobody
  can see it.
"""
# Not spelt out, because this file is one of those in which numbers have to be defined.
UNKNOWN = "D" + "999"


class Catalogue(unittest.TestCase):
    """What is found wrong with a page."""

    def judge(self, page: str = GOOD, used: tuple[str, ...] = ("D1", "D2", "D3"),
              scripts: tuple[str, ...] = SCRIPTS, manual: str = "") -> list[str]:
        """The problems of these texts."""
        docs = {catalogue.PAGE: page, "manual.rst": manual}
        return list(catalogue.problems(docs, scripts, dict.fromkeys(used, "file.c")))

    def one(self, problem: str, found: list[str]) -> None:
        """There is one problem, which begins so."""
        self.assertEqual([problem], [f[:len(problem)] for f in found])

    def test_good(self) -> None:
        """Nothing is wrong."""
        self.assertEqual(self.judge(), [])
        self.assertEqual(self.judge(manual='Scripts: "D1 D2 ... no bytes", "... traced".'), [])

    def test_used_and_not_defined(self) -> None:
        """A number in a file, at the end of a range, or of an entry without a C function."""
        self.one(f"{UNKNOWN} is in file.c, but has no entry", self.judge(used=(UNKNOWN,)))
        self.assertEqual(catalogue.NUMBER.findall(f"D1\u2013{UNKNOWN} D1-{UNKNOWN}, D1 to {UNKNOWN}"),
                         ["D1", UNKNOWN] * 3)
        page = GOOD.replace("D3 : ``__iomap_dio_rw()``", "D3 : somewhere")
        self.one("D3 is in file.c, but has no entry", self.judge(page))

    def test_no_number(self) -> None:
        """What only looks like a number."""
        self.assertEqual(catalogue.NUMBER.findall("#D55E00 0xD1 fig_Q1.svg MD5 D1a Q D"), [])

    def test_not_covered(self) -> None:
        """A number without a script and without a reason."""
        self.one("D3 is shown by no script", self.judge(GOOD.replace("Not shown: nobody\n", "\n")))
        self.one("D2 is shown by no script",
                 [f for f in self.judge(scripts=SCRIPTS[:1]) if "names the script" not in f])

    def test_excuse_not_needed(self) -> None:
        """A reason for a number that a script shows."""
        self.one("D3 has a reason after 'Not shown:'",
                 self.judge(scripts=(*SCRIPTS, "D3 it does")))

    def test_no_such_script(self) -> None:
        """A script that was renamed, in the page and in another text."""
        self.one(f'{catalogue.PAGE} names the script "D1 D2 as is a call for no bytes", which',
                 self.judge(GOOD.replace("so is", "as is")))
        self.one('manual.rst names the script "D2 ..."', self.judge(manual='Scripts: "D2 ...".'))

    def test_script_of_another(self) -> None:
        """An entry whose script does not show it."""
        page = GOOD.replace("D1 D2 so is a call for no bytes", "D1 a call is traced")
        self.one("D2 has scripts, but", self.judge(page))

    def test_defined_twice(self) -> None:
        """Two entries of one number."""
        first = GOOD.split("\n\n", maxsplit=1)[0] + "\n"
        self.one("D1 is defined 2 times", self.judge(GOOD + first))


if __name__ == "__main__":
    unittest.main()
