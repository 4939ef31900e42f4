#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The wrong edits of list.toml and history.toml: reads them, makes them, and judges what a kernel said of one.

  mutants.py check                         does each edit apply to the sources in pristine/?
  mutants.py names [--quick] [--seed N] [--left] [PATTERN...]
                                           those that match, in the order to run them: "TESTS NAME";
                                           "history" are those of Documentation/rust/iomap-history.rst;
                                           --left: that results.jsonl says nothing of
  mutants.py apply NAME                    overlay/ is as pristine/, but for the edit
  mutants.py baseline CONSOLE STATUS KUNIT what the kernel without an edit has passed, in baseline.json
  mutants.py judge CONSOLE STATUS KUNIT    "caught BY" or "survived"; KUNIT is tools/testing/kunit
  mutants.py cuts CONSOLE STATUS KUNIT     the same of a kernel that has run the suite of power cuts alone
  mutants.py record NAME SECONDS VERDICT   adds a line to results.jsonl; VERDICT may be "error WHY" as well
  mutants.py report OUT ABOUT              report.md and mutants.json; the last line

`make mutants` runs these in a folder of its own, see mutants.sh.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import ktap  # noqa: E402
from catalogue.catalogue import PAGE, sentences  # noqa: E402
from only import matches  # noqa: E402

# Who has to notice, in the order to run: the tests in the kernel, its suite of power cuts alone, or one of those
# on the host.
TESTS = ("kernel", "cuts", "loom", "proptest", "shuttle")
CUTS = "iomap_dio_cuts"
# What proves something. The others run as well, and may catch as well.
SUITES = ("iomap_dio_scripts", "iomap_dio_fuzz")
# The published bugs: a number, what went wrong, and what brings it back, or why nothing does.
HISTORY = "Documentation/rust/iomap-history.rst"
BUG = re.compile(r"^   \* - (\d+)\n     - (.*?)\n     - (.*?)(?=^   \* - |^\S|\Z)", re.MULTILINE | re.DOTALL)
# In that: a mutant, and who notices it: "a script", or ``a_function`` of other tests, or that it was not run yet.
BACK = re.compile(r'``([a-z0-9-]+)``: (?:[^"`|]*(?:"([^"]+)"|``(\w+)``)|not run yet)')


class ListError(Exception):
    """Something is wrong with the list, not with the code."""


@dataclass(frozen=True)
class Mutant:
    """One wrong edit."""

    tests: str
    file: str
    name: str
    breaks: str
    # As "git diff --word-diff" shows it
    diff: str
    equivalent: str = ""

    def sides(self) -> tuple[str, str]:
        """What is there, and what is put in its place."""
        old = re.sub(r"\[-(.*?)-\]", r"\1", re.sub(r"\{\+.*?\+\}", "", self.diff, flags=re.S), flags=re.S)
        new = re.sub(r"\{\+(.*?)\+\}", r"\1", re.sub(r"\[-.*?-\]", "", self.diff, flags=re.S), flags=re.S)
        return " ".join(old.split()), " ".join(new.split())

    def edit(self, text: str) -> str:
        """The text of the file with the edit made."""
        old, new = self.sides()
        edited, n = pattern(old).subn(lambda _: new, text)
        if n != 1:
            raise ListError(f"mutant {self.name}: {self.file} has {n or 'no'} {'places' if n > 1 else 'place'} "
                            f"with '{old}', not one")
        if edited == text:
            raise ListError(f"mutant {self.name}: the edit changes nothing")
        return edited


Mutants = dict[str, Mutant]


def pattern(old: str) -> re.Pattern[str]:
    """Matches `old` however it is laid out, and whatever comments stand between its words."""
    gap = r"(?:\s|//[^\n]*(?=\n))+"
    return re.compile(gap.join(re.escape(word) for word in old.split()))


