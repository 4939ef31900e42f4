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

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
import mutants

ROOT = os.path.abspath(os.path.join(HERE, "../../../.."))
LIST = os.path.join(HERE, "list.toml")

BOOT = """\
[    0.000000] Linux version 7.3.4
[    1.140000] KTAP version 1
[    1.140000] 1..2
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


def mutant(**fields):
    return mutants.Mutant("m", {"file": "f", "breaks": "D1"} | fields)


class Edit(unittest.TestCase):
    TEXT = "fn f() {\n    a(b);\n    // Why: see c.\n    d(\n        e,\n    );\n    a(c);\n}\n"

    def test_lines_and_comments_between_the_words(self):
        self.assertEqual(mutant(old="a(b); d( e,", new="x(").edit(self.TEXT),
                         "fn f() {\n    x(\n    );\n    a(c);\n}\n")

    def test_nothing_new(self):
        self.assertNotIn("a(c)", mutant(old="a(c);").edit(self.TEXT))

    def test_new_text_is_taken_as_it_is(self):
        self.assertIn("\\1 \\g<0>", mutant(old="a(c);", new="\\1 \\g<0>").edit(self.TEXT))

    def test_comments_are_no_place(self):
        with self.assertRaisesRegex(mutants.ListError, "mutant m: f has no place"):
            mutant(old="a(b) d(").edit("a(b) // d(\n")

    def test_no_place(self):
        with self.assertRaisesRegex(mutants.ListError, "mutant m: f has no place with 'a\\(x\\);'"):
            mutant(old="a(x);").edit(self.TEXT)

    def test_two_places(self):
        with self.assertRaisesRegex(mutants.ListError, "mutant m: f has 2 places with 'a\\('"):
            mutant(old="a(").edit(self.TEXT)

    def test_no_change(self):
        with self.assertRaisesRegex(mutants.ListError, "changes nothing"):
            mutant(old="a(b);", new="a(b);").edit(self.TEXT)


class Files(unittest.TestCase):
    GOOD = '[drop-a]\nfile = "fs/x.rs"\nbreaks = "D1"\nold = "a();"\n' \
           '[drop-b]\nfile = "rust/y.rs"\nbreaks = "D2"\nold = "b();"\nnew = "c();"\n'

    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.dir = tmp.name
        for side in ("pristine", "tree"):
            for name, text in (("fs/x.rs", "a();\n"), ("rust/y.rs", "b();\n")):
                self.write(f"{side}/{name}", text)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def read(self, name):
        return mutants.slurp(os.path.join(self.dir, name))

    def list(self, text):
        return mutants.read_list(self.write("list.toml", text))

    def apply(self, ms, name=None):
        mutants.apply(ms, f"{self.dir}/pristine", f"{self.dir}/tree", name)

    def test_one_at_a_time(self):
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

    def test_check_names_all_that_is_wrong(self):
        ms = self.list(self.GOOD + '[no-file]\nfile = "z.rs"\nbreaks = "D3"\nold = "a"\n'
                       '[no-place]\nfile = "fs/x.rs"\nbreaks = "D3"\nold = "q"\n')
        errors = mutants.check(ms, f"{self.dir}/pristine")
        self.assertEqual([e.split(":")[0] for e in errors], ["mutant no-file", "mutant no-place"])

    def test_bad_lists(self):
        for text in (self.GOOD + self.GOOD, '[a]\nfile = "x"\nbreaks = "D1"\n',
                     '[A]\nfile = "x"\nbreaks = "D1"\nold = "a"\n', 'file = "x"\n',
                     '[a]\nfile = "x"\nbreaks = "D1"\nold = "a"\nnwe = "b"\n', "[a\n"):
            with self.assertRaises(mutants.ListError):
                self.list(text)

    def test_choice_and_order(self):
        ms = self.list("".join(f'[m{i}]\nfile = "{d}/x.rs"\nbreaks = "D1"\nold = "a"\n'
                               for i, d in enumerate(("rust", "fs", "fs", "rust", "fs"))))
        self.assertEqual(mutants.select(ms), ["m1", "m2", "m4", "m0", "m3"])
        self.assertEqual(mutants.select(ms, ["m[03]", "4"]), ["m4", "m0", "m3"])
        self.assertEqual(mutants.select(ms, quick=True), ["m0", "m3"])
        self.assertEqual(mutants.select(ms, ["x"]), [])


class Verdict(unittest.TestCase):
    def console(self, *parts):
        f = tempfile.NamedTemporaryFile("w", suffix=".log", delete=False, encoding="utf-8")
        self.addCleanup(os.unlink, f.name)
        f.write("".join(parts))
        f.close()
        return f.name

    def judge(self, *parts, status=0):
        baseline = mutants.make_baseline(self.console(BOOT, SCRIPTS, PASS), 0)
        return mutants.judge(self.console(*parts), status, baseline)

    def test_cases(self):
        self.assertEqual(mutants.make_baseline(self.console(BOOT, SCRIPTS, PASS), 0)["cases"], [
            "iomap_dio_fuzz/random", "iomap_dio_scripts/setup",
            "iomap_dio_scripts/setup/D1 each call is traced", "iomap_dio_scripts/setup/D2 no bytes",
            "rust_iomap_decide/alignment", "rust_iomap_decide/padding"])

    def test_carriage_returns_and_callers(self):
        text = (BOOT + SCRIPTS + FAIL).replace("\n", "\r\n").replace("] ", "][    T1] ")
        self.assertEqual(self.judge(text), "iomap_dio_scripts/setup/D2 no bytes")

    def test_survived(self):
        self.assertIsNone(self.judge(BOOT, SCRIPTS, PASS))

    def test_failed_case(self):
        self.assertEqual(self.judge(BOOT, SCRIPTS, FAIL, status=130),
                         "iomap_dio_scripts/setup/D2 no bytes")

    def test_splat_before_the_failure(self):
        self.assertEqual(self.judge(BOOT, SCRIPTS, KASAN, FAIL),
                         "splat: BUG: KASAN: slab-use-after-free in iomap_dio_rw+0x10/0x20 "
                         "(in iomap_dio_scripts/setup/D2 no bytes)")

    def test_splat_before_the_end(self):
        self.assertEqual(self.judge(BOOT, SCRIPTS, KASAN, status=130),
                         "splat: BUG: KASAN: slab-use-after-free in iomap_dio_rw+0x10/0x20 "
                         "(in iomap_dio_scripts/setup, after D1 each call is traced)")

    def test_failure_before_the_splat(self):
        self.assertEqual(self.judge(BOOT, SCRIPTS, FAIL, KASAN),
                         "iomap_dio_scripts/setup/D2 no bytes")

    def test_splat_after_all_tests(self):
        self.assertTrue(self.judge(BOOT, SCRIPTS, PASS, KASAN).startswith("splat: BUG: KASAN"))

    def test_hang_and_crash(self):
        self.assertEqual(self.judge(BOOT, status=124), "hang (in rust_iomap_decide)")
        self.assertEqual(self.judge("", status=124), "hang")
        self.assertEqual(self.judge(BOOT, SCRIPTS, status=125),
                         "crash: the kernel ended with status 125 "
                         "(in iomap_dio_scripts/setup, after D1 each call is traced)")

    def test_tests_that_did_not_run(self):
        self.assertEqual(self.judge(BOOT, SCRIPTS), "not run: iomap_dio_fuzz/random and 2 more")

    def test_unfit_baselines(self):
        for parts, status, why in (((BOOT, SCRIPTS, FAIL), 0, "fails: iomap_dio_scripts/setup/D2"),
                                   ((BOOT, SCRIPTS, PASS), 124, "fails: hang"),
                                   ((BOOT, SCRIPTS, KASAN, PASS), 0, "fails: splat"),
                                   ((BOOT, SCRIPTS), 0, "no test suite iomap_dio_fuzz")):
            with self.assertRaisesRegex(mutants.ListError, why):
                mutants.make_baseline(self.console(*parts), status)


class Report(unittest.TestCase):
    MUTANTS = {n: mutants.Mutant(n, {"file": "f.rs", "breaks": "D1: a|b", "old": "x", **more})
               for n, more in (("one", {}), ("two", {}), ("three", {"equivalent": "no one sees"}),
                               ("four", {"equivalent": "wrong"}), ("five", {}))}

    def report(self, *results):
        with tempfile.TemporaryDirectory() as out, redirect_stdout(io.StringIO()) as said:
            good = mutants.report(self.MUTANTS, [{"name": n, "outcome": o, "by": by, "seconds": 1}
                                                 for n, o, by in results], {"cases": ["a"]}, out)
            data = json.loads(mutants.slurp(f"{out}/mutants.json"))
            return good, said.getvalue().splitlines(), mutants.slurp(f"{out}/report.md"), data

    def test_good(self):
        good, said, text, data = self.report(("one", "caught", "s/case"), ("three", "survived", ""))
        self.assertTrue(good)
        self.assertEqual(said, ["1 caught, 0 survived, 1 equivalent"])
        self.assertIn("| one | D1: a\\|b | s/case |", text)
        self.assertIn("| three | D1: a\\|b | equivalent: no one sees |", text)
        self.assertEqual([m["outcome"] for m in data["mutants"]], ["caught", "equivalent"])

    def test_bad(self):
        good, said, text, _ = self.report(("one", "caught", "s/case"), ("two", "survived", ""),
                                          ("five", "error", "it does not compile"))
        self.assertFalse(good)
        self.assertEqual(said[-1], "1 in error, 1 caught, 1 survived, 0 equivalent")
        self.assertTrue(said[0].startswith("survived: two"))
        self.assertIn("## Survived", text)

    def test_wrong_claim(self):
        good, said, _, _ = self.report(("four", "caught", "s/case"))
        self.assertTrue(good)
        self.assertEqual(said[0], "not equivalent: four was caught by s/case")

    def test_nothing(self):
        self.assertFalse(self.report()[0])


class TheList(unittest.TestCase):
    def setUp(self):
        self.mutants = mutants.read_list(LIST)

    def test_each_applies_once(self):
        self.assertEqual(mutants.check(self.mutants, ROOT), [])

    def test_each_says_what_it_breaks(self):
        for m in self.mutants.values():
            self.assertRegex(m.breaks, r"^[DQ]\d+(, [DQ]\d+)*: \S", m.name)

    def test_no_edit_twice(self):
        seen = {}
        for m in self.mutants.values():
            key = (m.file, " ".join(m.old.split()), " ".join(m.new.split()))
            self.assertNotIn(key, seen, f"{m.name} is {seen.get(key)}")
            seen[key] = m.name

    def test_braces_stay_in_pairs(self):
        for m in self.mutants.values():
            text = re.sub(r"//.*", "", mutants.slurp(os.path.join(ROOT, m.file)))
            edited = re.sub(r"//.*", "", m.edit(mutants.slurp(os.path.join(ROOT, m.file))))
            for pair in ("{}", "()", "[]"):
                for t in (text, edited):
                    balance = t.count(pair[0]) - t.count(pair[1])
                    if t is text:
                        before = balance
                self.assertEqual(balance, before, f"{m.name}: {pair}")

    def test_all_of_the_path(self):
        files = {m.file for m in self.mutants.values()}
        for name in ("direct_io.rs", "direct_io/submit.rs", "direct_io/mapping.rs",
                     "direct_io/single.rs", "direct_io/complete.rs", "direct_io/decide.rs",
                     "direct_io/travel.rs"):
            self.assertIn(f"fs/iomap/{name}", files)
        self.assertGreaterEqual(sum(f.startswith("rust/kernel/") for f in files), 14)
        self.assertGreaterEqual(len(self.mutants), 70)


if __name__ == "__main__":
    unittest.main()
