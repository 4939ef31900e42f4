#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Puts together what the engines of `make soak` found, and says it.

soak.py OUT SEED ABOUT: reads what soak.sh has left in OUT of each engine (what it said, its log and its status),
and mutants.json in OUT/mutation. Writes OUT/report.md and OUT/soak.json, and prints what is wrong. Exit status 0
only if each engine has looked at something and come to its end, and nothing was violated.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from report import parse_check, slurp

# What the numbers of the tests on the host count.
COUNTS = {"loom": "executions of models", "proptest": "properties", "shuttle": "schedules"}

Row = dict[str, Any]


def row(engine: str, what: str, rust: int, violations: int, c: int | None = None, of: int | None = None) -> Row:
    """What was looked at: of C, nothing is None; `of` is how many of Rust there are."""
    return {"engine": engine, "what": what, "c": c, "rust": rust, "of": of, "violations": violations}


# Each of these returns what was looked at, and what is wrong, with the command that plays it again.

def host(out: Path, seed: str) -> tuple[list[Row], list[str]]:
    rows, wrong = [], []
    results = {r["name"].removeprefix("check/host-"): r for r in parse_check(slurp(out / "host"))}
    for name, what in COUNTS.items():
        r = results.get(name, {"status": "", "reason": ""})
        counts = re.findall(r"(\d+) (?:tests|executions)", r["reason"] if r["status"] == "pass" else "")
        broken = r["status"] == "fail" and not re.search("does not compile|cannot be fetched", r["reason"])
        rows.append(row("host", what, int([0, *counts][-1]), int(broken)))
        if broken:
            schedule = re.search(r"SEED=\d+", r["reason"])
            again = {"loom": "", "proptest": f" SEED={seed}", "shuttle": f" {schedule[0]}" if schedule else ""}[name]
            wrong.append(f"{name}: {r['reason']}\nagain: make test ONLY=host-{name}{again}")
    return rows, wrong


def fuzz(out: Path, _: str) -> tuple[list[Row], list[str]]:
    said = slurp(out / "fuzz")
    m = re.search(r"^(\d+) scripts, (\d+) failed, (\d+) states of C and (\d+) of Rust after power cuts$", said, re.M)
    n, failed, c, rust = (int(i) for i in m.groups()) if m else (0, 0, 0, 0)
    cuts = len(re.findall(r"the script of seed \d+ breaks a rule$", said, re.M))
    return ([row("fuzz", "random scripts", n, failed - cuts, c=n),
             row("fuzz", "states after power cuts", rust, cuts, c=c)],
            [said.rstrip()] if failed else [])


def mutants(out: Path, _: str) -> tuple[list[Row], list[str]]:
    data = json.loads(slurp(out / "mutation/mutants.json") or '{"all": [], "history": [], "mutants": []}')
    rows, wrong = [], []
    for what, names in (("published bugs brought back", set(data["history"])),
                        ("other wrong edits", set(data["all"]) - set(data["history"]))):
        tried = [m for m in data["mutants"] if m["name"] in names]
        caught = sum(m["outcome"] == "caught" for m in tried)
        bad = [m for m in tried if m["outcome"] not in ("caught", "equivalent")]
        rows.append(row("mutants", f"{what}, {caught} caught", len(tried), len(bad), of=len(names)))
        wrong += [f"{m['outcome']}: {m['name']} ({m['file']}): {m['breaks']} {m['by']}".rstrip()
                  + f"\nagain: make mutants ONLY={m['name']}" for m in bad]
    # A short run may come to no others.
    return rows if rows[1]["rust"] else rows[:1], wrong


def judge(out: Path, seed: str) -> dict[str, Any]:
    rows, violations, errors = [], [], []
    for engine in (host, fuzz, mutants):
        name = engine.__name__
        looked_at, wrong = engine(out, seed)
        rows += looked_at
        violations += wrong
        # One that has found something fails as well.
        if (status := slurp(out / f"{name}.status").strip()) != "0" and not wrong:
            said = ["nothing", *slurp(out / f"{name}.log").splitlines(), *slurp(out / name).splitlines()]
            why = next((line for line in said if re.match("error: |FAIL ", line)), said[-1])
            errors.append(f"{name}: it ended with status {status}, and said: {why}")
        else:
            errors += [f"{name}: nothing was looked at: {r['what']}" for r in looked_at
                       if not r["rust"] + r["violations"]]
    return {"rows": rows, "violations": violations, "errors": errors}


def markdown(found: dict[str, Any], about: str) -> str:
    lines = ["# Soak", "", about, "", "| engine | looked at | C | Rust | violations |", "|---|---|--:|--:|--:|"]
    for r in found["rows"]:
        c = "" if r["c"] is None else f"{r['c']:,}"
        of = "" if r["of"] is None else f" of {r['of']:,}"
        lines.append(f"| {r['engine']} | {r['what']} | {c} | {r['rust']:,}{of} | {r['violations']} |")
    for head, texts in (("In error", found["errors"]), ("Violations", found["violations"])):
        if texts:
            lines += ["", f"## {head}"]
        for text in texts:
            lines += ["", *(f"    {line}" for line in text.splitlines())]
    return "\n".join(lines) + "\n"


def main() -> int:
    out, seed, about = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    found = judge(out, seed)
    (out / "report.md").write_text(markdown(found, about))
    (out / "soak.json").write_text(json.dumps({"about": about, "seed": int(seed), **found}, indent=1) + "\n")
    violations = sum(r["violations"] for r in found["rows"])
    print("\n".join([*found["violations"], *found["errors"],
                     f"{violations} violations, {len(found['errors'])} errors"]))
    return 1 if violations or found["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
