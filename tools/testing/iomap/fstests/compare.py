#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compares what fstests found with C and with Rust.

compare.py RUN OUT: reads what run.py has left in RUN, the consoles of its guests, and RUN/parts, which has the
minutes and the date of each part of the run. Puts into OUT fstests.json, report.txt, and of each test that differs
or fails its outputs and its part of the console. --page writes the report as a page of the manual. Exit status 0
only if all guests came to their end, something ran, and no test ends with C as it never does with Rust.
"""

import argparse
import json
import re
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from run import CONFIGS, GROUPS, IMPLS, LIMIT, RERUNS

Plan = list[tuple[str, str, list[str]]]
Record = dict[str, Any]
NAMES = {"c": "C", "rust": "Rust"}
FAILED = ("fail", "complaint", "timeout", "died")


def read(run: Path) -> tuple[dict[tuple[str, str], dict[str, list[Record]]], str]:
    """The records of each (configuration, test) and implementation by attempt, and the kernel."""
    found: dict[tuple[str, str], dict[str, list[Record]]] = {}
    kernel = ""
    for log in sorted(run.glob("[0-9]*/results.jsonl")):
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            kernel = line.get("kernel", kernel)
            if "status" in line:
                line["guest"] = log.parent.name
                found.setdefault((line["config"], line["test"]), {i: [] for i in IMPLS})[line["impl"]].append(line)
    return found, kernel


def verdict(c: Sequence[str], rust: Sequence[str]) -> str:
    """Of how a test ended each time that it ran."""
    if not c or not rust:
        return "no turn"
    if c[0] == rust[0]:
        return "same"
    return "differs" if {*c}.isdisjoint(rust) else "flaky"


def reason(record: Record) -> str:
    """In a line: what check said, without paths, and the first line that is not as expected."""
    said = re.sub(r"\(see \S+\)|^- ", "", record["reason"]).strip().replace("  ", " ")
    return said + (f": {record['diff'][0]}" if record["diff"] else "")


def summarize(plan: Plan, found: dict[tuple[str, str], dict[str, list[Record]]]) -> dict[str, Any]:
    """The table, and the tests behind it."""
    rows, tests = [], {}
    for config in (c.name for c in CONFIGS if any(c.name == name for name, _, _ in plan)):
        row: dict[str, Any] = {"configuration": config, "planned": 0, "run": 0, "passed": dict.fromkeys(IMPLS, 0),
                               "failed": dict.fromkeys(IMPLS, 0), "not run": 0, "differs": 0, "flaky": 0, "no turn": 0}
        for group, test in ((group, test) for name, group, names in plan if name == config for test in names):
            runs = found.get((config, test), {i: [] for i in IMPLS})
            ends = {impl: [r["status"] for r in runs[impl]] for impl in IMPLS}
            kind = verdict(ends["c"], ends["rust"])
            first = [runs[impl][0] for impl in IMPLS if runs[impl]]
            row["planned"] += 1
            if kind in row:
                row[kind] += 1
            if kind != "no turn":
                skipped = all(r["status"] == "notrun" for r in first)
                row["not run" if skipped else "run"] += 1
                for impl in IMPLS:
                    row["passed"][impl] += ends[impl][0] == "pass"
                    row["failed"][impl] += ends[impl][0] in FAILED
            tests[f"{config}/{test}"] = {
                "group": group, "verdict": kind, **ends,
                "seconds": {impl: sum(r["seconds"] for r in runs[impl][:1]) for impl in IMPLS},
                "reason": {impl: reason(runs[impl][0]) if runs[impl] else "" for impl in IMPLS},
                "lines": {impl: runs[impl][0]["diff"] if runs[impl] else [] for impl in IMPLS}}
        rows.append(row)
    return {"rows": rows, "tests": tests}


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """In the syntax of reStructuredText, which is a table for the eye as well."""
    cells = [list(map(str, header)), *(list(map(str, row)) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    rule = "  ".join("=" * width for width in widths)
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


def section(title: str, *parts: str) -> str:
    return "\n\n".join([f"{title}\n{'=' * len(title)}", *parts])


def wrap(text: str) -> str:
    return textwrap.fill(text, 80, break_on_hyphens=False, break_long_words=False)


def literal(text: str) -> str:
    """What a program said may look like markup."""
    return f"``{' '.join(text.split())[:100].replace('``', chr(39) * 2).strip('` ')}``" if text else "-"


def body(summary: dict[str, Any]) -> str:
    rows, tests = summary["rows"], summary["tests"]
    parts = [table(["configuration", "run", "passed C", "Rust", "failed C", "Rust", "not run", "differ", "flaky",
                    "no turn"],
                   [(r["configuration"], r["run"], *r["passed"].values(), *r["failed"].values(), r["not run"],
                     r["differs"], r["flaky"], r["no turn"]) for r in rows]),
             wrap("A test has *run* that passed or failed; one that took more than "
                  f"{LIMIT} s, or in which the kernel died, has failed. *not run* is what fstests itself says of a "
                  f"test that has no use there. A test that ends differently runs {RERUNS} times more with each: it "
                  "*differs* if it never ends with C as it does with Rust; otherwise it is *flaky*. "
                  "What had *no turn* lies behind the end of the time.")]
    differ = sorted((test["verdict"], name) for name, test in tests.items() if test["verdict"] in ("differs", "flaky"))
    if differ:
        parts.append(section("What differs", table(["test", "", *NAMES.values(), "what it said"], [
            (name, kind, *(" ".join(tests[name][impl]) for impl in IMPLS),
             literal(next((r for i in reversed(IMPLS) if (r := tests[name]["reason"][i])), "")))
            for kind, name in differ])))
    failed = {name: test for name, test in tests.items()
              if test["verdict"] == "same" and test["c"][0] in FAILED}
    if failed:
        where: dict[str, list[str]] = {}
        for name in failed:
            where.setdefault(name.partition("/")[2], []).append(name.partition("/")[0])
        parts.append(section("What fails with C and with Rust", table(
            ["test", "configurations", "what it said with C"],
            [(test, " ".join(configs), literal(failed[f"{configs[0]}/{test}"]["reason"]["c"]))
             for test, configs in sorted(where.items())])))
        other = [name for name, test in failed.items() if test["lines"]["c"] != test["lines"]["rust"]]
        if other:
            parts.append(wrap(f"The output differs in {', '.join(other)}."))
    skips = Counter((test["reason"]["c"], name.partition("/")[0]) for name, test in tests.items()
                    if test["verdict"] == "same" and test["c"][0] == "notrun")
    if skips:
        why: dict[str, dict[str, int]] = {}
        for (said, config), n in skips.items():
            why.setdefault(said, {})[config] = n
        parts.append(section("Not run, and why", table(
            ["tests", "what fstests says", "configurations"],
            [(sum(n.values()), literal(said), " ".join(n)) for said, n in
             sorted(why.items(), key=lambda item: -sum(item[1].values()))])))
    late = Counter((test["group"], name.partition("/")[0]) for name, test in tests.items()
                   if test["verdict"] == "no turn")
    if late:
        configs = [r["configuration"] for r in rows]
        parts.append(section("No turn", table(
            ["group", *configs], [(group, *(late[group, c] for c in configs)) for group in GROUPS
                                  if any(late[group, c] for c in configs)]),
            wrap("fstests.json of the run has their names.")))
    return "\n\n".join(parts)


def about(summary: dict[str, Any]) -> str:
    groups = ", ".join(f"``{group}``" for group in GROUPS[2:])
    configs = "; ".join(f"{c.name}: ``mkfs.{c.fstype}{' ' if c.mkfs else ''}{c.mkfs}``"
                        + (", disks with ``stable_writes``" if c.stable_writes else "")
                        + (", files on the realtime device" if c.realtime else "") for c in CONFIGS)
    empty = [f"``{group}``" for group in summary["empty"]]
    return "\n\n".join([
        wrap(f"fstests ({summary['suite']}), Linux {summary['kernel']}, User Mode Linux with KASAN and lockdep, disks "
             f"of null_blk in memory; {summary['guests']} guest{'s' if summary['guests'] > 1 else ''}: "
             + ", then ".join(f"{minutes} minutes on {on}" for minutes, on in summary["parts"]) + "."),
        wrap(f"Of the groups {groups} first comes what names direct I/O in its text, that in ``quick`` before the "
             "rest, then a group after the other. What fstests calls dangerous, broken or deprecated is left out."
             + (f" No test of this fstests is in {' or '.join(empty)}." if empty else "")
             + (f" Only those were asked for that match ``{' '.join(summary['only'])}``." if summary["only"] else "")),
        wrap(f"Configurations: {configs}.")])


def page(summary: dict[str, Any]) -> str:
    title = "fstests with direct I/O in C and in Rust"
    rule = "=" * len(title)
    return "\n\n".join([
        f".. SPDX-License-Identifier: GPL-2.0\n\n{rule}\n{title}\n{rule}",
        wrap("The tests of fstests, run with direct I/O in C and with direct I/O in Rust (:doc:`iomap`) by the same "
             "kernel. This page was made by::"),
        "\n".join(f"  $ make fstests XFSTESTS=~/xfstests MINUTES={minutes} WRITE=1" + " GO_ON=1" * (at > 0)
                  + (f" AGAIN='{again}'" if (again := on.partition(", again ")[2]) else "")
                  + (f" ONLY='{' '.join(summary['only'])}'" if summary["only"] else "")
                  for at, (minutes, on) in enumerate(summary["parts"])),
        about(summary), section("Result", body(summary))]) + "\n"


def console(run: Path, record: Record) -> str:
    """What the kernel said while this ran."""
    logs = sorted(run.parent.glob(f"{run.name}-{record['guest']}-*/console.log"),
                  key=lambda path: int(path.parent.name.rpartition("-")[2]))
    text = "".join(path.read_text(encoding="utf-8", errors="replace").replace("\r", "") for path in logs)
    # The last one counts: the test may have had another turn.
    for part in reversed(text.split("fstests: ")):
        if part.startswith(f"{record['config']} {record['impl']} {record['attempt']}\n"):
            for test in part.split("run fstests ")[1:]:
                if test.startswith(f"{record['test']} at "):
                    return f"run fstests {test}"
    return ""


def keep(run: Path, out: Path, record: Record) -> None:
    """Its output and its part of the console, below `out`."""
    name = f"{record['impl']}-{record['attempt']}"
    folder = out / record["config"] / record["test"].replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    results = run / record["guest"] / "results" / f"{record['config']}-{name}"
    for path in results.glob(f"{record['test']}.*"):
        # Some log gigabytes.
        if path.is_file() and path.stat().st_size < 4 << 20:
            shutil.copyfile(path, folder / f"{name}.{path.name.partition('.')[2]}")
    (folder / f"{name}.console").write_text(console(run, record), encoding="utf-8")


def main() -> int:
    ap = argparse.ArgumentParser()
    ap.add_argument("run", type=Path)
    ap.add_argument("out", type=Path)
    ap.add_argument("--page", type=Path)
    ap.add_argument("--suite", default="")
    ap.add_argument("--date", default="")
    ap.add_argument("--commit", default="")
    ap.add_argument("--dirty", action="store_true")
    ap.add_argument("--only", action="append", default=[])
    args = ap.parse_args()

    plan = json.loads((args.run / "plan.json").read_text(encoding="utf-8"))
    found, kernel = read(args.run)
    ends = {path.parent.name: path.read_text().strip() for path in sorted(args.run.glob("[0-9]*/status"))}
    summary = {"date": args.date, "commit": args.commit + "+" * args.dirty, "kernel": kernel, "suite": args.suite,
               "parts": [line.split(" ", 1) for line in (args.run / "parts").read_text().splitlines()],
               "only": args.only, "guests": len(ends),
               "empty": plan["empty"], **summarize(plan["batches"], found)}
    for runs in found.values():
        for record in (r for records in runs.values() for r in records):
            test = summary["tests"].get(f"{record['config']}/{record['test']}", {"verdict": "", "c": [""]})
            if test["verdict"] in ("differs", "flaky") or (test["verdict"] == "same" and record["status"] in FAILED):
                keep(args.run, args.out / "outputs", record)
    (args.out / "fstests.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    text = "\n\n".join([about(summary), body(summary)]) + "\n"
    (args.out / "report.txt").write_text(text, encoding="utf-8")
    print(text)
    ran = any(row["run"] for row in summary["rows"])
    # A page without a result would stand for one that has some.
    if args.page and ran:
        args.page.write_text(page(summary), encoding="utf-8")

    wrong = [f"guest {guest} ended with status {status}" for guest, status in ends.items() if status != "0"]
    differ = sum(row["differs"] for row in summary["rows"])
    if differ:
        wrong.append(f"{differ} tests differ: see outputs/")
    if not ran:
        wrong.append("no test ran")
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
