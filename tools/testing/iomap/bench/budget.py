#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Is the Rust path as cheap as the file "budget" says it is?

The budget has, for each row, the instructions of the path's own code for each
I/O and what the row adds to the raw device, or all that it takes where the raw
device takes more. The own code may take 1 % more, the whole row 2 %, for its
window is short, 3 % with a journal, and 10 % if an interrupt or a worker decides
how many I/Os come together. Only the own code has a budget where chance decides
more than that. In one of some hundred rows chance goes further: count.sh counts
the rows named in the file "--again" anew.
"""

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import count_report
import counts
import rows as bench_rows

Figures = dict[str, dict[str, Any]]

ALLOWED_OWN, ALLOWED, ALLOWED_JOURNAL, ALLOWED_UNSTEADY = 0.01, 0.02, 0.03, 0.1
# How the second figure is called, and in words.
SECOND = {"added": "added to the raw device", "total": "in the whole kernel"}
HEAD = """\
# Instructions of the Rust path on x86_64, a workload a line: bench/budget.py says which, and what may exceed them.
# "make count WRITE=1" writes this file; a figure that rises wants its reason in the commit message.
"""


def up_to_chance(row: bench_rows.Row) -> bool:
    """Whether what the row takes besides its own code differs by more than 10 % from one run to the next.

    How often somebody polls, how long the list is of what is completed together, how far copies are apart.
    """
    return row.engine == "poll" or (row.journal and (
        (bool(row.on) and row.depth > 1) or row.kind == "reflinked"))


def has_budget(row: bench_rows.Row) -> bool:
    """Whether two runs agree on anything.

    Chance decides how often btrfs refuses a write of checksummed blocks that may not wait: io_uring tries it again.
    """
    return row.fs != "btrfs-csum" or row.is_read


def measured(rows: dict[str, dict[str, Any]]) -> tuple[Figures, Figures]:
    """The same of a run, and what each figure is made of: functions, or parts with the raw row's share taken off."""
    known = {row.id: row for row in bench_rows.all_rows()}
    out: Figures = {}
    made_of: Figures = {}
    for row_id, entry in rows.items():
        if "raw" not in entry or not has_budget(known[row_id]):
            continue
        side, raw = entry["rust"], rows[entry["raw_id"]]["c"]
        out[row_id] = {"own": side["own"]}
        made_of[row_id] = {"own": {f["name"]: f["instructions"] for f in side["functions"] if f["part"] == counts.OWN}}
        if not up_to_chance(known[row_id]):
            second = "added" if side["added"] > 0 else "total"
            out[row_id][second] = side["kernel" if second == "total" else second]
            made_of[row_id][second] = {part: side["parts"][part] - raw["parts"][part] for part in counts.PARTS}
    return out, made_of


def read(text: str) -> Figures:
    return {f"{fs}/{name}": row for name, systems in tomllib.loads(text).items() for fs, row in systems.items()}


def written(figures: Figures) -> str:
    """The file: TOML, by workload and file system."""
    lines: dict[str, list[str]] = {}
    for row_id, row in figures.items():
        fs, _, name = row_id.partition("/")
        numbers = ", ".join(f"{what} = {value:.1f}" for what, value in row.items())
        lines.setdefault(name, []).append(f"{fs} = {{ {numbers} }}")
    return HEAD + "".join(f'"{name}" = {{ {", ".join(systems)} }}\n' for name, systems in lines.items())


def allowed(row_id: str, what: str) -> float:
    """How much more of this the row may take."""
    row = next(row for row in bench_rows.all_rows() if row.id == row_id)
    # A write to reflinked blocks has the mappings that the last one has left; scsi_debug has timers. XFS refuses
    # some of the writes of two mappings that may not wait, and io_uring tries these again.
    unsteady = row.on or row.fs not in ("ext4", "xfs") or row.kind in ("mix", "reflinked", "atomic") or (
        row.fs == "xfs" and row.kind == "split-write")
    if unsteady or what == "own":
        return ALLOWED_UNSTEADY if unsteady else ALLOWED_OWN
    if row.kind == "dsync-flush" and row.engine != "psync":
        # The worker that serves many writes with one flush waits more often or less, which is 2 % of the whole kernel.
        return ALLOWED_UNSTEADY
    return ALLOWED_JOURNAL if row.journal else ALLOWED


def check(budget: Figures, found: Figures, made_of: Figures) -> Iterator[tuple[str, str, str]]:
    """Lines (verdict, row, text), one for each figure of each row: ok, FAIL, or better."""
    for row_id, row in found.items():
        if row_id not in budget:
            yield "FAIL", row_id, "has no budget: make count WRITE=1"
            continue
        for what in [what for what in ("own", *SECOND) if what in row]:
            limit, is_now = budget[row_id].get(what, 0), row[what]
            if not limit:
                yield "FAIL", row_id, f"has no budget for what is {SECOND[what]}: make count WRITE=1"
                continue
            name = SECOND.get(what, "own code")
            said = f"{name} {is_now:.0f}, budget {limit:.0f} ({100 * (is_now / limit - 1):+.1f} %)"
            if is_now > limit * (1 + allowed(row_id, what)):
                parts = sorted(made_of[row_id][what].items(), key=lambda part: -part[1])[:5]
                yield "FAIL", row_id, f"{said}: {', '.join(f'{name} {value:.0f}' for name, value in parts)}"
            elif is_now < limit * (1 - allowed(row_id, what)):
                yield "better", row_id, f"{said}: tighten the budget with make count WRITE=1"
            else:
                yield "ok", row_id, said


def main() -> None:
    parser = count_report.arguments(__doc__)
    parser.add_argument("--budget", required=True, type=Path)
    parser.add_argument("--write", action="store_true", help="take what was measured as the budget")
    parser.add_argument("--again", type=Path, help="rows that were counted again, and then those to count again")
    args = parser.parse_args()
    doc = count_report.document(args, "count.json")
    found, made_of = measured(doc["rows"])
    try:
        budget = read(args.budget.read_text()) if args.budget.exists() else {}
    except tomllib.TOMLDecodeError as error:
        sys.exit(f"error: {args.budget.name}: {error}")
    if args.write:
        # What was not measured this time stays, unless there is no such row any more.
        known = {row.id for row in bench_rows.all_rows("qemu") if has_budget(row)}
        budget = {row_id: row for row_id, row in budget.items() if row_id in known}
        partial = args.budget.with_suffix(".tmp")
        partial.write_text(written({**budget, **found}))
        partial.rename(args.budget)
        print(f"{len(found)} rows written to tools/testing/iomap/bench/budget")
        return
    # Chance decides as well whether there is enough to count of a row without a budget.
    unsteady = {row.id for row in bench_rows.all_rows() if not has_budget(row)}
    failures = {f["id"]: f["error"] for f in doc["failures"]}
    said = [*check(budget, found, made_of),
            *(("none" if row_id in unsteady else "FAIL", row_id, error) for row_id, error in failures.items()),
            *(("FAIL", row_id, "was not counted") for row_id in budget if row_id not in {*found, *failures})]
    again = args.again.read_text().split(",") if args.again and args.again.exists() else []
    for verdict, row_id, what in said:
        if verdict == "FAIL" or not again or row_id in again:
            print(f"{verdict:<6} {row_id}: {what}")
    failed = [row_id for verdict, row_id, _ in said if verdict == "FAIL"]
    if args.again:
        args.again.write_text(",".join(dict.fromkeys(failed)))
    print(f"{len(said) - len(failed)} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
