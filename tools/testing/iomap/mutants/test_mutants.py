#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of mutants.py, and of the list: each wrong edit still fits the sources, exactly once."""

import io
import json
import os
import re
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import mutants  # noqa: E402

ROOT = HERE.parents[3]
# The parser of KTAP is the kernel's.
KUNIT = os.environ.get("KUNIT", "/cache/tree/tools/testing/kunit")

BOOT = """\
[    0.000000] Linux version 7.3.4
[    1.140000] KTAP version 1
[    1.140000] 1..3
[    1.140000]     KTAP version 1
[    1.140000]     # Subtest: rust_iomap_decide
[    1.140000]     # module: direct_io
[    1.140000]     1..2
"""
SCRIPTS = """\
[    1.180000]     ok 1 alignment
[    1.210000]     ok 2 padding
[    1.340000] # Totals: pass:2 fail:0 skip:0 total:2
[    1.340000] ok 1 rust_iomap_decide
[    1.340000]     KTAP version 1
[    1.340000]     # Subtest: iomap_dio_scripts
[    1.340000]     1..1
[    1.340000]         KTAP version 1
[    1.340000]         # Subtest: setup
[    1.380000]         ok 1 D1 each call is traced
"""
PASS = """\
[    1.380000]         ok 2 D2 no bytes
[    1.380000]     # setup: pass:2 fail:0 skip:0 total:2
[    1.380000]     ok 1 setup
[    1.380000] ok 2 iomap_dio_scripts
[    1.390000]     KTAP version 1
[    1.390000]     # Subtest: iomap_dio_fuzz
[    1.390000]     1..1
[    2.390000]     ok 1 random # SKIP not asked for
[    2.390000] ok 3 iomap_dio_fuzz
[    3.000000] sysrq: Power Off
"""
FAIL = """\
[    1.380000]     # setup: EXPECTATION FAILED at fs/iomap/tests/suite.c:70
[    1.380000]     Rust differs from C
[    1.380000]         not ok 2 D2 no bytes
[    1.380000]     # setup: pass:1 fail:1 skip:0 total:2
[    1.380000]     not ok 1 setup
[    1.380000] not ok 2 iomap_dio_scripts
"""
KASAN = """\
[    1.370000] ==================================================================
[    1.370000] BUG: KASAN: slab-use-after-free in iomap_dio_rw+0x10/0x20
[    1.370000] Read of size 8 at addr 0000000061a3d008 by task kunit_try_catch/30
"""


def mutant(old: str, new: str = "") -> mutants.Mutant:
    return mutants.Mutant("kernel", "f", "m", "D1", old, new)


class Edit(unittest.TestCase):
    TEXT = "fn f() {\n    a(b);\n    // Why: see c.\n    d(\n        e,\n    );\n    a(c);\n}\n"

    def test_lines_and_comments_between_the_words(self) -> None:
        self.assertEqual(mutant("a(b); d( e,", "x(").edit(self.TEXT),
                         "fn f() {\n    x(\n    );\n    a(c);\n}\n")

    def test_nothing_new(self) -> None:
        self.assertNotIn("a(c)", mutant("a(c);").edit(self.TEXT))

    def test_new_text_is_taken_as_it_is(self) -> None:
        self.assertIn("\\1 \\g<0>", mutant("a(c);", "\\1 \\g<0>").edit(self.TEXT))

    def test_comments_are_no_place(self) -> None:
        with self.assertRaisesRegex(mutants.ListError, "mutant m: f has no place"):
            mutant("a(b) d(").edit("a(b) // d(\n")

    def test_no_place(self) -> None:
        with self.assertRaisesRegex(mutants.ListError, "mutant m: f has no place with 'a\\(x\\);'"):
            mutant("a(x);").edit(self.TEXT)

    def test_two_places(self) -> None:
        with self.assertRaisesRegex(mutants.ListError, "mutant m: f has 2 places with 'a\\('"):
            mutant("a(").edit(self.TEXT)

    def test_no_change(self) -> None:
        with self.assertRaisesRegex(mutants.ListError, "changes nothing"):
            mutant("a(b);", "a(b);").edit(self.TEXT)


