#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Puts together what `make test` found, and says it.

report.py RUN OUT [--guest NAME:PART,...]...: reads what is in the folder RUN (the lines of check.sh, and
those of the unit tests) and what each guest left in the folder RUN-NAME (start_guest in guest.sh), and puts
into OUT summary.json, what a person may want to read of all that, and report.txt. This lists what was skipped
and what failed by name, and ends with the line "N passed, N failed". Exit status 0 only if something ran and
nothing failed.
"""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any, TextIO

import ktap
from only import matches

# Our KUnit suites; the others in the kernel are not our concern.
SUITES = ("rust_iomap", "iomap_dio", "rust_doctests_kernel")
# Of the examples in the kernel crate those in our files.
EXAMPLES = re.compile(r"rust_doctest_kernel_"
                      r"(block_(bdev|bio|plug)|flag_word|fs_(inode|kiocb)|iov_iter|task_may_sleep|iomap)_")

Result = dict[str, Any]


def result(name: str, status: str, reason: str = "", ms: int = 0) -> Result:
    return {"name": name, "status": status, "reason": reason, "ms": ms}


def verdict(name: str, good: bool, reason: str) -> Result:
    return result(name, "pass") if good else result(name, "fail", reason)


def parse_check(text: str, folder: str = "check") -> list[Result]:
    """The lines of check.sh: "ok NAME (detail)", "FAIL NAME: why"."""
    return [result(f"{folder}/{name}", "pass", rest.strip("()")) if word == "ok" else
            result(f"{folder}/{name}", "fail", rest) for word, name, rest
            in re.findall(r"^(ok|FAIL) ([\w./-]+):?[^\S\n]*(.*)$", text, re.MULTILINE)]


def parse_fstest(text: str, guest: str = "0") -> list[Result]:
    """results.jsonl of fstest/run.py: the results, and what went wrong with the run itself."""
    results: list[Result] = []
    running, done = "", False
    for line in text.splitlines():
        try:
            item = json.loads(line)
        except ValueError:
            continue        # the guest died while it wrote this
        if item.get("done"):
            done = True
        elif "start" in item:
            running = item["start"]
        elif "name" in item:
            results.append(result(item["name"], item["status"], item.get("reason", ""), item.get("ms", 0)))
            if item["name"] == running:
                running = ""
    if done:
        return results
    named = {r["name"] for r in results}
    if running and running not in named:
        results.append(result(running, "fail", "the guest ended during this test"))
    results.append(result(f"guest-{guest}/fstest", "fail", "the file system suite did not finish"))
    return results


def kunit_results(suites: list[ktap.Test]) -> list[Result]:
    """The test cases of our suites, and the parameters that one was skipped with: its own result does not tell."""
    results = []
    for suite in suites:
        if not suite.name.startswith(SUITES):
            continue
        cases = suite.tests
        if suite.name == "rust_doctests_kernel":
            cases = [case for case in cases if EXAMPLES.match(case.name)]
        results += [result(f"kunit/{suite.name}/{name}",
                           test.status if test.status in ("pass", "skip") else "fail",
                           test.reason or ("skipped by the test" if test.status == "skip" else ""))
                    for case in cases for name, test in
                    [(case.name, case), *((f"{case.name}/{t.name}", t) for t in case.tests if t.status == "skip")]]
        if not suite.line or not cases:
            results.append(result(f"kunit/{suite.name}", "fail", suite.reason))
    return results


def splat_result(text: str, guest: str = "0") -> Result:
    """What splat.sh printed: a headline per complaint, then an excerpt, or that it could not look."""
    if where := re.search(r":(\d+): the kernel complains:$", text, re.MULTILINE):
        excerpt = re.search(r"^    (.*)", text, re.MULTILINE)
        return result(f"console-{guest}/splat", "fail", f"line {where[1]}: {excerpt[1].strip() if excerpt else ''}")
    # What is no fault of the kernel under test is still to be seen.
    notes = re.findall(r": note: (.*)", text)
    if other := [line for line in text.splitlines() if ": note: " not in line]:
        return result(f"console-{guest}/splat", "fail", other[0].strip())
    return result(f"console-{guest}/splat", "skip" if notes else "pass", "; ".join(notes))


def checker_results(console: str, lockdep_stats: str, guest: str) -> list[Result]:
    """A checker that is off finds nothing. Without user space nobody reads /proc/lockdep_stats, but lockdep
    says when it turns itself off."""
    kasan = "KernelAddressSanitizer initialized" in console
    lockdep = "Lock dependency validator" in console and "Disabling lock debugging" not in console
    if m := re.search(r"debug_locks:\s*(\d+)", lockdep_stats):
        lockdep = m[1] == "1"
    return [verdict(f"checker-{guest}/kasan", kasan, "KASAN did not start"),
            verdict(f"checker-{guest}/lockdep", lockdep, "lockdep did not start, or turned itself off")]


def count(results: list[Result]) -> dict[str, int]:
    return {s: sum(r["status"] == s for r in results) for s in ("pass", "fail", "skip")}


def last_line(results: list[Result]) -> str:
    n = count(results)
    line = f"{n['pass']} passed, {n['fail']} failed"
    return line + (f", {n['skip']} skipped" if n["skip"] else "")


def short(reason: str, width: int = 220) -> str:
    reason = " ".join(reason.split())
    return reason if len(reason) <= width else reason[:width - 3] + "..."


def print_report(results: list[Result], out: TextIO) -> None:
    """Skips with the same reason in several places take one line."""
    skips: dict[tuple[str, str], list[str]] = {}
    for r in results:
        if r["status"] == "skip":
            skips.setdefault((r["name"].rsplit("/", 1)[-1], short(r["reason"])), []).append(r["name"])
    if skips:
        print("skipped:", file=out)
        for (_, reason), names in skips.items():
            print(f"  {', '.join(names)}: {reason}", file=out)
    failed = [r for r in results if r["status"] == "fail"]
    if failed:
        print("failed:", file=out)
        for r in failed:
            print(f"  {r['name']}: {short(r['reason'])}", file=out)
    print(last_line(results), file=out)


def slurp(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


class Guest:
    """One that ran, in the folder RUN-NAME."""

    def __init__(self, run: Path, spec: str) -> None:
        self.name, _, parts = spec.partition(":")
        self.parts = parts.split(",")
        self.folder = run.with_name(f"{run.name}-{self.name}")

    def read(self, file: str) -> str:
        return slurp(self.folder / file)

    def tests(self, kunit: str) -> list[Result]:
        """What its tests found."""
        results = []
        if "kunit" in self.parts:
            cases = kunit_results(ktap.read(str(self.folder / "console.log"), kunit))
            results += cases or [result("kunit/ran", "fail", "no KUnit suite of ours in the console")]
        if "fstest" in self.parts:
            results += parse_fstest(self.read("fstest/results.jsonl"), self.name)
        if "unit" in self.parts:
            results += parse_check(self.read("tests"), "unit") or [
                result(f"guest-{self.name}/tests", "fail", "the guest left no results")]
        return results

    def itself(self) -> list[Result]:
        """How the guest fared."""
        status = self.read("guest-status").strip()
        # 1 is a failed test, which is reported by its name.
        results = [verdict(f"guest-{self.name}/finished", status in ("0", "1"),
                           f"status {status}, see console-{self.name}.log"),
                   splat_result(self.read("splat"), self.name)]
        if "checkers" in self.parts:
            results += checker_results(self.read("console.log"), self.read("lockdep_stats"), self.name)
        return results

    def keep(self, out: Path) -> None:
        """Leaves in `out` what a person may want to read."""
        for file in ("console.log", "splat", "fstest/results.jsonl", "fstest/dio_test.log"):
            path = self.folder / file
            copy(path, out / f"{path.stem}-{self.name}{path.suffix}")


def copy(path: Path, to: Path) -> None:
    if path.exists() and path.stat().st_size:
        shutil.copyfile(path, to)


def main() -> int:
    ap = argparse.ArgumentParser()
    ap.add_argument("run", type=Path)
    ap.add_argument("out", type=Path)
    ap.add_argument("--guest", action="append", default=[], help="NAME:PART,..., of "
                    "kunit, fstest, unit (tests in the words of check.sh), and checkers, which are to be on")
    ap.add_argument("--kunit-parser", help="tools/testing/kunit of the kernel tree")
    ap.add_argument("--only", action="append", default=[])
    ap.add_argument("--machine", help="what the guest was, if it was not the usual one")
    ap.add_argument("--seconds", type=int, default=0)
    args = ap.parse_args()
    guests = [Guest(args.run, spec) for spec in args.guest]

    results = parse_check(slurp(args.run / "check")) + parse_check(slurp(args.run / "unit"), "unit")
    for guest in guests:
        results += guest.tests(args.kunit_parser)
    # A test that was asked for by name is reported alone; what went wrong around it always counts.
    results = [r for r in results if matches(r["name"], args.only) or r["status"] == "fail"]
    if args.only and not results:
        results.append(result("nothing", "fail", f"no test matches {' '.join(args.only)}"))
    for guest in guests:
        results += guest.itself()
    if not {"pass", "fail"} & {r["status"] for r in results}:
        results.append(result("nothing", "fail", "no test ran"))

    n = count(results)
    summary = {"passed": n["pass"], "failed": n["fail"], "skipped": n["skip"],
               "seconds": args.seconds, "only": args.only, "tests": results}
    if args.machine:
        summary["machine"] = args.machine
    (args.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    for file in ("check", "unit", "unit.log", "host.log"):
        copy(args.run / file, args.out / file)
    for guest in guests:
        guest.keep(args.out)
    with open(args.out / "report.txt", "w", encoding="utf-8") as f:
        if args.machine:
            print(f"machine: {args.machine}", file=f)
        print_report(results, f)
    return 1 if n["fail"] else 0


if __name__ == "__main__":
    sys.exit(main())
