# SPDX-License-Identifier: GPL-2.0
"""Tests of mutants.py, and of the list: each wrong edit still fits the sources, exactly once."""

import io
import json
import os
import re
import tempfile
import tomllib
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import mutants

ROOT = Path(__file__).resolve().parents[4]
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


class Edit(unittest.TestCase):
    TEXT = "fn f() {\n    a(b);\n    // Why: see c.\n    d(\n        e,\n    );\n    a(c);\n}\n"

    def edit(self, diff: str, text: str = TEXT) -> str:
        return mutants.Mutant("kernel", "f", "m", "D1", diff).edit(text)

    def test_lines_and_comments_between_the_words(self) -> None:
        self.assertEqual(self.edit("[-a(b); d(-]{+x(+}[- e,-]"), "fn f() {\n    x(\n    );\n    a(c);\n}\n")

    def test_only_old_and_only_new(self) -> None:
        self.assertEqual(self.edit("[-a(c);-]"), self.TEXT.replace("a(c);", ""))
        self.assertEqual(self.edit("a(c);{+ z();+}"), self.TEXT.replace("a(c);", "a(c); z();"))

    def test_marks_in_several_lines(self) -> None:
        self.assertEqual(self.edit("[-a(\n  c);-]{+x\n  y;+}", "a( c);\n"), "x y;\n")

    def test_new_text_is_taken_as_it_is(self) -> None:
        self.assertIn("\\1 \\g<0>", self.edit("[-a(c);-]{+\\1 \\g<0>+}"))

    def test_mistakes(self) -> None:
        for diff, said in (("[-a(x);-]", "mutant m: f has no place with 'a\\(x\\);', not one"),
                           ("[-a(-]", "mutant m: f has 2 places with 'a\\(', not one"),
                           ("a(b);", "mutant m: the edit changes nothing"),
                           # Comments are skipped, and not looked into.
                           ("[-a(b); see-]", "mutant m: f has no place")):
            with self.assertRaisesRegex(mutants.ListError, said):
                self.edit(diff)