def read_list(paths: Iterable[Path], says: Mapping[str, str]) -> Mutants:
    """All mutants, by name, in the order of the lists, given what the catalogue says of each number."""
    out: Mutants = {}
    try:
        for tests, file, name, fields in ((tests, file, *entry) for path in paths
                                          for tests, files in tomllib.loads(path.read_text()).items()
                                          for file, entries in files.items() for entry in entries.items()):
            if tests not in TESTS:
                raise ListError(f"mutant {name}: there are tests in {', '.join(TESTS)}, but none in {tests}")
            if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) or name in out:
                raise ListError(f"mutant {name}: a name is small letters, digits and single dashes, and is there once")
            if not (2 <= len(fields) <= 3 and all(isinstance(f, str) for f in fields) and fields[1]):
                raise ListError(f"mutant {name}: wanted are what it breaks, the edit, and perhaps why nobody can tell")
            numbers = fields[0].split(" ")
            if unknown := [n for n in numbers if n not in says]:
                raise ListError(f"mutant {name}: the catalogue has no '{unknown[0]}'")
            out[name] = Mutant(tests, file, name, f"{fields[0]}: {says[numbers[0]]}", *fields[1:])
    except (tomllib.TOMLDecodeError, AttributeError, TypeError) as e:
        raise ListError(f"{', '.join(p.name for p in paths)}: {e}") from e
    return out


def the_list(project: Path) -> Mutants:
    """What the lists say, with the catalogue of this project."""
    return read_list([HERE / "list.toml", HERE / "history.toml"], sentences((project / PAGE).read_text()))


def the_history(page: str) -> dict[str, str]:
    """The test that notices it, for each mutant that brings a published bug back."""
    return {name: script or test for _, _, cell in BUG.findall(page)
            for name, script, test in BACK.findall(" ".join(cell.split()))}


def check(mutants: Mutants, root: Path) -> list[str]:
    """What is wrong with the list, a line each."""
    errors = []
    for m in mutants.values():
        try:
            m.edit((root / m.file).read_text())
        except OSError as e:
            errors.append(f"mutant {m.name}: {m.file}: {e.strerror}")
        except ListError as e:
            errors.append(str(e))
    return errors


def select(mutants: Mutants, patterns: Sequence[str] = (), quick: bool = False,
           history: Iterable[str] = (), seed: int | None = None) -> list[Mutant]:
    """What to run. The pattern "history" selects those in `history`.

    Edits of the kernel crate come last: each makes that crate be compiled again, and so does the
    first one after it that leaves it alone. With a seed, which is for who does not run them all, the order
    is drawn, but for those in `history`, which come first.
    """
    some = [m for m in mutants.values() if matches(m.name, patterns)
            or ("history" in patterns and m.name in history)][::3 if quick else 1]
    if seed is not None:
        random.Random(seed).shuffle(some)
        return sorted(some, key=lambda m: m.name not in history)
    return sorted(some, key=lambda m: (TESTS.index(m.tests), m.file.startswith("rust/")))


def apply(mutants: Mutants, pristine: Path, tree: Path, name: str | None = None) -> None:
    """Makes the edit, and undoes whichever was made before. A file that stays as it is keeps its time."""
    if name is not None and name not in mutants:
        raise ListError(f"there is no mutant {name}")
    for file in {m.file for m in mutants.values()}:
        text = (pristine / file).read_text()
        if name is not None and mutants[name].file == file:
            text = mutants[name].edit(text)
        if (tree / file).read_text() != text:
            partial = tree / (file + ".tmp")
            partial.write_text(text)
            partial.rename(tree / file)


# --- What a kernel has said ---

class Tests:
    """The test cases in a console log, as far as it goes; results of suites only repeat theirs."""

    def __init__(self, console: Path, kunit: str) -> None:
        tests = [both for suite in ktap.read(str(console), kunit) for both in suite.walk()]
        self.results = [(name, t) for name, t in tests if "/" in name and t.line]
        self.unfinished = [name for name, t in tests if not t.line]
        self.passed = {name for name, t in self.results if t.status in ("pass", "skip")}
        # A slow machine may be at fault as well.
        self.failed = [(t.line, name + " (hung)" * ("timed out" in t.reason)) for name, t in self.results
                       if t.status == "fail"]

    def around(self, number: int) -> str:
        """The case that was running at a line, as " (in CASE)": the one whose result comes next."""
        where = next((name for name, t in self.results if t.line > number), "")
        if not where and self.unfinished:
            where = self.unfinished[0]
            if self.results and self.results[-1][0].startswith(where + "/"):
                where += ", after " + self.results[-1][0].rsplit("/", 1)[-1]
        return f" (in {where})" if where else ""


def first_complaint(console: Path) -> tuple[int, str] | None:
    """The line number of the first complaint of the kernel, and what it says."""
    said = subprocess.run(["bash", HERE.parent / "splat.sh", console], stdout=subprocess.PIPE, check=False,
                          encoding="utf-8", errors="replace").stdout
    m = re.search(r":(\d+): the kernel complains:\n *(?:\[ *\d+\.\d+\](?:\[[^\]]*\])?)? *(.*)", said)
    return (int(m[1]), m[2].strip()) if m else None


