#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Puts together what `make test` found, and says it.

report.py --console LOG --kunit-parser DIR ... --out DIR: reads the lines of check.sh, the KTAP in
the console log, the results of fstest/run.py and the verdicts of test.sh itself, writes
summary.json, lists what was skipped and what failed by name, and ends with the line
"N passed, N failed". Exit status 0 only if something ran and nothing failed.
"""

import argparse
import json
import os
import re
import sys
from typing import Any, TextIO

import ktap
from only import matches

# Our KUnit suites; the others in the kernel are not our concern.
SUITES = ("rust_iomap", "iomap_dio", "rust_doctests_kernel")
# Of the examples in the kernel crate those in our files.
EXAMPLES = re.compile(r"rust_doctest_kernel_(block_(bdev|bio|buffer|plug)|fs_inode|iov_iter|task_may_sleep|iomap)_")

Result = dict[str, Any]


def result(name: str, status: str, reason: str = "", ms: int = 0) -> Result:
    return {"name": name, "status": status, "reason": reason, "ms": ms}


def parse_check(text: str) -> list[Result]:
    """The lines of check.sh: "ok NAME (detail)", "FAIL NAME: why", "skip NAME: why"."""
    results = []
    for line in text.splitlines():
        m = re.match(r"(ok|not ok|FAIL|skip) ([\w./-]+):?\s*(.*)$", line)
        if m:
            word, name, rest = m.groups()
            status = {"ok": "pass", "skip": "skip"}.get(word, "fail")
            if status == "pass":
                rest = rest.strip("()")
            results.append(result(f"check/{name}", status, rest))
    return results


def parse_fstest(text: str, guest: int = 0) -> list[Result]:
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
            results.append(result(item["name"], item["status"], item.get("reason", ""),
                                  item.get("ms", 0)))
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
    """The test cases of our suites."""
    results = []
    for suite in suites:
        if not suite.name.startswith(SUITES):
            continue
        cases = suite.tests
        if suite.name == "rust_doctests_kernel":
            cases = [case for case in cases if EXAMPLES.match(case.name)]
        results += [result(f"kunit/{suite.name}/{case.name}",
                           case.status if case.status in ("pass", "skip") else "fail",
                           case.reason or ("skipped by the test" if case.status == "skip" else ""))
                    for case in cases]
        if not suite.line or not cases:
            results.append(result(f"kunit/{suite.name}", "fail", suite.reason))
    return results


def splat_result(text: str, guest: int = 0) -> Result:
    """What splat.sh printed: a headline per complaint, then an excerpt."""
    heads = [line for line in text.splitlines() if line.endswith("the kernel complains:")]
    if not heads:
        # What is no fault of the kernel under test is still to be seen.
        notes = [line.split(": note: ", 1)[1] for line in text.splitlines() if ": note: " in line]
        return result(f"console-{guest}/splat", "skip" if notes else "pass", "; ".join(notes))
    excerpt = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    where = re.search(r":(\d+): the kernel complains:$", heads[0])
    return result(f"console-{guest}/splat", "fail",
                  f"line {where.group(1) if where else '?'}: {excerpt[0] if excerpt else ''}")


def lockdep_result(text: str, guest: int = 0) -> Result:
    """/proc/lockdep_stats at the end of the run: a checker that is off finds nothing."""
    name = f"checker-{guest}/lockdep"
    m = re.search(r"debug_locks:\s*(\d+)", text)
    if not m:
        return result(name, "fail", "the guest has no /proc/lockdep_stats")
    if m.group(1) != "1":
        return result(name, "fail", "lockdep turned itself off (debug_locks: 0)")
    return result(name, "pass")


def last_line(results: list[Result]) -> str:
    n = {s: sum(r["status"] == s for r in results) for s in ("pass", "fail", "skip")}
    line = f"{n['pass']} passed, {n['fail']} failed"
    return line + (f", {n['skip']} skipped" if n["skip"] else "")


def short(reason: str, width: int = 220) -> str:
    reason = " ".join(reason.split())
    return reason if len(reason) <= width else reason[:width - 3] + "..."


def print_report(results: list[Result], out: TextIO = sys.stdout) -> None:
    """Skips with the same reason in several places take one line."""
    skips: dict[tuple[str, str], list[str]] = {}
    for r in results:
        if r["status"] == "skip":
            skips.setdefault((r["name"].rsplit("/", 1)[-1], short(r["reason"])), []).append(
                r["name"])
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


def slurp(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def main() -> int:
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True, help="directory of the results")
    ap.add_argument("--only", action="append", default=[])
    ap.add_argument("--check", help="what check.sh printed")
    ap.add_argument("--unit", help="results of the unit tests, in the words of check.sh")
    ap.add_argument("--console", help="console log of the guest")
    ap.add_argument("--kunit-parser", help="tools/testing/kunit of the kernel tree")
    # One of each per guest
    ap.add_argument("--fstest", action="append", default=[], help="results.jsonl of fstest/run.py")
    ap.add_argument("--lockdep", action="append", default=[],
                    help="/proc/lockdep_stats at the end")
    ap.add_argument("--splat", action="append", default=[], help="what splat.sh printed")
    ap.add_argument("--verdict", action="append", default=[],
                    help="NAME=pass|fail|skip[:reason], of test.sh itself")
    ap.add_argument("--machine", help="what the guest was, if it was not the usual one")
    ap.add_argument("--seconds", type=int, default=0)
    args = ap.parse_args()

    results = []
    if args.check:
        results += parse_check(slurp(args.check))
    if args.unit:
        results += [r | {"name": r["name"].replace("check/", "unit/", 1)}
                    for r in parse_check(slurp(args.unit))]
    if args.kunit_parser:
        kunit = kunit_results(ktap.read(args.console, args.kunit_parser))
        results += kunit or [result("kunit/ran", "fail", "no KUnit suite of ours in the console")]
    for i, path in enumerate(args.fstest):
        results += parse_fstest(slurp(path), i)
    # A test that was asked for by name is reported alone; what went wrong around it always counts.
    results = [r for r in results if matches(r["name"], args.only) or r["status"] == "fail"]
    if args.only and not results:
        results.append(result("nothing", "fail", f"no test matches {' '.join(args.only)}"))
    for i, path in enumerate(args.splat):
        results.append(splat_result(slurp(path), i))
    for i, path in enumerate(args.lockdep):
        results.append(lockdep_result(slurp(path), i))
    for v in args.verdict:
        name, _, rest = v.partition("=")
        status, _, reason = rest.partition(":")
        results.append(result(name, status, reason))

    if not any(r["status"] in ("pass", "fail") for r in results):
        results.append(result("nothing", "fail", "no test ran"))
    os.makedirs(args.out, exist_ok=True)
    n = {s: sum(r["status"] == s for r in results) for s in ("pass", "fail", "skip")}
    with open(f"{args.out}/summary.json", "w", encoding="utf-8") as f:
        json.dump({"passed": n["pass"], "failed": n["fail"], "skipped": n["skip"],
                   "seconds": args.seconds, "only": args.only, "tests": results}
                  | ({"machine": args.machine} if args.machine else {}), f, indent=1)
        f.write("\n")
    if args.machine:
        print(f"machine: {args.machine}")
    print_report(results)
    return 0 if all(r["status"] != "fail" for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