class Files(unittest.TestCase):
    GOOD = """
[kernel."fs/x.rs"]
drop-a = ["D1", "[-a();-]"]
[loom."rust/y.rs"]
drop-b = ["D2 D1", "[-b-]{+c+}();"]
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

    def list(self, text: str) -> mutants.Mutants:
        path = self.dir / "list.toml"
        path.write_text(text)
        return mutants.read_list([path], {"D1": "It does.", "D2": "It may."})

    def test_says_what_it_breaks(self) -> None:
        self.assertEqual([m.breaks for m in self.list(self.GOOD).values()], ["D1: It does.", "D2 D1: It may."])

    def test_one_at_a_time(self) -> None:
        ms = self.list(self.GOOD)
        for name, x, y in (("drop-b", "a();\n", "c();\n"), ("drop-b", "a();\n", "c();\n"),
                           ("drop-a", "\n", "b();\n"), (None, "a();\n", "b();\n")):
            tree = self.dir / "tree"
            same = (tree / "rust/y.rs").read_text() == y
            os.utime(tree / "rust/y.rs", (0, 0))
            mutants.apply(ms, self.dir / "pristine", tree, name)
            self.assertEqual([(tree / "fs/x.rs").read_text(), (tree / "rust/y.rs").read_text()], [x, y])
            # A file that stays as it is keeps its time.
            self.assertEqual((tree / "rust/y.rs").stat().st_mtime == 0, same)
        self.assertEqual((self.dir / "pristine/rust/y.rs").read_text(), "b();\n")
        with self.assertRaisesRegex(mutants.ListError, "there is no mutant drop-c"):
            mutants.apply(ms, self.dir / "pristine", tree, "drop-c")

    def test_check_names_all_that_is_wrong(self) -> None:
        ms = self.list(self.GOOD + '[kernel."z.rs"]\nno-file = ["D1", "a"]\n'
                       '[proptest."fs/x.rs"]\nno-place = ["D1", "q"]\n')
        errors = mutants.check(ms, self.dir / "pristine")
        self.assertEqual([e.split(":")[0] for e in errors], ["mutant no-file", "mutant no-place"])

    def test_bad_lists(self) -> None:
        for text in (self.GOOD + self.GOOD, self.GOOD + '[kernel."y"]\ndrop-b = ["D1", "a"]',
                     '[nobody."x"]\na = ["D1", "a"]', *(f'[kernel."x"]\n{entry}' for entry in (
                         'a = ["D1"]', 'a = ["D1", ""]', 'a = ["D1", "a", 1]', 'a = ["D1", "a", "b", "c"]',
                         'a = ["", "a"]', 'a = ["D3", "a"]', 'a = ["D1, D2", "a"]', 'A = ["D1", "a"]',
                         'a = 1')), '[kernel]\nx = "a"', "[a\n"):
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
        self.assertEqual(names(["history", "m3"], history=("m0", "m1")), ["m1", "m0", "m3"])
        self.assertEqual(names(["m3"], history=("m0", "m1")), ["m3"])
        drawn = [names(history=("m3",), seed=seed) for seed in (*range(9), 0)]
        self.assertEqual({order[0] for order in drawn}, {"m3"})
        self.assertEqual(({*drawn[0]}, drawn[0]), ({*names()}, drawn[9]))
        self.assertGreater(len({*map(tuple, drawn)}), 1)


@unittest.skipUnless(os.path.isdir(KUNIT), f"no {KUNIT}")
class Verdict(unittest.TestCase):
    D1, D2 = "iomap_dio_scripts/setup/D1 each call is traced", "iomap_dio_scripts/setup/D2 no bytes"
    BUG = "splat: BUG: KASAN: slab-use-after-free in iomap_dio_rw+0x10/0x20"
    AFTER_D1 = "(in iomap_dio_scripts/setup, after D1 each call is traced)"

    def console(self, text: str) -> Path:
        with tempfile.NamedTemporaryFile("w", suffix=".log", delete=False) as f:
            self.addCleanup(os.unlink, f.name)
            f.write(text)
        return Path(f.name)

    def baseline(self, text: str = BOOT + SCRIPTS + PASS, status: int = 0) -> list[str]:
        return mutants.make_baseline(self.console(text), status, KUNIT)

    def test_cases(self) -> None:
        self.assertEqual(self.baseline(), ["iomap_dio_fuzz/random", "iomap_dio_scripts/setup", self.D1, self.D2,
                                           "rust_iomap_decide/alignment", "rust_iomap_decide/padding"])

    def test_who_noticed(self) -> None:
        cases = self.baseline()
        for what, text, status, by in (
                ("survived", BOOT + SCRIPTS + PASS, 0, ""),
                ("failed case", BOOT + SCRIPTS + FAIL, 130, self.D2),
                ("carriage returns and callers",
                 (BOOT + SCRIPTS + FAIL).replace("\n", "\r\n").replace("] ", "][    T1] "), 0, self.D2),
                ("splat before the failure", BOOT + SCRIPTS + KASAN + FAIL, 0, f"{self.BUG} (in {self.D2})"),
                ("failure before the splat", BOOT + SCRIPTS + FAIL + KASAN, 0, self.D2),
                ("case that takes too long",
                 BOOT + SCRIPTS + FAIL.replace("Rust differs from C", "# setup: try timed out"), 0,
                 f"{self.D2} (hung)"),
                ("splat before the end", BOOT + SCRIPTS + KASAN, 130, f"{self.BUG} {self.AFTER_D1}"),
                ("splat after all tests", BOOT + SCRIPTS + PASS + KASAN, 0, self.BUG),
                ("hang", BOOT, 124, "hang (in rust_iomap_decide)"),
                ("no boot", "", 124, "error it does not come to the tests"),
                ("crash", BOOT + SCRIPTS, 125, f"crash: the kernel ended with status 125 {self.AFTER_D1}"),
                ("tests that did not run", BOOT + SCRIPTS, 0, "not run: iomap_dio_fuzz/random and 2 more")):
            with self.subTest(what):
                self.assertEqual(mutants.judge(self.console(text), status, KUNIT, cases), by)

    def test_power_cuts_count_alone(self) -> None:
        cases = [*self.baseline(), f"{mutants.CUTS}/setup"]
        for text, by in ((SCRIPTS + FAIL, f"{mutants.CUTS}/setup/D2 no bytes"), (SCRIPTS + PASS, ""),
                         (SCRIPTS + KASAN, ""), (SCRIPTS + KASAN + FAIL, "")):
            text = BOOT + text.replace("iomap_dio_scripts", mutants.CUTS)
            self.assertEqual(mutants.judge_cuts(self.console(text), 0, KUNIT, cases), by)

    def test_unfit_baselines(self) -> None:
        for text, status, why in ((BOOT + SCRIPTS + FAIL, 0, "fails: iomap_dio_scripts/setup/D2"),
                                  (BOOT + SCRIPTS + PASS, 124, "fails: hang"),
                                  (BOOT + SCRIPTS + KASAN + PASS, 0, "fails: splat"),
                                  (BOOT + SCRIPTS, 0, "no test suite iomap_dio_fuzz")):
            with self.assertRaisesRegex(mutants.ListError, why):
                self.baseline(text, status)


LISTED = {n: mutants.Mutant("kernel", "f.rs", n, "D1: a|b", "[-x-]", why) for n, why in (
    ("one", ""), ("two", ""), ("three", "no one sees"), ("four", "wrong"), ("five", ""))}


class Report(unittest.TestCase):
    def report(self, *results: tuple[str, str, str]) -> tuple[bool, list[str], str, Any]:
        with tempfile.TemporaryDirectory() as out, redirect_stdout(io.StringIO()) as said:
            good = mutants.report(LISTED, [{"name": n, "outcome": o, "by": by, "seconds": 1}
                                                 for n, o, by in results], ["a"], Path(out), "", {"two": "D1 x"})
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
        self.assertEqual(said, ["survived: two (f.rs): D1: a|b", "error: five (f.rs): D1: a|b: it does not compile",
                                "1 in error, 1 caught, 1 survived, 0 equivalent"])
        self.assertIn("* survived: two", text)

    def test_wrong_claim(self) -> None:
        good, said, _, _ = self.report(("four", "caught", "s/case"))
        self.assertTrue(good)
        self.assertEqual(said[0], "not equivalent: four was caught by s/case")

    def test_not_as_the_history_says(self) -> None:
        for by, noted in (("set/D1 x", False), ("hang (in set/D1 x)", False), ("set/D2 y", True)):
            good, said, _, _ = self.report(("two", "caught", by))
            self.assertTrue(good)
            self.assertEqual(said[0].startswith(f"not as {mutants.HISTORY} says: two was caught by"), noted)

    def test_nothing(self) -> None:
        self.assertFalse(self.report()[0])


class TheList(unittest.TestCase):
    def setUp(self) -> None:
        self.mutants = mutants.the_list(ROOT)

    def test_each_applies_once(self) -> None:
        self.assertEqual(mutants.check(self.mutants, ROOT), [])

    def test_no_edit_twice(self) -> None:
        edits = [(m.tests, m.file, m.sides()) for m in self.mutants.values()]
        self.assertEqual([e for e in edits if edits.count(e) > 1], [])

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


class TheHistory(unittest.TestCase):
    TESTS = ("fs/iomap/tests/scripts/*.c", "rust/kernel/iomap/tests.rs",
             "tools/testing/iomap/host/src/*.rs", "tools/testing/iomap/host/world/scenario.rs")

    def setUp(self) -> None:
        self.page = (ROOT / mutants.HISTORY).read_text()
        self.bugs = [(int(n), " ".join(what.split()), " ".join(cell.split()))
                     for n, what, cell in mutants.BUG.findall(self.page)]

    @staticmethod
    def attacks(cell: str) -> list[tuple[str, str, str]]:
        return re.findall(r"``(\w+\.rs)`` ``(\w+)\(\)``: (E\d{4})", cell)

    def test_each_bug_once_with_an_address(self) -> None:
        self.assertEqual([n for n, _, _ in self.bugs], list(range(1, len(self.bugs) + 1)))
        self.assertGreaterEqual(len(self.bugs), 75)
        for n, what, _ in self.bugs:
            self.assertRegex(what, r"https?://|\bmail |from memory", n)

    def test_mutants_and_tests_exist(self) -> None:
        listed, history = mutants.the_list(ROOT), mutants.the_history(self.page)
        named = re.compile(r'\.name = "([^"]*)"|\bfn (\w+)|^    \d (\w+) \|c\|', re.M)
        tests = {name for files in self.TESTS for path in ROOT.glob(files)
                 for names in named.findall(path.read_text()) for name in names}
        for n, _, cell in self.bugs:
            back = mutants.BACK.findall(cell)
            self.assertEqual(len(re.findall(r"``[a-z0-9-]+``:", cell)), len(back), n)
            for name, script, test in back:
                self.assertFalse(listed[name].equivalent, n)
                self.assertIn(script or test, {*tests, ""}, n)
                self.assertEqual(script or test, history[name], n)
        for files in tomllib.loads(Path(mutants.HERE, "history.toml").read_text()).values():
            self.assertEqual({name for edits in files.values() for name in edits} - set(history), set())

    def test_attacks_exist(self) -> None:
        for n, _, cell in self.bugs:
            for file, function, error in self.attacks(cell):
                text = (ROOT / "tools/testing/iomap/attack" / file).read_text()
                self.assertRegex(text, rf"(?s)\npub fn {function}\b((?!\n}}).)*//~ {error} ", n)

    def test_the_figures(self) -> None:
        kinds = ["not here" if "Not here: " in cell else "mutants" if mutants.BACK.search(cell)
                 else "attacks" if self.attacks(cell) else "nothing" for _, _, cell in self.bugs]
        self.assertNotIn("nothing", kinds)
        self.assertIn(f"Of {len(kinds)} entries, {kinds.count('mutants')} are brought back by mutants, "
                      f"{kinds.count('attacks')} by nothing that compiles, and {kinds.count('not here')} are not here",
                      " ".join(self.page.split()))
