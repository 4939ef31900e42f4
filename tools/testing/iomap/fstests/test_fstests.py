# SPDX-License-Identifier: GPL-2.0
"""Unit tests of what "make fstests" plans, reads and compares."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import compare
import run

REPORT = """FSTYP         -- ext4

generic/001 2s ...  3s
generic/002         [not run] no reflink
generic/003         - output mismatch (see /cache/x/003.out.bad)
    --- tests/generic/003.out\t2026-01-01
    +++ /cache/x/003.out.bad
    @@ -1 +1,2 @@
     QA output created by 003
    +1 is not 2
    ...
generic/004        """


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        self.dir = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name: str, text: str) -> Path:
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


class Plan(Folder):
    def setUp(self) -> None:
        super().setUp()
        self.write("tests/generic/group.list", "# made by make\n\n001 auto quick\n002 rw auto\n003 auto dangerous_x\n"
                   "004 auto aio\n005 soak\n006 quick\n")
        self.write("tests/ext4/group.list", "001 auto quick\n")
        self.write("tests/xfs/group.list", "")
        for name, text in {"generic/001": "# not O_DIRECT", "generic/002": "$XFS_IO_PROG -fd -c x",
                           "generic/003": "", "generic/004": "", "generic/005": "_require_odirect",
                           "generic/006": "O_DIRECT", "ext4/001": ""}.items():
            self.write(f"tests/{name}", text)

    def names(self, *only: str, batch: int = 4) -> list[tuple[str, str, list[str]]]:
        configs = [run.Config("e", "ext4"), run.Config("x", "xfs")]
        with mock.patch.object(run, "BATCH", batch):
            return run.plan(self.dir, only, configs)

    def test_direct_io_comes_first_and_the_configurations_take_turns(self) -> None:
        self.assertEqual(self.names(), [
            ("e", "direct-quick", ["generic/006"]), ("x", "direct-quick", ["generic/006"]),
            ("e", "direct", ["generic/002"]), ("x", "direct", ["generic/002"]),
            ("e", "aio", ["generic/004"]), ("x", "aio", ["generic/004"]),
            ("e", "quick", ["generic/001", "ext4/001"]), ("x", "quick", ["generic/001"])])

    def test_a_batch_is_no_longer_than_it_may_be(self) -> None:
        self.assertEqual(self.names("e/", batch=1)[3:], [("e", "quick", ["generic/001"]), ("e", "quick", ["ext4/001"])])


class Records(Folder):
    def guest(self) -> run.Guest:
        return run.Guest(self.dir, self.dir, 0)

    def ends(self, config: str = "ext4", impl: str = "c", attempt: int = 0) -> dict[str, str]:
        return {name: r["status"] for name, r in self.guest().records(config, impl, attempt).items()}

    def test_report_of_check(self) -> None:
        expected = [("generic/001", "pass", "", []), ("generic/002", "notrun", "no reflink", []),
                    ("generic/003", "fail", "- output mismatch (see /cache/x/003.out.bad)", ["+1 is not 2"])]
        records = run.read_report(REPORT)
        self.assertEqual([(r["test"], r["status"], r["reason"], r["diff"]) for r in records], expected)
        last = run.read_report(f"{REPORT} _check_dmesg: found\n\nRan: x\nPassed all 4 tests\n")[3:]
        self.assertEqual([(r["test"], r["status"]) for r in last], [("generic/004", "complaint")])
        self.assertEqual(compare.reason(records[2]), "output mismatch: +1 is not 2")
        self.assertEqual(run.read_report(""), [])

    def test_the_first_test_without_a_result_was_running(self) -> None:
        self.write("results/ext4-c-0/check.out", REPORT)
        names = [f"generic/00{n}" for n in (1, 2, 3, 4, 5)]
        self.guest().put(begin=("ext4", "c", 0, names))
        self.guest().bury()
        self.assertEqual(self.ends(), {"generic/001": "pass", "generic/002": "notrun", "generic/003": "fail",
                                       "generic/004": "died"})
        self.guest().bury()
        self.assertNotIn("generic/005", self.ends())

    def test_what_has_another_turn_is_forgotten(self) -> None:
        names = ["generic/001", "generic/003"]
        for impl in run.IMPLS:
            self.write(f"results/ext4-{impl}-0/check.out", REPORT)
            self.guest().put(begin=("ext4", impl, 0, names))
            self.guest().take("ext4", impl, 0, names)
        self.guest().put(done=("ext4", names))
        self.guest().put(done=("ext4", ["generic/002"]))
        self.guest().put(begin=("ext4", "c", 0, ["generic/004"]))
        run.forget(self.guest().log, ["xfs/generic/003", "ext4/*3"])
        self.assertEqual((self.ends(), self.ends(impl="rust")), ({"generic/001": "pass"}, {"generic/001": "pass"}))
        self.guest().bury()
        self.assertEqual(self.ends(), {"generic/001": "pass"})
        run.forget(self.guest().log, [])
        self.assertEqual([line["done"][1] for line in self.guest().lines if "done" in line], [["generic/002"]])

    def test_another_run_of_a_test_is_another(self) -> None:
        self.write("results/ext4-rust-1/check.out", REPORT)
        self.guest().take("ext4", "rust", 1, ["generic/003"])
        self.assertEqual((self.ends(impl="rust", attempt=1), self.ends(impl="rust")), ({"generic/003": "fail"}, {}))


PLAN: compare.Plan = [("ext4", "aio", ["generic/001", "generic/002"]),
                     ("ext4", "rw", ["generic/003", "generic/004", "generic/005", "generic/006"])]
ENDS: dict[str, dict[str, list[str]]] = {
    "generic/001": {"c": ["pass"], "rust": ["pass"]},
    "generic/002": {"c": ["pass"] * 3, "rust": ["fail", "pass", "timeout"]},
    "generic/003": {"c": ["pass"] * 3, "rust": ["died", "fail", "fail"]},
    "generic/004": {"c": ["notrun"], "rust": ["notrun"]},
    "generic/005": {"c": ["fail"], "rust": ["fail"]},
    "generic/006": {"c": ["pass"], "rust": []}}


class Compare(Folder):
    def setUp(self) -> None:
        super().setUp()
        self.write("run/plan.json", json.dumps({"batches": PLAN, "empty": ["dio"]}))
        self.write("run/0/status", "0\n")
        self.write("run/parts", "9 2026-01-01, commit 0123456789ab\n")
        self.record(ENDS)

    def record(self, ends: dict[str, dict[str, list[str]]]) -> None:
        lines: list[dict[str, Any]] = [{"kernel": "7.3.4"}]
        for test, impls in ends.items():
            lines += [{"config": "ext4", "test": test, "impl": impl, "attempt": n, "status": status, "seconds": 1,
                       "reason": f"because of {impl}", "diff": [f"> {impl}"]}
                      for impl, statuses in impls.items() for n, status in enumerate(statuses)]
        self.write("run/0/results.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    def main(self, *more: str) -> tuple[int, str, dict[str, Any]]:
        (self.dir / "out").mkdir(exist_ok=True)
        argv = ["compare.py", str(self.dir / "run"), str(self.dir / "out"), "--suite=v1",
                "--date=2026-11-24T00:00:00Z", "--commit=0123456789abcdef", *more]
        with mock.patch("sys.argv", argv), contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()) as said:
            status = compare.main()
        return status, said.getvalue(), json.loads((self.dir / "out/fstests.json").read_text())

    def test_a_difference_is_flaky_if_both_can_end_alike(self) -> None:
        for c, rust, kind in (("p", "p", "same"), ("f", "f", "same"), ("ppp", "fff", "differs"),
                              ("ppp", "fdd", "differs"), ("ppp", "fpf", "flaky"), ("pfp", "fff", "flaky"),
                              ("p", "", "no turn")):
            self.assertEqual(compare.verdict(c, rust), kind, (c, rust))

    def test_table_and_exit_status(self) -> None:
        status, said, summary = self.main()
        self.assertEqual(summary["rows"], [{
            "configuration": "ext4", "planned": 6, "run": 4, "passed": {"c": 3, "rust": 1},
            "failed": {"c": 1, "rust": 3}, "not run": 1, "differs": 1, "flaky": 1, "no turn": 1}])
        self.assertEqual((status, said), (1, "error: 1 tests differ: see outputs/\n"))
        text = (self.dir / "out/report.txt").read_text()
        self.assertRegex(text, r"What differs\n=+\n\n.*\n.*\n.*\next4/generic/003 +differs +pass pass pass +"
                               r"died fail fail +``because of rust: > rust``\next4/generic/002 +flaky ")
        self.assertIn("The output differs in ext4/generic/005.", text)

    def test_nothing_run_and_a_guest_that_ended_badly_are_errors(self) -> None:
        self.record({})
        self.assertEqual(self.main("--page", str(self.dir / "page.rst"))[:2], (1, "error: no test ran\n"))
        self.assertFalse((self.dir / "page.rst").exists())
        self.record({"generic/001": ENDS["generic/001"]})
        self.assertEqual(self.main()[:2], (0, ""))
        self.write("run/0/status", "1\n")
        self.assertEqual(self.main()[:2], (1, "error: guest 0 ended with status 1\n"))

    def test_console_of_a_difference(self) -> None:
        part = "[1] run fstests generic/003 at {}\n"
        self.write("run-0-9/console.log", "[0] fstests: ext4 rust 1\n" + part.format("its first turn"))
        self.write("run-0-10/console.log", "".join(
            f"[0] fstests: ext4 {impl} {n}\n" + part.format(f"{impl}{n}") + "[2] run fstests generic/004 at x\n"
            for n in (0, 1) for impl in ("c", "rust")))
        self.write("run/0/results/ext4-rust-1/generic/003.out.bad", "bad")
        self.main()
        folder = self.dir / "out/outputs/ext4/generic-003"
        self.assertEqual((folder / "rust-1.console").read_text(), "run fstests generic/003 at rust1\n[2] ")
        self.assertEqual((folder / "rust-1.out.bad").read_text(), "bad")
        self.assertFalse((self.dir / "out/outputs/ext4/generic-001").exists())

    def test_page_is_made_from_the_same(self) -> None:
        self.write("run/parts", "9 2026-01-01, commit 0123456789ab\n"
                                "8 2026-01-02, commit 1123456789ab, again g/1 g/2\n")
        self.main("--page", str(self.dir / "page.rst"), "--only=ext4/*")
        page = (self.dir / "page.rst").read_text()
        self.assertTrue(page.startswith(".. SPDX-License-Identifier: GPL-2.0\n\n===="))
        for words in ("No test of this fstests is in ``dio``.", "1 guest: 9 minutes on 2026-01-01, commit 0123456789ab"
                      ", then 8 minutes on 2026-01-02, commit 1123456789ab, again g/1 g/2.",
                      "MINUTES=9 WRITE=1 ONLY='ext4/*'", "MINUTES=8 WRITE=1 GO_ON=1 AGAIN='g/1 g/2' ONLY='ext4/*'",
                      "What differs ======"):
            self.assertIn(words, " ".join(page.split()))
