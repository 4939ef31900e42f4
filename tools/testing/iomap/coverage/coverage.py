#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What the scripts reached: lines of the C file, edges of the Rust code.

Reads what coverage/guest.sh saved of two guests, one with the named scripts and one with those
drawn at random, and writes report.md and coverage.json. `make coverage` runs it, see coverage.sh.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ORACLE = "fs/iomap/direct-io.c"
OBJECT = "fs/iomap/direct_io_compare"
# The path, and the abstractions that it is built from.
RUST = re.compile(r"(fs/iomap/direct_io(\.rs|/.*\.rs)|rust/kernel/iomap(\.rs|/.*\.rs)|"
                  r"rust/kernel/(block/(bdev|bio|plug)|fs/inode|iov/iter|task/may_sleep)\.rs)$")
# Not of the path: the KUnit tests in Rust.
NOT_RUST = re.compile(r"(fs/iomap/tests/.*|rust/kernel/iomap/tests\.rs)$")


class Trouble(Exception):
    """One line for whoever ran this."""


def slurp(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


# --- The list of what cannot be reached ---


class Reason:
    """A line of the file `unreachable`."""

    def __init__(self, where, words, why):
        self.where = where
        self.nth = 1
        found = re.fullmatch(r"(.*\S) #(\d+)", words)
        if found:
            words, self.nth = found.group(1), int(found.group(2))
        self.words = words
        self.why = why

    def __str__(self):
        return f"{self.where}: {self.words}" + (f" #{self.nth}" if self.nth > 1 else "")


def read_reasons(path):
    """Where it is (a C function, or a Rust file), words of the line, why: with tabs in between."""
    reasons = []
    for n, line in enumerate(slurp(path).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [f.strip() for f in re.split(r"\t+", line.strip())]
        if len(fields) != 3 or not all(fields):
            raise Trouble(f"{path}:{n}: three fields with tabs in between are wanted, "
                          f"not {len(fields)}")
        reasons.append(Reason(*fields))
    return reasons


# --- C ---


def functions_of(source):
    """For each line (from 1) the function it is in. The style of the kernel is relied upon."""
    inside, name, result = None, None, [None]
    for line in source.splitlines():
        found = re.match(r"(?=[A-Za-z_]).*?\b(\w+)\(", line)
        if found and not line.startswith("#"):
            name = found.group(1)
        if line.startswith("{"):
            inside = name
        result.append(inside)
        if line.startswith("}"):
            inside = None
    return result


def parse_gcov(text):
    """{line: count} of the lines that have code."""
    counts = {}
    for row in text.splitlines():
        found = re.match(r"\s*([0-9]+|#####|=====)\*?:\s*([0-9]+):", row)
        if found and found.group(2) != "0":
            count = found.group(1)
            counts[int(found.group(2))] = int(count) if count.isdigit() else 0
    return counts


def gcov(args, run):
    """{line: count} of the oracle, as `run` has left it."""
    # Where the build is, since the names of the sources are relative to it.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(args.build)) as tmp:
        for src in (os.path.join(args.build, OBJECT + ".gcno"),
                    os.path.join(run, os.path.basename(OBJECT) + ".gcda")):
            shutil.copy(src, tmp)
        done = subprocess.run([f"llvm-cov-{args.llvm}", "gcov", os.path.basename(OBJECT) + ".gcda"],
                              cwd=tmp, capture_output=True, text=True, check=False)
        path = os.path.join(tmp, os.path.basename(ORACLE) + ".gcov")
        if done.returncode or not os.path.exists(path):
            raise Trouble(f"llvm-cov-{args.llvm} gcov on {run}: {done.stderr.strip() or done.stdout}")
        counts = parse_gcov(slurp(path))
    if not any(counts.values()):
        raise Trouble(f"{run}: no line of {ORACLE} was counted")
    return counts


def explain_c(lines, reasons):
    """Gives unreached lines their reason; returns what is wrong with the list."""
    wrong = []
    for r in reasons:
        if r.where.endswith(".rs"):
            continue
        there = [line for line in lines if line["function"] == r.where
                 and r.words in " ".join(line["text"].split())]
        if len(there) < r.nth:
            wrong.append(f"unreachable: there is no such line: {r}")
        elif there[r.nth - 1]["named"] or there[r.nth - 1]["random"]:
            wrong.append(f"unreachable: it is reached: {r} (line {there[r.nth - 1]['line']})")
        else:
            there[r.nth - 1]["reason"] = r.why
    return wrong


# --- Rust ---


def read_edges(run):
    """Where _stext was, and [(address, reached)]."""
    rows = [line.split() for line in slurp(os.path.join(run, "edges")).splitlines()]
    if len(rows) < 2 or rows[0][1] != "_stext":
        raise Trouble(f"{run}/edges: there are none")
    return int(rows[0][0], 16), [(int(pc, 16), flag != "0") for pc, flag in rows[1:]]


def symbolize(args, pcs):
    """For each address the frames, innermost first, as (file, line, function)."""
    done = subprocess.run([f"llvm-symbolizer-{args.llvm}", "--output-style=JSON", "--inlines",
                           f"--obj={args.build}/linux"], input="".join(f"{pc:#x}\n" for pc in pcs),
                          capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or len(answers) != len(pcs):
        raise Trouble(f"llvm-symbolizer-{args.llvm}: {done.stderr.strip() or 'lines are missing'}")
    prefix = os.path.join(args.tree, "")
    result = []
    for answer in answers:
        frames = []
        for s in answer.get("Symbol") or []:
            name = os.path.normpath(s["FileName"]) if s["FileName"] else ""
            frames.append((name.removeprefix(prefix), s["Line"], s["FunctionName"]))
        result.append(frames)
    return result


def in_tree(frames):
    """The frames that lie in files of the tree, as (file, line)."""
    return [(f[0], f[1]) for f in frames if not f[0].startswith("/") and f[0].endswith(".rs")]


def place(frames):
    """The innermost frame in a file of ours, and the function that has the code; or nothing."""
    if any(NOT_RUST.match(f[0]) or "::tests::" in f[2] for f in frames):
        return None
    for f in frames:
        if RUST.match(f[0]):
            return f[0], f[1], frames[-1][2]
    return None


def linked_at(args):
    """The address of _stext in the file."""
    done = subprocess.run([f"llvm-nm-{args.llvm}", f"{args.build}/linux"], capture_output=True,
                          text=True, check=True)
    found = re.search(r"^([0-9a-f]+) \w _stext$", done.stdout, re.M)
    return int(found.group(1), 16)


def rust_edges(args):
    """What there is to know of each edge."""
    named_base, named = read_edges(args.named)
    random_base, random = read_edges(args.random)
    at = linked_at(args)
    if [pc - named_base for pc, _ in named] != [pc - random_base for pc, _ in random]:
        raise Trouble("the two guests had different kernels")
    edges = []
    for frames, (_, n), (_, r) in zip(symbolize(args, [pc - named_base + at for pc, _ in named]),
                                      named, random):
        where = place(frames)
        if where:
            edges.append({"file": where[0], "line": where[1], "in": where[2],
                          "frames": in_tree(frames), "named": n, "random": r})
    if not edges:
        raise Trouble("no edge is in a Rust file of ours: has the kernel no debug information?")
    return edges


def explain_rust(edges, reasons, sources):
    """Gives edges their text, and unreached ones their reason: that of any line they come from."""
    wrong = []
    used = set()

    def text_of(name, line):
        text = sources.get(name, [])
        return text[line - 1].strip() if 0 < line <= len(text) else "(between lines)"

    for e in edges:
        e["text"] = text_of(e["file"], e["line"])
        if e["named"] or e["random"]:
            continue
        lines = [(name, text_of(name, line)) for name, line in e["frames"]]
        for r in reasons:
            if "reason" not in e and any(r.where == name and r.words in text
                                         for name, text in lines):
                e["reason"] = r.why
                used.add(r)
    for r in reasons:
        if r.where.endswith(".rs") and r not in used:
            wrong.append(f"unreachable: no such edge is left out: {r}")
    return wrong


# --- The report ---


def counted(rows):
    return {"total": len(rows), "named": sum(bool(r["named"]) for r in rows),
            "random": sum(bool(r["random"]) for r in rows),
            "together": sum(bool(r["named"] or r["random"]) for r in rows)}


def unreached(rows):
    return [r for r in rows if not (r["named"] or r["random"])]


def table(title, unit, rows):
    """A row for each file, and one for all."""
    files = {}
    for r in rows:
        files.setdefault(r["file"], []).append(r)
    text = [f"| {title} | {unit} | named scripts | random scripts | together |",
            "|---|--:|--:|--:|--:|"]
    for name, some in [*sorted(files.items()), ("all", rows)][:None if len(files) > 1 else 1]:
        n = counted(some)
        text.append(f"| {name} | {n['total']} | {n['named']} | {n['random']} "
                    f"| {n['together']} ({100 * n['together'] / n['total']:.1f} %) |")
    return "\n".join(text) + "\n"


def listing(rows):
    """Unreached ones; those of one line and function are one."""
    groups = {}
    for r in unreached(rows):
        key = (r["file"], r["line"], r.get("in") or r.get("function"), r.get("reason", ""))
        groups.setdefault(key, []).append(r)
    if not groups:
        return "None.\n"
    text = []
    for (name, line, function, reason), some in sorted(groups.items()):
        times = f" ({len(some)} times)" if len(some) > 1 else ""
        text.append(f"* `{name}:{line}` in `{function}`{times}: `{some[0]['text'].strip()}`"
                    + (f": {reason}" if reason else ""))
    return "\n".join(text) + "\n"


def last_line(lines, edges):
    c, rust = counted(lines), counted(edges)
    return (f"C: {c['together']} of {c['total']} lines, "
            f"Rust: {rust['together']} of {rust['total']} edges")


def markdown(lines, edges, wrong, about):
    text = ["# What the scripts reach", about]
    text.append("Lines of the C file, counted as by gcov:")
    text.append(table("C", "lines", lines))
    left = unreached(lines)
    open_lines = [line for line in left if "reason" not in line]
    text.append("## Lines not reached")
    text.append(listing(open_lines))
    text.append("## Lines that cannot be reached")
    text.append(listing([line for line in left if "reason" in line]))
    text.append("## Rust")
    text.append("An edge leads to a piece of machine code that is entered only as a whole. It belongs "
                "to the line of ours that it was made from; a line that is inlined several times, or "
                "is generic, has its edges each time. All of `direct_io.o` counts, and of the kernel "
                "crate what the path is built from.")
    text.append(table("Rust", "edges", edges))
    left = unreached(edges)
    text.append("## Edges not reached")
    text.append(listing([e for e in left if "reason" not in e]))
    text.append("## Edges that cannot be reached")
    text.append(listing([e for e in left if "reason" in e]))
    if wrong:
        text.append("## Wrong in the list of what cannot be reached")
        text.append("\n".join(f"* {w}" for w in wrong) + "\n")
    return "\n\n".join(t.rstrip("\n") for t in text) + "\n"


def report(args):
    """Writes the report; is all reached that can be?"""
    reasons = read_reasons(args.unreachable)
    source = slurp(os.path.join(args.tree, ORACLE))
    functions, text = functions_of(source), source.splitlines()
    named, random = gcov(args, args.named), gcov(args, args.random)
    if set(named) != set(random):
        raise Trouble("the two guests had different kernels")
    lines = [{"file": ORACLE, "line": n, "function": functions[n], "text": text[n - 1].strip(),
              "named": named[n], "random": random[n]} for n in sorted(named)]
    wrong = explain_c(lines, reasons)

    edges = rust_edges(args)
    sources = {name: slurp(os.path.join(args.tree, name)).splitlines()
               for name in {f[0] for e in edges for f in e["frames"]}
               if os.path.exists(os.path.join(args.tree, name))}
    notes = explain_rust(edges, reasons, sources)

    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "report.md"), "w", encoding="utf-8") as f:
        f.write(markdown(lines, edges, wrong + notes, args.about))
    with open(os.path.join(args.out, "coverage.json"), "w", encoding="utf-8") as f:
        json.dump({"about": args.about, "c": counted(lines), "rust": counted(edges),
                   "unreached_lines": unreached(lines), "unreached_edges": unreached(edges),
                   "lines": {str(x["line"]): x["named"] + x["random"] for x in lines}},
                  f, indent=1)
        f.write("\n")
    missed = [x for x in unreached(lines) if "reason" not in x]
    for x in missed:
        print(f"not reached: {x['file']}:{x['line']} in {x['function']}(): {x['text']}")
    for w in wrong + notes:
        print(w)
    print(last_line(lines, edges))
    return not missed and not wrong


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for option in ("llvm", "tree", "build", "named", "random", "unreachable", "out"):
        ap.add_argument(f"--{option}", required=True)
    ap.add_argument("--about", default="")
    try:
        return 0 if report(ap.parse_args()) else 1
    except (Trouble, OSError, subprocess.CalledProcessError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
