#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The wrong edits of list.toml: reads them, makes them, and judges what a kernel said of one.

  mutants.py check LIST ROOT                 does each edit apply to the sources in ROOT?
  mutants.py names LIST [--quick] [PATTERN...]   the names that match, in the order to run them
  mutants.py apply LIST PRISTINE TREE [NAME] TREE's files are those of PRISTINE, but for the edit
  mutants.py baseline CONSOLE STATUS OUT     what the kernel without an edit has passed
  mutants.py judge CONSOLE STATUS BASELINE   "caught BY" or "survived"
  mutants.py record RESULTS NAME OUTCOME SECONDS [BY]   adds a line to the results
  mutants.py report LIST RESULTS BASELINE OUT report.md and mutants.json; the last line

`make mutants` runs these, see mutants.sh.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from only import matches  # noqa: E402

SPLAT = os.path.join(os.path.dirname(HERE), "splat.sh")
# What proves something. The others run as well, and may catch as well.
SUITES = ("iomap_dio_scripts", "iomap_dio_fuzz")
FIELDS = {"file", "breaks", "old", "new", "equivalent"}


class ListError(Exception):
    """Something is wrong with the list, not with the code."""


class Mutant:
    """One wrong edit."""

    def __init__(self, name, fields):
        unknown = set(fields) - FIELDS
        if unknown:
            raise ListError(f"mutant {name}: there is no such field: {', '.join(sorted(unknown))}")
        for field in ("file", "breaks", "old"):
            if not str(fields.get(field, "")).strip():
                raise ListError(f"mutant {name}: {field} is missing")
        self.name = name
        self.file = fields["file"]
        self.breaks = fields["breaks"]
        self.old = fields["old"]
        self.new = fields.get("new", "")
        self.equivalent = fields.get("equivalent", "")

    def edit(self, text):
        """The text of the file with the edit made."""
        found = pattern(self.old).findall(text)
        if len(found) != 1:
            what = " ".join(self.old.split())
            raise ListError(f"mutant {self.name}: {self.file} has {len(found) or 'no'} "
                            f"{'places' if len(found) > 1 else 'place'} with '{what}', not one")
        edited = pattern(self.old).sub(lambda _: self.new.strip(), text)
        if edited == text:
            raise ListError(f"mutant {self.name}: the edit changes nothing")
        return edited


def pattern(old):
    """Matches `old` however it is laid out, and whatever comments stand between its words."""
    gap = r"(?:\s|//[^\n]*(?=\n))+"
    return re.compile(gap.join(re.escape(word) for word in old.split()))


def read_list(path):
    """All mutants, by name, in the order of the list."""
    try:
        with open(path, "rb") as f:
            tables = tomllib.load(f)
    except tomllib.TOMLDecodeError as e:
        raise ListError(f"{path}: {e}") from e
    for name, fields in tables.items():
        if not isinstance(fields, dict):
            raise ListError(f"{path}: {name} is outside of any mutant")
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            raise ListError(f"mutant {name}: a name is small letters, digits and single dashes")
    return {name: Mutant(name, fields) for name, fields in tables.items()}