class Files(unittest.TestCase):
    GOOD = """
[kernel."fs/x.rs"]
drop-a = ["D1", "a();"]
[loom."rust/y.rs"]
drop-b = ["D2", "b();", "c();"]
"""

    def setUp(self) -> None:
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.dir = Path(tmp.name)
        for side in ("pristine", "tree"):
            for name, text in (("fs/x.rs", "a();\n"), ("rust/y.rs", "b();\n")):
                path = self.dir / side / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)

    def read(self, name: str) -> str:
        return (self.dir / name).read_text()

    def list(self, text: str) -> mutants.Mutants:
        path = self.dir / "list.toml"
        path.write_text(text)
        return mutants.read_list(path)

    def apply(self, ms: mutants.Mutants, name: str | None = None) -> None:
        mutants.apply(ms, self.dir / "pristine", self.dir / "tree", name)

    def test_one_at_a_time(self) -> None:
        ms = self.list(self.GOOD)
        self.apply(ms, "drop-b")
        self.assertEqual(self.read("tree/rust/y.rs"), "c();\n")
        os.utime(f"{self.dir}/tree/rust/y.rs", (0, 0))
        self.apply(ms, "drop-b")
        self.assertEqual(os.stat(f"{self.dir}/tree/rust/y.rs").st_mtime, 0)
        self.apply(ms, "drop-a")
        self.assertEqual(self.read("tree/fs/x.rs"), "\n")
        self.assertEqual(self.read("tree/rust/y.rs"), "b();\n")
        self.apply(ms)
        self.assertEqual(self.read("tree/fs/x.rs"), "a();\n")
        self.assertEqual(self.read("pristine/rust/y.rs"), "b();\n")
        with self.assertRaises(mutants.ListError):
            self.apply(ms, "drop-c")

    def test_check_names_all_that_is_wrong(self) -> None:
        ms = self.list(self.GOOD + '[kernel."z.rs"]\nno-file = ["D3", "a"]\n'
                       '[proptest."fs/x.rs"]\nno-place = ["D3", "q"]\n')
        errors = mutants.check(ms, self.dir / "pristine")
        self.assertEqual([e.split(":")[0] for e in errors], ["mutant no-file", "mutant no-place"])

    def test_bad_lists(self) -> None:
        for text in (self.GOOD + self.GOOD, self.GOOD + '[kernel."y"]\ndrop-b = ["D1", "a"]',
                     '[nobody."x"]\na = ["D1", "a"]',
                     '[kernel."x"]\na = ["D1"]', '[kernel."x"]\na = ["D1", ""]', '[kernel."x"]\na = ["D1", "a", 1]',
                     '[kernel."x"]\nA = ["D1", "a"]', '[kernel."x"]\na = 1', '[kernel]\nx = "a"', "[a\n"):
            with self.assertRaises(mutants.ListError, msg=text):
                self.list(text)

    def test_choice_and_order(self) -> None:
        ms = self.list("".join(f'[{tests}."{d}/x{i}.rs"]\nm{i} = ["D1", "a"]\n' for i, (tests, d) in enumerate(
            (("loom", "rust"), ("kernel", "rust"), ("kernel", "fs"), ("proptest", "fs"), ("kernel", "fs")))))

        def names(*args: Any, **more: Any) -> list[str]:
            return [m.name for m in mutants.select(ms, *args, **more)]

        self.assertEqual(names(), ["m2", "m4", "m1", "m0", "m3"])
        self.assertEqual(names(["m[03]", "4"]), ["m4", "m0", "m3"])
        self.assertEqual(names(quick=True), ["m4", "m0"])
        self.assertEqual(names(["x"]), [])


