#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What "make bench" and the census have in common: the rows of a mix, and the table that census carries.

    mix.py rows CENSUS.json              the names of the rows of its mix, with commas between them
    mix.py sum CENSUS.json COUNT.json    what a request of that mix takes, of what "make bench" has counted
"""

import json
import re
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import rows as bench_rows

CENSUS = Path(__file__).resolve().parents[1] / "census"
TABLE = re.compile(r'(# <table>\nTABLE = """\n)(.*?)("""\n# </table>\n)', re.S)


def requests_of(path: str) -> dict[str, int]:
    """Requests by the row that is nearest to them."""
    known = {row.id for row in bench_rows.all_rows("qemu")}
    try:
        found: dict[str, Any] = json.loads(Path(path).read_text())
        requests: dict[str, int] = found["rows"]
        if unknown := requests.keys() - known:
            sys.exit(f"error: {path}: there is no row {min(unknown)}: it is of another version of census")
    except OSError as error:
        sys.exit(f"error: TRACE={path}: {error.strerror}")
    except (ValueError, KeyError, TypeError, AttributeError):
        sys.exit(f"error: TRACE={path}: not what tools/testing/iomap/census --json has written")
    if not requests:
        sys.exit(f"error: TRACE={path}: no request of it has a row")
    return requests


def summary(requests: dict[str, int], counted: dict[str, Any]) -> str:
    """The weighted sums of both sides, of the rows that were counted."""
    have = {row: n for row, n in requests.items() if {"c", "rust"} <= counted.get(row, {}).keys()}
    total = sum(have.values())
    if not total:
        sys.exit("error: no row of the mix was counted")
    c, rust = (sum(n * counted[row][side]["kernel"] for row, n in have.items()) / total for side in ("c", "rust"))
    lines = [f"  {100 * n / total:5.1f} %  {row}" for row, n in sorted(have.items(), key=lambda item: -item[1])]
    return "\n".join(["The mix of the trace, instructions of the kernel for each request:", *lines,
                      f"C {c:,.0f}, Rust {rust:,.0f}, Rust/C {rust / c:.3f}"])


def table(counted: dict[str, tuple[int, int]]) -> str:
    """For census: C and Rust of the rows that its requests may be matched with, a line or more for each group."""
    lines = []
    # Those that say nothing more than others do, and those that no trace tells from them.
    rows = [row for row in bench_rows.all_rows("qemu") if row.id in counted and not row.memory
            and row.kind not in ("mix", "nowait-append", "cached-read", "overwrite-1", "unwritten-1")
            and not (row.on and row.kind in ("randread", "randwrite"))]
    for group, mine in groupby(sorted(rows, key=lambda row: row.id.split("/")[:3]), lambda row: row.id.split("/")[:3]):
        line = "/".join(group)
        for i, row in enumerate(mine):
            entry = "{} {} {}".format(row.id.split("/", 3)[3], *counted[row.id])
            if len(line) + len(entry) > 116:
                lines.append(line)
                line, i = "/".join(group), 0
            line += ("," if i else "") + " " + entry
        lines.append(line)
    return "\n".join(lines) + "\n"


def update(counted: dict[str, Any]) -> None:
    """Gives census the rows of a full run."""
    numbers = {row: (round(e["c"]["kernel"]), round(e["rust"]["kernel"])) for row, e in counted.items()
               if {"c", "rust"} <= e.keys()}
    CENSUS.write_text(TABLE.sub(lambda found: found[1] + table(numbers) + found[3], CENSUS.read_text()))


def main() -> None:
    if sys.argv[1:2] == ["rows"] and len(sys.argv) == 3:
        print(",".join(requests_of(sys.argv[2])))
    elif sys.argv[1:2] == ["sum"] and len(sys.argv) == 4:
        print(summary(requests_of(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text())["rows"]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