def slurp(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def check(mutants, root):
    """What is wrong with the list, a line each."""
    errors, texts = [], {}
    for m in mutants.values():
        try:
            if m.file not in texts:
                texts[m.file] = slurp(os.path.join(root, m.file))
            m.edit(texts[m.file])
        except OSError as e:
            errors.append(f"mutant {m.name}: {m.file}: {e.strerror}")
        except ListError as e:
            errors.append(str(e))
    return errors


def select(mutants, patterns=(), quick=False):
    """The names to run: a pattern is a glob over the whole name or a part of it.

    Edits of the kernel crate come last: each makes that crate be compiled again, and so does the
    first one after it that leaves it alone.
    """
    names = [n for n in mutants if matches(n, patterns)]
    if quick:
        names = names[::3]
    return sorted(names, key=lambda n: mutants[n].file.startswith("rust/"))


def write_if_changed(path, text):
    """Leaves a file alone, and its time, that has this text already."""
    try:
        if slurp(path) == text:
            return
    except OSError:
        pass
    with open(path + ".tmp", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".tmp", path)


def apply(mutants, pristine, tree, name=None):
    """Makes the edit, and undoes whichever was made before."""
    if name is not None and name not in mutants:
        raise ListError(f"there is no mutant {name}")
    for file in {m.file for m in mutants.values()}:
        text = slurp(os.path.join(pristine, file))
        if name is not None and mutants[name].file == file:
            text = mutants[name].edit(text)
        write_if_changed(os.path.join(tree, file), text)


# --- What a kernel has said ---

LINE = re.compile(r"^\[ *\d+\.\d+\](?:\[[^\]]*\])? ?(.*)$")
RESULT = re.compile(r"^( *)(ok|not ok) \d+ ?(?:- )?(.*)$")
SUBTEST = re.compile(r"^( *)# Subtest: (.+)$")
COMPLAINT = re.compile(r":(\d+): the kernel complains:$")


class Tests:
    """The test cases in a console log, as far as it goes.

    Results of suites are left out, they only repeat what their cases say.
    """

    def __init__(self, text):
        self.results = []       # (line number, name, passed)
        self.begun = []         # (line number, name of a suite or of a case with parameters)
        stack = []              # (indentation of the results inside, name)
        for number, line in enumerate(text.splitlines(), 1):
            m = LINE.match(line.rstrip("\r"))
            line = m.group(1) if m else line.rstrip("\r")
            m = SUBTEST.match(line)
            if m:
                depth = len(m.group(1))
                stack = [s for s in stack if s[0] < depth] + [(depth, m.group(2))]
                self.begun.append((number, "/".join(s[1] for s in stack)))
                continue
            m = RESULT.match(line)
            if not m or not m.group(1):
                continue
            depth = len(m.group(1))
            name = re.sub(r" *#.*$", "", m.group(3)).strip()
            path = [s[1] for s in stack if s[0] <= depth] + [name]
            # A case with parameters ends with a result of its own name.
            stack = [s for s in stack if s[0] <= depth]
            self.results.append((number, "/".join(path), m.group(2) == "ok"))

    def passed(self):
        return {name for _, name, ok in self.results if ok}

    def first_failure(self):
        return next(((number, name) for number, name, ok in self.results if not ok), None)

    def around(self, number):
        """The case that was running at a line: the one whose result comes next."""
        for at, name, _ in self.results:
            if at > number:
                return name
        begun = [name for at, name in self.begun if at < number]
        done = [name for at, name, _ in self.results if at < number]
        if not begun:
            return ""
        if done and done[-1].startswith(begun[-1] + "/"):
            return f"{begun[-1]}, after {done[-1].rsplit('/', 1)[-1]}"
        return begun[-1]


def first_complaint(console):
    """The line number of the first complaint of the kernel and what it says, or None."""
    out = subprocess.run(["bash", SPLAT, console], stdout=subprocess.PIPE, check=False,
                         encoding="utf-8", errors="replace").stdout
    lines = out.splitlines()
    m = COMPLAINT.search(lines[0]) if lines else None
    if not m:
        return None
    what = lines[1].strip() if len(lines) > 1 else "?"
    m2 = LINE.match(what)
    return int(m.group(1)), (m2.group(1) if m2 else what).strip()


def judge(console, status, baseline):
    """How the mutant was caught, or None.

    `status` is that of the guest: 124 if it did not come to an end in time, 125 if it came to one
    too early, 0 if it went all the way.
    """
    tests = Tests(slurp(console))
    failure, complaint = tests.first_failure(), first_complaint(console)
    if failure and (not complaint or failure[0] < complaint[0]):
        return failure[1]
    if complaint:
        number, what = complaint
        where = tests.around(number)
        return f"splat: {what}" + (f" (in {where})" if where else "")
    last = tests.around(sys.maxsize)
    where = f" (in {last})" if last else ""
    if status == 124:
        return f"hang{where}"
    if status != 0:
        return f"crash: the kernel ended with status {status}{where}"
    missing = sorted(set(baseline["cases"]) - tests.passed())
    if missing:
        return f"not run: {missing[0]}" + (f" and {len(missing) - 1} more" if missing[1:] else "")
    return None


def make_baseline(console, status):
    """What the kernel without an edit has passed; an error if it is not fit to prove anything."""
    tests = Tests(slurp(console))
    bad = judge(console, status, {"cases": []})
    if bad:
        raise ListError(f"the kernel without an edit fails: {bad}")
    cases = sorted(tests.passed())
    for suite in SUITES:
        if not any(name.startswith(suite + "/") for name in cases):
            raise ListError(f"the kernel has no test suite {suite}: is CONFIG_IOMAP_DIO_KUNIT_TEST on?")
    return {"cases": cases}


# --- The report ---

def outcomes(mutants, results):
    """The results with what the list says; `outcome` is caught, survived, equivalent or error."""
    rows = []
    for r in results:
        m = mutants[r["name"]]
        outcome = r["outcome"]
        if outcome == "survived" and m.equivalent:
            outcome = "equivalent"
        rows.append({"name": m.name, "file": m.file, "breaks": m.breaks, "outcome": outcome,
                     "by": m.equivalent if outcome == "equivalent" else r.get("by", ""),
                     "claimed_equivalent": bool(m.equivalent), "seconds": r.get("seconds", 0)})
    return rows


def last_line(rows):
    n = {o: sum(r["outcome"] == o for r in rows)
         for o in ("caught", "survived", "equivalent", "error")}
    line = f"{n['caught']} caught, {n['survived']} survived, {n['equivalent']} equivalent"
    return (f"{n['error']} in error, " if n["error"] else "") + line


def cell(text):
    return " ".join(str(text).split()).replace("|", "\\|")


def markdown(rows, baseline, about):
    by_case = {}
    for r in rows:
        if r["outcome"] == "caught":
            by_case.setdefault(r["by"].split(":")[0] if r["by"].startswith(("splat", "crash"))
                               else r["by"], []).append(r["name"])
    out = ["# Wrong edits to the Rust path, and what caught them", ""]
    out += [about, ""] if about else []
    out += [f"{last_line(rows)}. The kernel without an edit passes {len(baseline['cases'])} cases.",
            "A mutant is one wrong edit; *caught by* is the first test case that failed, or what the",
            "kernel's own checkers said. The guest is stopped there, so others may catch it too.", ""]
    for title, outcome in (("Survived", "survived"), ("In error", "error")):
        some = [r for r in rows if r["outcome"] == outcome]
        if some:
            out += [f"## {title}", ""]
            out += [f"* `{r['name']}` ({r['file']}): {r['breaks']}"
                    + (f" - {cell(r['by'])}" if r["by"] else "") for r in some] + [""]
    for file in dict.fromkeys(r["file"] for r in rows):
        out += [f"## {file}", "", "| mutant | breaks | caught by |", "|---|---|---|"]
        for r in rows:
            if r["file"] != file:
                continue
            by = {"caught": r["by"], "survived": "**survived**", "error": "**error**",
                  "equivalent": f"equivalent: {r['by']}"}[r["outcome"]]
            if r["outcome"] == "caught" and r["claimed_equivalent"]:
                by += " (the list says that nobody can tell)"
            out.append(f"| {r['name']} | {cell(r['breaks'])} | {cell(by)} |")
        out.append("")
    out += ["## By test", "", "| caught by | mutants |", "|---|---|"]
    out += [f"| {cell(by)} | {len(names)}: {', '.join(names)} |"
            for by, names in sorted(by_case.items(), key=lambda i: (-len(i[1]), i[0]))]
    return "\n".join(out) + "\n"


def report(mutants, results, baseline, out, about=""):
    rows = outcomes(mutants, results)
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "report.md"), "w", encoding="utf-8") as f:
        f.write(markdown(rows, baseline, about))
    with open(os.path.join(out, "mutants.json"), "w", encoding="utf-8") as f:
        json.dump({"about": about, "baseline": baseline["cases"], "mutants": rows}, f, indent=1)
        f.write("\n")
    for r in rows:
        if r["outcome"] in ("survived", "error"):
            print(f"{r['outcome']}: {r['name']} ({r['file']}): {r['breaks']}"
                  + (f": {r['by']}" if r["by"] else ""))
        elif r["claimed_equivalent"] and r["outcome"] == "caught":
            print(f"not equivalent: {r['name']} was caught by {r['by']}")
    print(last_line(rows))
    return bool(rows) and all(r["outcome"] in ("caught", "equivalent") for r in rows)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    sub = ap.add_subparsers(dest="command", required=True)
    p = sub.add_parser("check")
    p.add_argument("list")
    p.add_argument("root")
    p = sub.add_parser("names")
    p.add_argument("list")
    p.add_argument("--quick", action="store_true")
    p.add_argument("patterns", nargs="*")
    p = sub.add_parser("apply")
    p.add_argument("list")
    p.add_argument("pristine")
    p.add_argument("tree")
    p.add_argument("name", nargs="?")
    p = sub.add_parser("baseline")
    p.add_argument("console")
    p.add_argument("status", type=int)
    p.add_argument("out")
    p = sub.add_parser("judge")
    p.add_argument("console")
    p.add_argument("status", type=int)
    p.add_argument("baseline")
    p = sub.add_parser("record")
    p.add_argument("results")
    p.add_argument("name")
    p.add_argument("outcome", choices=("caught", "survived", "error"))
    p.add_argument("seconds", type=int)
    p.add_argument("by", nargs="?", default="")
    p = sub.add_parser("report")
    p.add_argument("list")
    p.add_argument("results")
    p.add_argument("baseline")
    p.add_argument("out")
    p.add_argument("--about", default="")
    args = ap.parse_args()

    try:
        mutants = read_list(args.list) if "list" in args else {}
        if args.command == "check":
            errors = check(mutants, args.root)
            print("\n".join(errors) if errors else f"{len(mutants)} mutants apply")
            return 1 if errors else 0
        if args.command == "names":
            names = select(mutants, args.patterns, args.quick)
            print("".join(n + "\n" for n in names), end="")
            return 0 if names else 1
        if args.command == "apply":
            apply(mutants, args.pristine, args.tree, args.name)
        elif args.command == "baseline":
            baseline = make_baseline(args.console, args.status)
            with open(args.out, "w", encoding="utf-8") as f:
                json.dump(baseline, f)
            print(len(baseline["cases"]))
        elif args.command == "judge":
            by = judge(args.console, args.status, json.loads(slurp(args.baseline)))
            print(f"caught {by}" if by else "survived")
        elif args.command == "record":
            with open(args.results, "a", encoding="utf-8") as f:
                json.dump({"name": args.name, "outcome": args.outcome, "seconds": args.seconds,
                           "by": args.by}, f)
                f.write("\n")
        elif args.command == "report":
            results = [json.loads(line) for line in slurp(args.results).splitlines()]
            return 0 if report(mutants, results, json.loads(slurp(args.baseline)), args.out,
                               args.about) else 1
    except (ListError, OSError) as e:
        print(e, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
