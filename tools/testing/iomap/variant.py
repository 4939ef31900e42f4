# SPDX-License-Identifier: GPL-2.0
"""Does the compiler list the places that a new way of a request has to know about?

Adds a variant to `Kind` in a copy of the sources, compiles them as the build has, and compares the
functions in which the compiler finds a match that lacks it with those that the manual lists. Any two
variants have to be in different arms of one of these matches, or they are one variant.
"""

import re
import shutil
import sys
import tempfile
from itertools import combinations
from pathlib import Path

import rustc

FOLDER = "fs/iomap/direct_io"
MANUAL = "Documentation/rust/iomap.rst"


def listed(text: str) -> set[str]:
    """The functions in the table of the manual."""
    table = text.split("The places that match on the variant, without a wildcard:", 1)[1]
    rows = table.split("\nCompletion work", 1)[0]
    return set(re.findall(r"``(?:\w+::)?(\w+)\(\)``", rows))


def function_at(path: str, line: int) -> str:
    """The function that a line lies in."""
    for text in reversed(Path(path).read_text().splitlines()[:line]):
        if found := re.match(r"\s*(?:pub(?:\([^)]*\))? )?(?:const |unsafe )*fn (\w+)", text):
            return found[1]
    sys.exit(f"{path}:{line} is in no function")


def alike(text: str) -> list[tuple[str, ...]]:
    """The pairs of variants that no function of the file treats differently."""
    declared = re.search(r"enum Kind \{(.*?)\n\}", text, re.DOTALL)
    variants = re.findall(r"^    (\w+)", declared[1] if declared else "", re.MULTILINE)
    # The arms of the match in each function, as sets of variants.
    functions = [[set(re.findall(r"Kind::(\w+)", arm)) for arm in re.findall(r"((?:\|?\s*Kind::\w+[^|=]*)+)=>", body)]
                 for body in re.split(r"\bfn ", text)]
    return [pair for pair in combinations(variants, 2)
            if not any({pair[0]} == arm & set(pair) for arms in functions for arm in arms)]


def compile_with_variant(project: Path, build: Path, copy: str) -> str:
    """What the compiler says of the sources with one more variant, in `copy`."""
    shutil.copy(f"{project}/{rustc.CRATE}", copy)
    shutil.copytree(f"{project}/{FOLDER}", f"{copy}/direct_io")
    shutil.copytree(f"{project}/fs/iomap/tests", f"{copy}/tests")
    path = Path(copy, "direct_io/dio.rs")
    text = path.read_text()
    start = "pub(crate) enum Kind {\n"
    if text.count(start) != 1:
        sys.exit(f"{FOLDER}/dio.rs has no enum Kind")
    path.write_text(text.replace(start, start + "    /// A way that nobody knows yet.\n    New,\n"))
    return rustc.run(build, f"{copy}/direct_io.rs", copy, "metadata")[1]


def judge(project: Path, build: Path) -> str:
    """How many places there are, or an end that says how the lists differ."""
    manual = listed((project / MANUAL).read_text())
    with tempfile.TemporaryDirectory() as copy:
        said = compile_with_variant(project, build, copy)
        places = re.findall(r"error\[E0004\][^\n]*\n\s*--> ([^:\n]+):(\d+)", said)
        found = {function_at(path, int(line)) for path, line in places}
    if not found:
        sys.exit(f"the compiler finds no match that lacks the variant: {said.strip()[:200]}")
    if found != manual:
        sys.exit("; ".join(
            f"{what}: {', '.join(sorted(names))}" for what, names in (
                ("not in the manual", found - manual),
                ("in the manual, but the compiler does not complain", manual - found)) if names))
    if pairs := alike((project / FOLDER / "dio.rs").read_text()):
        sys.exit("no match separates " + ", ".join(" and ".join(pair) for pair in pairs))
    return f"{len(places)} matches in {len(found)} functions"
