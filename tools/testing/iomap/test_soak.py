# SPDX-License-Identifier: GPL-2.0
"""Tests of soak.py: nothing that was violated, and nothing that did not run, is overlooked."""

import json
import tempfile
import unittest
from pathlib import Path

import soak

GOOD = {
    "host": "ok host-loom (7 tests, 234242 executions)\nok host-proptest (9 tests)\n"
            "ok host-shuttle (8 tests, 1020000 executions)\n",
    "fuzz": "5000 scripts, 0 failed, 700 states of C and 600 of Rust after power cuts\n",
    "mutants": "2 caught, 0 survived, 0 equivalent\n"}
BROKEN = ("seed 7 breaks a rule; it is made smaller\n    the script of seed 7 breaks a rule\n"
          "again: make fuzz SEED=7 SECONDS=20\n9 scripts, 2 failed, 7 states of C and 6 of Rust after power cuts\n")


class Soak(unittest.TestCase):
    def judge(self, outcome: str = "caught", status: str = "1", **said: str) -> tuple[int, str]:
        """The violations, and the report of a good run but for this; who says something else has failed."""
        with tempfile.TemporaryDirectory() as name:
            out = Path(name)
            for engine, text in (GOOD | said).items():
                (out / engine).write_text(text)
                bad = engine in said or (engine == "mutants" and outcome != "caught")
                (out / f"{engine}.status").write_text(f"{status if bad else 0}\n")
            (out / "mutation").mkdir()
            (out / "mutation/mutants.json").write_text(json.dumps({
                "all": ["a", "b", "c"], "history": ["a"], "mutants": [
                    {"name": n, "file": "f.rs", "breaks": "D1", "outcome": o, "by": ""}
                    for n, o in (("a", "caught"), ("b", outcome))] if "mutants" not in said else []}))
            found = soak.judge(out, "5")
            return sum(r["violations"] for r in found["rows"]), soak.markdown(found, "")

    def test_nothing_is_wrong(self) -> None:
        n, text = self.judge()
        self.assertEqual(n, 0)
        for line in ("| host | schedules |  | 1,020,000 | 0 |", "| fuzz | states after power cuts | 700 | 600 | 0 |",
                     "| mutants | published bugs brought back, 1 caught |  | 1 of 1 | 0 |",
                     "| mutants | other wrong edits, 1 caught |  | 1 of 2 | 0 |"):
            self.assertIn(line, text)
        self.assertNotIn("##", text)

    def test_each_violation_counts(self) -> None:
        for n, again, (outcome, said) in (
                (1, "ONLY=host-shuttle SEED=17\n", ("caught", {"host": "FAIL host-shuttle: x: y (SEED=17)\n"})),
                (1, "ONLY=host-proptest SEED=5\n", ("caught", {"host": "FAIL host-proptest: clamp: Test failed\n"})),
                (2, "SEED=7 SECONDS=20\n", ("caught", {"fuzz": BROKEN})),
                (1, "make mutants ONLY=b\n", ("survived", {})),
                (1, "make mutants ONLY=b\n", ("error", {}))):
            with self.subTest(again):
                violations, text = self.judge(outcome, **said)
                self.assertEqual(violations, n)
                self.assertIn("again: make", text)
                self.assertIn(again, text)

    def test_what_did_not_run(self) -> None:
        for engine, text, status, error in (
                ("fuzz", "", "0", "fuzz: nothing was looked at: random scripts"),
                ("mutants", "", "0", "mutants: nothing was looked at: published bugs"),
                ("host", "", "0", "host: nothing was looked at: schedules"),
                ("fuzz", "", "", "fuzz: it ended with status , and said: nothing"),
                ("host", GOOD["host"], "1", "host: it ended with status 1, and said: ok host-shuttle"),
                ("host", "FAIL host-loom: it does not compile: E1\n", "1",
                 "host: it ended with status 1, and said: FAIL host-loom: it does not compile")):
            with self.subTest(error):
                violations, report = self.judge(status=status, **{engine: text})
                self.assertEqual(violations, 0)
                self.assertIn(f"    {error}", report)
