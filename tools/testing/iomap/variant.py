# SPDX-License-Identifier: GPL-2.0
"""Does the compiler list the places that a new way of a request has to know about?

Adds a variant to `Travel` in a copy of the sources, compiles them as the build has, and compares the
functions in which the compiler finds a match that lacks it with those that the manual lists.
"""

import re
import shutil
import sys
import tempfile
from pathlib import Path

import rustc

FOLDER = "fs/iomap/direct_io"
MANUAL = "Documentation/rust/iomap.rst"


def listed(text: str) -> set[str]:
    """The functions in the table of the manual."""
    table = text.split("The places that match on the variant, without a wildcard:", 1)[1]
    rows = table.split("\nThe parts of a debt", 1)[0]
    return set(re.findall(r"``(?:\w+::)?(\w+)\(\)``", rows))


def function_at(path: str, line: int) -> str:
    """The function that a line lies in."""
    for text in reversed(Path(path).read_text().splitlines()[:line]):
        if found := re.match(r"\s*(?:pub(?:\([^)]*\))? )?(?:const |unsafe )*fn (\w+)", text):
            return found[1]
    sys.exit(f"{path}:{line} is in no function")


def compile_with_variant(project: Path, build: Path, copy: str) -> str:
    """What the compiler says of the sources with one more variant, in `copy`."""
    shutil.copy(f"{project}/{rustc.CRATE}", copy)
    shutil.copytree(f"{project}/{FOLDER}", f"{copy}/direct_io")
    shutil.copytree(f"{project}/fs/iomap/tests", f"{copy}/tests")
    path = Path(copy, "direct_io/travel.rs")
    text = path.read_text()
    start = "pub(crate) enum Travel {\n"
    if text.count(start) != 1:
        sys.exit(f"{FOLDER}/travel.rs has no enum Travel")
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
    return f"{len(places)} matches in {len(found)} functions"