def judge(console: Path, status: int, kunit: str, cases: Iterable[str]) -> str:
    """Who noticed; nothing if nobody did.

    `status` is that of the guest: 124 if it did not come to an end in time, 125 if it came to one
    too early, 0 if it went all the way. That it did not even come to the tests, and says nothing of
    why, is an error: the machine may be at fault.
    """
    tests, complaint = Tests(console, kunit), first_complaint(console)
    if tests.failed and (not complaint or tests.failed[0][0] < complaint[0]):
        return tests.failed[0][1]
    if complaint:
        return f"splat: {complaint[1]}{tests.around(complaint[0])}"
    if status != 0 and not tests.results and not tests.unfinished:
        return "error it does not come to the tests"
    if status == 124:
        return f"hang{tests.around(sys.maxsize)}"
    if status != 0:
        return f"crash: the kernel ended with status {status}{tests.around(sys.maxsize)}"
    missing = sorted(set(cases) - tests.passed)
    if missing:
        return f"not run: {missing[0]}" + (f" and {len(missing) - 1} more" if missing[1:] else "")
    return ""


def judge_cuts(console: Path, status: int, kunit: str, cases: Iterable[str]) -> str:
    """As `judge`, of a kernel that has run the suite of power cuts alone: nobody else counts."""
    by = judge(console, status, kunit, [case for case in cases if case.startswith(CUTS)])
    return by if by.startswith(CUTS) else ""


def make_baseline(console: Path, status: int, kunit: str) -> list[str]:
    """What the kernel without an edit has passed; an error if it is not fit to prove anything."""
    bad = judge(console, status, kunit, ())
    if bad:
        raise ListError(f"the kernel without an edit fails: {bad}")
    cases = sorted(Tests(console, kunit).passed)
    for suite in SUITES:
        if not any(name.startswith(suite + "/") for name in cases):
            raise ListError(f"the kernel has no test suite {suite}: is CONFIG_IOMAP_DIO_KUNIT_TEST on?")
    return cases


# --- The report ---

Row = dict[str, Any]


def outcomes(mutants: Mutants, results: Iterable[Row]) -> list[Row]:
    """The results with what the list says; `outcome` is caught, survived, equivalent or error."""
    rows = []
    for r in results:
        m = mutants[r["name"]]
        row = {"name": m.name, "tests": m.tests, "file": m.file, "breaks": m.breaks,
               "claimed_equivalent": bool(m.equivalent), **r}
        if r["outcome"] == "survived" and m.equivalent:
            row |= {"outcome": "equivalent", "by": m.equivalent}
        rows.append(row)
    return rows


def last_line(rows: list[Row]) -> str:
    n = {o: sum(r["outcome"] == o for r in rows) for o in ("error", "caught", "survived", "equivalent")}
    return ((f"{n['error']} in error, " if n["error"] else "")
            + f"{n['caught']} caught, {n['survived']} survived, {n['equivalent']} equivalent")


def bad_ones(rows: list[Row], history: Mapping[str, str]) -> list[str]:
    """A line for each that a person has to look at."""
    return ([f"{r['outcome']}: {r['name']} ({r['file']}): {r['breaks']}" + (f": {r['by']}" if r["by"] else "")
             for r in rows if r["outcome"] in ("survived", "error")]
            + [f"not equivalent: {r['name']} was caught by {r['by']}"
               for r in rows if r["claimed_equivalent"] and r["outcome"] == "caught"]
            + [f"not as {HISTORY} says: {r['name']} was caught by {r['by']}"
               for r in rows if r["outcome"] == "caught" and (history.get(r["name"], r["by"]) or "?") not in r["by"]])


