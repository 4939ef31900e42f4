# SPDX-License-Identifier: GPL-2.0
"""Tests of ktap.py, which need the parser of a kernel tree: KUNIT=/path/to/linux/tools/testing/kunit."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import ktap

KUNIT = os.environ.get("KUNIT", "/cache/tree/tools/testing/kunit")

CONSOLE = """\
[    0.000000] Linux version 7.3.4
[    1.140000] KTAP version 1
[    1.140000] 1..2
[    1.140000]     KTAP version 1
[    1.140000]     # Subtest: rust_iomap_decide
[    1.140000]     1..2
[    1.180000]     ok 1 alignment
[    1.190000]     ok 2 padding # SKIP no page to pad
[    1.200000] # rust_iomap_decide: pass:1 fail:0 skip:1 total:2
[    1.200000] ok 1 rust_iomap_decide\r
[    1.340000]     KTAP version 1
[    1.340000]     # Subtest: iomap_dio_scripts
[    1.340000]     1..2
[    1.340000]         KTAP version 1
[    1.340000]         # Subtest: setup
[    1.380000]         ok 1 D1 each call is traced
[    1.380000]     # setup: EXPECTATION FAILED at fs/iomap/tests/suite.c:70
[    1.380000]     Rust differs from C
[    1.380000]         not ok 2 D2 no bytes
[    1.390000]     # setup: pass:1 fail:1 skip:0 total:2
[    1.390000]     not ok 1 setup
[    1.400000]     ok 2 teardown
[    1.400000] not ok 2 iomap_dio_scripts
[    3.000000] sysrq: Power Off
"""
SELFTEST = """\
TAP version 13
1..3
#  RUN           dio.holes ...
#      SKIP      no holes # here
ok 1 dio.holes # SKIP no holes # here
not ok 2 dio.mix-io_uring #  op 3: read of 5: -5
#  RUN           dio.extend ...
# extend: Test terminated by timeout
#          FAIL  dio.extend
not ok 3 dio.extend
"""


@unittest.skipUnless(os.path.isdir(KUNIT), f"no {KUNIT}")
class Ktap(unittest.TestCase):
    def names(self, text: str, status: str = "") -> list[tuple[int, str, str]]:
        return [(t.line, t.status, name) for suite in ktap.parse(text.splitlines(), KUNIT)
                for name, t in suite.walk() if not status or t.status == status]

    def test_console(self) -> None:
        self.assertEqual(self.names(CONSOLE), [
            (7, "pass", "rust_iomap_decide/alignment"),
            (8, "skip", "rust_iomap_decide/padding"),
            (10, "pass", "rust_iomap_decide"),
            (16, "pass", "iomap_dio_scripts/setup/D1 each call is traced"),
            (19, "fail", "iomap_dio_scripts/setup/D2 no bytes"),
            (21, "fail", "iomap_dio_scripts/setup"),
            (22, "pass", "iomap_dio_scripts/teardown"),
            (23, "fail", "iomap_dio_scripts")])

    def test_reasons(self) -> None:
        decide, scripts = ktap.parse(CONSOLE.splitlines(), KUNIT)
        self.assertEqual(decide.tests[1].reason, "no page to pad")
        self.assertEqual(scripts.tests[0].reason,
                         "D2 no bytes: setup: EXPECTATION FAILED at fs/iomap/tests/suite.c:70"
                         " Rust differs from C")

    def test_end_in_a_case(self) -> None:
        cut = CONSOLE[:CONSOLE.index("[    1.380000]     # setup")]
        self.assertEqual(self.names(cut, "crash"),
                         [(0, "crash", "iomap_dio_scripts/setup"), (0, "crash", "iomap_dio_scripts")])

    def test_suite_without_cases(self) -> None:
        text = "KTAP version 1\n1..1\n    KTAP version 1\n    # Subtest: a\n    1..0\nok 1 a\n"
        self.assertEqual([(t.status, t.reason) for t in ktap.parse(text.splitlines(), KUNIT)],
                         [("crash", "no test in it")])

    def test_no_ktap(self) -> None:
        self.assertEqual(ktap.parse(["[    0.000000] Linux version 7.3.4"], KUNIT), [])

    def test_selftest(self) -> None:
        done: list[ktap.Test] = []
        tests = ktap.parse(SELFTEST.splitlines(), KUNIT, done.append)
        self.assertEqual(tests, done)
        self.assertEqual([(t.name, t.status, t.reason) for t in tests],
                         [("dio.holes", "skip", "no holes # here"),
                          ("dio.mix-io_uring", "fail", "op 3: read of 5: -5"),
                          ("dio.extend", "fail", "extend: Test terminated by timeout")])