@unittest.skipUnless(os.path.isdir(KUNIT), f"no {KUNIT}")
class Verdict(unittest.TestCase):
    def console(self, *parts: str) -> Path:
        with tempfile.NamedTemporaryFile("w", suffix=".log", delete=False) as f:
            self.addCleanup(os.unlink, f.name)
            f.write("".join(parts))
        return Path(f.name)

    def baseline(self, *parts: str, status: int = 0) -> list[str]:
        return mutants.make_baseline(self.console(*parts), status, KUNIT)

    def judge(self, *parts: str, status: int = 0) -> str:
        return mutants.judge(self.console(*parts), status, KUNIT, self.baseline(BOOT, SCRIPTS, PASS))

    def test_cases(self) -> None:
        self.assertEqual(self.baseline(BOOT, SCRIPTS, PASS), [
            "iomap_dio_fuzz/random", "iomap_dio_scripts/setup",
            "iomap_dio_scripts/setup/D1 each call is traced", "iomap_dio_scripts/setup/D2 no bytes",
            "rust_iomap_decide/alignment", "rust_iomap_decide/padding"])

    def test_carriage_returns_and_callers(self) -> None:
        text = (BOOT + SCRIPTS + FAIL).replace("\n", "\r\n").replace("] ", "][    T1] ")
        self.assertEqual(self.judge(text), "iomap_dio_scripts/setup/D2 no bytes")

    def test_survived(self) -> None:
        self.assertEqual(self.judge(BOOT, SCRIPTS, PASS), "")

    def test_failed_case(self) -> None:
        self.assertEqual(self.judge(BOOT, SCRIPTS, FAIL, status=130),
                         "iomap_dio_scripts/setup/D2 no bytes")

    def test_splat_before_the_failure(self) -> None:
        self.assertEqual(self.judge(BOOT, SCRIPTS, KASAN, FAIL),
                         "splat: BUG: KASAN: slab-use-after-free in iomap_dio_rw+0x10/0x20 "
                         "(in iomap_dio_scripts/setup/D2 no bytes)")

    def test_splat_before_the_end(self) -> None:
        self.assertEqual(self.judge(BOOT, SCRIPTS, KASAN, status=130),
                         "splat: BUG: KASAN: slab-use-after-free in iomap_dio_rw+0x10/0x20 "
                         "(in iomap_dio_scripts/setup, after D1 each call is traced)")

    def test_failure_before_the_splat(self) -> None:
        self.assertEqual(self.judge(BOOT, SCRIPTS, FAIL, KASAN),
                         "iomap_dio_scripts/setup/D2 no bytes")

    def test_splat_after_all_tests(self) -> None:
        self.assertTrue(self.judge(BOOT, SCRIPTS, PASS, KASAN).startswith("splat: BUG: KASAN"))

    def test_hang_and_crash(self) -> None:
        self.assertEqual(self.judge(BOOT, status=124), "hang (in rust_iomap_decide)")
        self.assertEqual(self.judge("", status=124), "hang")
        self.assertEqual(self.judge(BOOT, SCRIPTS, status=125),
                         "crash: the kernel ended with status 125 "
                         "(in iomap_dio_scripts/setup, after D1 each call is traced)")

    def test_tests_that_did_not_run(self) -> None:
        self.assertEqual(self.judge(BOOT, SCRIPTS), "not run: iomap_dio_fuzz/random and 2 more")

    def test_unfit_baselines(self) -> None:
        for parts, status, why in (((BOOT, SCRIPTS, FAIL), 0, "fails: iomap_dio_scripts/setup/D2"),
                                   ((BOOT, SCRIPTS, PASS), 124, "fails: hang"),
                                   ((BOOT, SCRIPTS, KASAN, PASS), 0, "fails: splat"),
                                   ((BOOT, SCRIPTS), 0, "no test suite iomap_dio_fuzz")):
            with self.assertRaisesRegex(mutants.ListError, why):
                self.baseline(*parts, status=status)


