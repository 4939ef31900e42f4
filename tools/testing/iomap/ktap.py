#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""KTAP, which KUnit and kselftest print, read by the parser in tools/testing/kunit of a kernel tree.

  ktap.py KUNIT_DIR LOG      a line for each test in LOG, suites after their cases:
                             "pass|fail|skip|crash NAME/OF/CASE[: reason]"
"""

import dataclasses
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

# What kselftest says of each test
PROGRESS = re.compile(r"(Starting|RUN|FAIL) ")
STATUS = {"SUCCESS": "pass", "FAILURE": "fail", "SKIPPED": "skip"}


@dataclasses.dataclass
class Test:
    """A suite, a case, or a case with one parameter."""

    name: str
    # "crash" is a test without a result, and a suite with such a case or without any.
    status: str
    reason: str = ""
    log: list[str] = dataclasses.field(default_factory=list)
    # Where the result is in the log; 0 if there is none.
    line: int = 0
    tests: list["Test"] = dataclasses.field(default_factory=list)

    def walk(self, parent: str = "") -> Iterator[tuple[str, "Test"]]:
        """This and what is in it, in the order of the results, with their full names."""
        name = f"{parent}/{self.name}" if parent else self.name
        for test in self.tests:
            yield from test.walk(name)
        yield name, self


def convert(test: Any) -> Test:
    """Test of kunit_parser into ours."""
    status = STATUS.get(test.status.name, "crash")
    line = getattr(test, "line", 0)
    log = [text.strip().removeprefix("#").strip() for text in test.log]
    # Without a name are those that a suite announced and that never began.
    tests = [convert(t) for t in test.subtests if t.name]
    inside = [f"{t.name}: {t.reason}" for t in tests if t.status == status]
    reason = ""
    if status == "skip":
        reason = test.skip_reason
    elif status == "fail":
        # A reason of kselftest is in the line of the result, what KUnit says is in those before it.
        said = [text for text in log if not PROGRESS.match(text)]
        reason = inside[0] if inside else test.directive or " ".join(said[-6:])[:300]
    elif status == "crash":
        reason = inside[0] if inside else "no test in it" if line else "no result"
    return Test(test.name, status, reason, log, line, tests)


def parse(lines: Iterable[str], kunit: str, done: Callable[[Test], None] | None = None) -> list[Test]:
    """The tests in a log that may end early; `done` is called with each as soon as it has a result."""
    if kunit not in sys.path:
        sys.path.insert(0, kunit)
    parser: Any = importlib.import_module("kunit_parser")
    printer: Any = importlib.import_module("kunit_printer")
    parse_test_result = parser.parse_test_result

    # The parser keeps neither the place of a result nor the words behind that of a failed test.
    def note(stream: Any, test: Any, expected: int, out: Any) -> bool:
        test.line, test.directive = stream.line_number(), stream.peek().partition(" # ")[2].strip()
        if not parse_test_result(stream, test, expected, out):
            return False
        if done:
            done(convert(test))
        return True

    parser.parse_test_result = note
    try:
        tree = parser.parse_run_tests((line.replace("\r", "") for line in lines),
                                      printer.null_printer)
    finally:
        parser.parse_test_result = parse_test_result
    return [convert(t) for t in tree.subtests if t.name]


def read(path: str, kunit: str) -> list[Test]:
    """The tests in a file."""
    with open(path, encoding="utf-8", errors="replace") as f:
        return parse(f, kunit)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: ktap.py KUNIT_DIR LOG")
    for suite in read(sys.argv[2], sys.argv[1]):
        for name, test in suite.walk():
            print(f"{test.status} {name}" + (f": {test.reason}" if test.reason else ""))


if __name__ == "__main__":
    main()
