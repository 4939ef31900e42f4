# SPDX-License-Identifier: GPL-2.0
"""Tests of catalogue.py."""

import unittest

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

    def finds(self, *problems: str, page: str = GOOD, used: tuple[str, ...] = ("D1", "D2", "D3"),
              scripts: tuple[str, ...] = SCRIPTS, manual: str = "") -> None:
        """The problems of these texts begin so."""
        docs = {catalogue.PAGE: page, "manual.rst": manual}
        found = list(catalogue.problems(docs, scripts, dict.fromkeys(used, "file.c")))
        self.assertEqual(len(found), len(problems), found)
        for problem, line in zip(problems, found, strict=True):
            self.assertEqual(line[:len(problem)], problem)

    def test_good(self) -> None:
        self.finds()
        self.finds(manual='Scripts: "D1 D2 ... no bytes", "... traced".')

    def test_numbers(self) -> None:
        self.assertEqual(catalogue.NUMBER.findall(f"D1\u2013{UNKNOWN} D1-{UNKNOWN}, D1 to {UNKNOWN}"),
                         ["D1", UNKNOWN] * 3)
        # What only looks like a number
        self.assertEqual(catalogue.NUMBER.findall("#D55E00 0xD1 fig_Q1.svg MD5 D1a Q D"), [])

    def test_sentences(self) -> None:
        self.assertEqual(catalogue.sentences(GOOD), {
            "D1": "A call is traced.", "D2": "No bytes are none, as in D1.", "D3": "It depends."})

    def test_used_and_not_defined(self) -> None:
        self.finds(f"{UNKNOWN} is in file.c, but has no entry", used=(UNKNOWN,))
        # It is no entry without a C function.
        self.finds("D3 is in file.c, but has no entry",
                   page=GOOD.replace("D3 : ``__iomap_dio_rw()``", "D3 : somewhere"))

    def test_not_covered(self) -> None:
        """A number without a script and without a reason."""
        self.finds("D3 is shown by no script", page=GOOD.replace("Not shown: nobody\n", "\n"))
        self.finds("D2 is shown by no script", f'{catalogue.PAGE} names the script "D1 D2 so', scripts=SCRIPTS[:1])

    def test_excuse_not_needed(self) -> None:
        self.finds("D3 has a reason after 'Not shown:'", scripts=(*SCRIPTS, "D3 it does"))

    def test_no_such_script(self) -> None:
        """A script that was renamed, in the page and in another text."""
        self.finds(f'{catalogue.PAGE} names the script "D1 D2 as is a call for no bytes", which',
                   page=GOOD.replace("so is", "as is"))
        self.finds('manual.rst names the script "D2 ..."', manual='Scripts: "D2 ...".')

    def test_script_of_another(self) -> None:
        self.finds("D2 has scripts, but", page=GOOD.replace("D1 D2 so is a call for no bytes", "D1 a call is traced"))

    def test_defined_twice(self) -> None:
        self.finds("D1 is defined 2 times", page=GOOD + GOOD.split("\n\n", maxsplit=1)[0] + "\n")