LISTED = {n: mutants.Mutant("kernel", "f.rs", n, "D1: a|b", "x", "", why) for n, why in (
    ("one", ""), ("two", ""), ("three", "no one sees"), ("four", "wrong"), ("five", ""))}


class Report(unittest.TestCase):
    def report(self, *results: tuple[str, str, str]) -> tuple[bool, list[str], str, Any]:
        with tempfile.TemporaryDirectory() as out, redirect_stdout(io.StringIO()) as said:
            good = mutants.report(LISTED, [{"name": n, "outcome": o, "by": by, "seconds": 1}
                                                 for n, o, by in results], ["a"], Path(out))
            data = json.loads(Path(out, "mutants.json").read_text())
            return good, said.getvalue().splitlines(), Path(out, "report.md").read_text(), data

    def test_good(self) -> None:
        good, said, text, data = self.report(("one", "caught", "s/case"), ("three", "survived", ""))
        self.assertTrue(good)
        self.assertEqual(said, ["1 caught, 0 survived, 1 equivalent"])
        self.assertIn("| one | D1: a\\|b | s/case |", text)
        self.assertIn("| three | D1: a\\|b | **equivalent** no one sees |", text)
        self.assertEqual([m["outcome"] for m in data["mutants"]], ["caught", "equivalent"])

    def test_bad(self) -> None:
        good, said, text, _ = self.report(("one", "caught", "s/case"), ("two", "survived", ""),
                                          ("five", "error", "it does not compile"))
        self.assertFalse(good)
        self.assertEqual(said[-1], "1 in error, 1 caught, 1 survived, 0 equivalent")
        self.assertTrue(said[0].startswith("survived: two"))
        self.assertIn("* survived: two", text)

    def test_wrong_claim(self) -> None:
        good, said, _, _ = self.report(("four", "caught", "s/case"))
        self.assertTrue(good)
        self.assertEqual(said[0], "not equivalent: four was caught by s/case")

    def test_nothing(self) -> None:
        self.assertFalse(self.report()[0])


class TheList(unittest.TestCase):
    def setUp(self) -> None:
        self.mutants = mutants.read_list(HERE / "list.toml")

    def test_each_applies_once(self) -> None:
        self.assertEqual(mutants.check(self.mutants, ROOT), [])

    def test_each_says_what_it_breaks(self) -> None:
        for m in self.mutants.values():
            self.assertRegex(m.breaks, r"^[DQ]\d+(, [DQ]\d+)*: \S", m.name)

    def test_no_edit_twice(self) -> None:
        seen: dict[tuple[str, ...], str] = {}
        for m in self.mutants.values():
            key = (m.tests, m.file, " ".join(m.old.split()), " ".join(m.new.split()))
            self.assertNotIn(key, seen, f"{m.name} is {seen.get(key)}")
            seen[key] = m.name

    def test_braces_stay_in_pairs(self) -> None:
        def balance(text: str) -> list[int]:
            text = re.sub(r"//.*", "", text)
            return [text.count(a) - text.count(b) for a, b in (("{", "}"), ("(", ")"), ("[", "]"))]

        for m in self.mutants.values():
            text = (ROOT / m.file).read_text()
            self.assertEqual(balance(m.edit(text)), balance(text), m.name)

    def test_all_of_the_path(self) -> None:
        files = {m.file for m in self.mutants.values() if m.tests == "kernel"}
        for path in (ROOT / "fs/iomap").glob("**/direct_io*/*.rs"):
            self.assertIn(str(path.relative_to(ROOT)), files)
        self.assertGreaterEqual(sum(f.startswith("rust/kernel/") for f in files), 14)
        self.assertGreaterEqual(len(self.mutants), 430)


if __name__ == "__main__":
    unittest.main()
