#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Takes out of the Rust path, one by one, what its algorithm has and that of C has not.

  ablations.py names                says what variants there are
  ablations.py apply NAME FOLDER    makes one of a copy of the checkout

ablations/ has a patch for each measure, which puts the algorithm of C back. Its first line says what it does.
"""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "ablations"

# What Rust saves by its algorithm, as a reader of the report knows it, by the name of the patch that takes it out.
MEASURES = {
    "no-request-memory": "no request memory",
    "no-reference-count": "no reference count",
    "no-cache-calls": "no page cache calls",
    "one-call": "one call",
    "no-memset": "no memset",
    "work-item-each": "one work item for many",
    "told-alone": "told at once",
    "flush-alone": "one flush for many",
}
# Not a change of the algorithm.
INLINE = "no-memset"
AS_IT_IS, ALL_FOUR, LIKE_C = "as-it-is", "all-four", "like-c"
# The patches of each variant.
VARIANTS = {
    AS_IT_IS: [],
    **{name: [name] for name in MEASURES},
    ALL_FOUR: list(MEASURES)[:4],
    LIKE_C: ["single-bio", "no-cache-calls", "one-call", INLINE],
}


def says(patch: str) -> str:
    return (FOLDER / f"{patch}.patch").read_text().partition("\n")[0]


def apply(variant: str, folder: Path) -> None:
    """Ends the program if a patch does not fit the code any more."""
    for name in VARIANTS[variant]:
        with open(FOLDER / f"{name}.patch", encoding="utf-8") as patch:
            ran = subprocess.run(["patch", "-p1", "--fuzz=0", "--forward", "--batch", "--no-backup-if-mismatch"],
                                 cwd=folder, stdin=patch, capture_output=True, text=True, check=False)
        if ran.returncode:
            # "patching file F", and then perhaps "Hunk #1 FAILED at 261."
            of_files = re.split(r"^patching file ", ran.stdout, flags=re.MULTILINE)[1:]
            unfit = [text.split()[0] for text in of_files if "FAILED" in text] or ["the checkout"]
            sys.exit(f"error: bench/ablations/{name}.patch does not fit {' and '.join(unfit)} any more")


def main() -> None:
    match sys.argv[1:]:
        case ["names"]:
            print("\n".join(VARIANTS))
        case ["apply", name, folder] if name in VARIANTS:
            apply(name, Path(folder))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