def markdown(rows: list[Row], cases: list[str], about: str, history: Mapping[str, str]) -> str:
    def cells(*texts: str) -> str:
        return "| " + " | ".join(" ".join(t.split()).replace("|", "\\|") for t in texts) + " |"

    out = ["# Wrong edits to the Rust path, and what caught them", "", about, "",
           f"{last_line(rows)}." + (f" The kernel without an edit passes {len(cases)} cases." if cases else ""),
           "A mutant is one wrong edit; *caught by* is the first test case that failed, or what the",
           "kernel's own checkers said. The guest is stopped there, so others may catch it too.", ""]
    bad = bad_ones(rows, history)
    if bad:
        out += ["## To be looked at", "", *(f"* {line}" for line in bad), ""]
    by_case: dict[str, list[str]] = {}
    tables: dict[str, list[str]] = {}
    for r in rows:
        caught = r["outcome"] == "caught"
        if caught:
            by_case.setdefault(re.sub(r"^(splat|crash):.*", r"\1", r["by"]), []).append(r["name"])
        tables.setdefault(f"## {r['file']} ({r['tests']})", []).append(
            cells(r["name"], r["breaks"], r["by"] if caught else f"**{r['outcome']}** {r['by']}"))
    for head, table in tables.items():
        out += [head, "", "| mutant | breaks | caught by |", "|---|---|---|", *table, ""]
    out += ["## By test", "", "| caught by | mutants |", "|---|---|"]
    out += [cells(by, f"{len(names)}: {', '.join(names)}")
            for by, names in sorted(by_case.items(), key=lambda i: (-len(i[1]), i[0]))]
    return "\n".join(out) + "\n"


def report(mutants: Mutants, results: Iterable[Row], cases: list[str], out: Path, about: str,
           history: Mapping[str, str]) -> bool:
    rows = outcomes(mutants, results)
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.md").write_text(markdown(rows, cases, about, history))
    (out / "mutants.json").write_text(
        json.dumps({"about": about, "baseline": cases, "mutants": rows, "all": list(mutants),
                    "history": [name for name in mutants if name in history]}, indent=1) + "\n")
    print("\n".join([*bad_ones(rows, history), last_line(rows)]))
    return bool(rows) and all(r["outcome"] in ("caught", "equivalent") for r in rows)


COMMANDS = {"check": "", "names": "--quick --seed --left patterns", "apply": "name", "baseline": "console status kunit",
            "judge": "console status kunit", "cuts": "console status kunit", "record": "name seconds verdict",
            "report": "out about"}
# Of the arguments that are not a word.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "--quick": {"action": "store_true"}, "--left": {"action": "store_true"}, "--seed": {"type": int},
    "patterns": {"nargs": "*"}, "console": {"type": Path}, "out": {"type": Path}, "status": {"type": int},
    "seconds": {"type": int}}
BASELINE, RESULTS = Path("baseline.json"), Path("results.jsonl")


def recorded() -> list[Row]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def run(args: argparse.Namespace) -> bool:
    mutants, history = the_list(Path("pristine")), the_history(Path("pristine", HISTORY).read_text())
    # Without the kernel's tests there is none.
    cases = json.loads(BASELINE.read_text()) if BASELINE.exists() else []
    if args.command == "check":
        errors = check(mutants, Path("pristine"))
        print("\n".join(errors) or f"{len(mutants)} mutants apply")
        return not errors
    if args.command == "names":
        done = {row["name"] for row in recorded()} if args.left else ()
        some = [m for m in select(mutants, args.patterns, args.quick, history, args.seed) if m.name not in done]
        print("".join(f"{m.tests} {m.name}\n" for m in some), end="")
        return bool(some)
    if args.command == "apply":
        apply(mutants, Path("pristine"), Path("overlay"), args.name)
    elif args.command == "baseline":
        cases = make_baseline(args.console, args.status, args.kunit)
        BASELINE.write_text(json.dumps(cases))
        print(len(cases))
    elif args.command in ("judge", "cuts"):
        by = (judge_cuts if args.command == "cuts" else judge)(args.console, args.status, args.kunit, cases)
        print(by if by.startswith("error ") else f"caught {by}" if by else "survived")
    elif args.command == "record":
        outcome, _, by = args.verdict.partition(" ")
        with RESULTS.open("a") as f:
            f.write(json.dumps({"name": args.name, "outcome": outcome, "seconds": args.seconds, "by": by}) + "\n")
    elif args.command == "report":
        return report(mutants, recorded(), cases, args.out, args.about, history)
    return True


def main() -> int:
    ap = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    sub = ap.add_subparsers(dest="command", required=True)
    for command, names in COMMANDS.items():
        p = sub.add_parser(command)
        for name in names.split():
            p.add_argument(name, **ARGUMENTS.get(name, {}))
    try:
        return 0 if run(ap.parse_args()) else 1
    except (ListError, OSError) as e:
        print(e, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
