#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Does the catalogue of behaviours agree with the scripts and with the rest of the repository?

  catalogue.py PROJECT

Prints what does not, a line each, and fails then.
"""

import fnmatch
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PAGE = "Documentation/rust/iomap-behaviours.rst"
SCRIPTS = "fs/iomap/tests/scripts"
USERS = ("fs", "rust", "Documentation", "tools/testing/iomap")

NUMBER = re.compile(r"\b[DQ][0-9]+\b")
# A number, its C functions, and the indented text.
ENTRY = re.compile(r"^([DQ][0-9]+) : ``\w+\(\)``.*\n((?:  .*\n)+)", re.MULTILINE)
NAME = re.compile(r'\.name = "([^"]*)"')
# A script as the documentation names it, where "..." is any text.
QUOTE = re.compile(r'"((?:[DQ][0-9]+|\.\.\.) [^"]*)"')


def problems(docs: Mapping[str, str], scripts: Sequence[str],
             used: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the page, given texts by path, names of scripts, and users of numbers."""
    entries = ENTRY.findall(docs[PAGE])
    defined = [number for number, _ in entries]
    shown = {number for name in scripts for number in NUMBER.findall(name)}

    for number in sorted({n for n in defined if defined.count(n) > 1}):
        yield f"{number} is defined {defined.count(number)} times in {PAGE}"
    for number, path in used.items():
        if number not in defined:
            yield f"{number} is in {path}, but has no entry '{number} : ``function()``' in {PAGE}"
    for number, body in entries:
        named = {n for name in QUOTE.findall(flat(body)) for n in NUMBER.findall(name)}
        if "Not shown: " in flat(body):
            if number in shown:
                yield f"{number} has a reason after 'Not shown:' in {PAGE}, but a script shows it"
        elif number not in shown:
            yield f"{number} is shown by no script, and has no reason after 'Not shown:' in {PAGE}"
        elif number not in named:
            yield f"{number} has scripts, but {PAGE} names none of them"
    for path, text in docs.items():
        for name in QUOTE.findall(flat(text)):
            if not fnmatch.filter(scripts, name.replace("...", "*")):
                yield f'{path} names the script "{name}", which is not in {SCRIPTS}'


def sentences(page: str) -> dict[str, str]:
    """The first sentence of each entry, by number."""
    return {number: re.split(r"(?<=\.) ", flat(body), maxsplit=1)[0] for number, body in ENTRY.findall(page)}


def flat(text: str) -> str:
    """The text as one line."""
    return " ".join(text.split())


def main() -> None:
    """Reads the project and judges it."""
    root = Path(sys.argv[1])
    docs: dict[str, str] = {}
    used: dict[str, str] = {}
    for path in sorted(p for d in USERS for p in (root / d).rglob("*") if p.is_file() and p.suffix != ".png"):
        text = path.read_text(encoding="utf-8", errors="replace")
        name = str(path.relative_to(root))
        if path.suffix == ".rst":
            docs[name] = text
        for number in NUMBER.findall(text):
            used.setdefault(number, name)
    scripts = [n for p in sorted((root / SCRIPTS).glob("*.c")) for n in NAME.findall(p.read_text())]

    found = list(problems(docs, scripts, used))
    if found:
        sys.exit("\n".join(found))
    print(f"{len(ENTRY.findall(docs[PAGE]))} numbers, {len(scripts)} scripts")


if __name__ == "__main__":
    main()
