#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The cover letter of the series, from what README.md and the manual say. For series.sh.

  cover.py patches all|c    the patches that it is about, a line each
  cover.py text all|c       its subject, an empty line, and its text

"c" are the patches that are good without Rust: what each of them does for C is in SMALL.
"""

import re
import sys
import textwrap
from pathlib import Path
from typing import NoReturn

PROJECT = Path(__file__).resolve().parents[3]
FSTESTS = "Documentation/rust/iomap-fstests.rst"
WIDTH = 72
LABEL = 42
SMALL = {
    "0003-iomap-set-up-a-simple-read": """\
Each read takes 61 to 80 instructions less (x86_64, counted in QEMU), also one that is too large to be simple.""",
    "0007-ext4-let-a-write-that-must-not-block": """\
With lazytime, a write with RWF_NOWAIT is no longer refused because its time stamps move, which io_uring has a worker
repeat. Its instructions were not counted; a test fails without the patch.""",
    "0008-fs-let-any-processor-finish": """\
With a task that polls on the processor where the writes end, 0 of 20 writes were completed within 10 seconds before,
and all of them now. It has a price: to a 4k write into fallocated space of ext4, with 8 in flight, the file system and
direct I/O add 14,000 instead of 11,300 instructions, to one of 128k 10,500 instead of 8,800.""",
    "0013-xfs-do-not-let-the-EOF-block-scan": """\
A direct write to unwritten blocks of a file system without space fails with -ENOSPC. Before, its completion could wait
for itself, and only a reboot ended that.""",
    "0014-block-unpin-all-pages-that-a-bio": """\
Pages of a large folio that a bio is cut by are unpinned. Before, each such write kept some for good.""",
    "0015-iomap-let-direct-I-O-write-to-a-mapping-of": """\
For the next patch: a file system can return blocks in a row as one mapping, though only some of them are written.""",
    "0016-xfs-let-a-write-that-must-not-block-cross": """\
Of appends of 16k with RWF_NOWAIT that rewrite the last block, into fallocated blocks, 100 % were refused, and
repeated by a caller that may block. Now it is 0.5 %. An append adds 16 % less, a write into two extents that are no
neighbours 8 % more.""",
    "0017-ext4-look-at-all-blocks-of-a-write": """\
A write with RWF_NOWAIT that begins in allocated blocks and ends in a hole changes nothing when it returns -EAGAIN.
Before, the part up to the hole was written. Across written and unwritten blocks in a row it is one bio, not two.""",
    "0020-block-look-at-the-dirty-pages-of-a-bio": """\
When a read ends, each page of user memory takes 14 to 16 instructions less (x86_64, counted in QEMU).""",
    "0022-mm-look-for-the-pages-of-a-range": """\
A write with RWF_NOWAIT to a file with one cached page, far from what is written, takes 113 instructions less.""",
    "0023-xfs-look-the-extent-of-a-read-up-in-place": """\
A direct read of XFS takes 154 instructions less: 3,917 in C for 4k with a registered buffer.""",
}


def die(text: str) -> NoReturn:
    sys.exit(f"error: {text}")


def patches(which: str, project: Path = PROJECT) -> list[Path]:
    every = sorted((project / "patches").glob("*.patch"))
    if which == "all":
        return every
    found = [path for path in every if path.name.startswith(tuple(SMALL))]
    if len(found) != len(SMALL):
        die(f"patches/ has {len(found)} of the {len(SMALL)} patches that cover.py names in SMALL")
    return found


def subject(patch: Path) -> str:
    head = patch.read_text().partition("\n\n")[0]
    return re.sub(r"\n ", " ", head).partition("\nSubject: [PATCH")[2].partition("] ")[2].partition("\n")[0]


def plain(markdown: str) -> str:
    """Without the marks that a mail has no use for."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", markdown).replace("**", "").replace("`", "")


def wrap(text: str, first: str = "", rest: str = "") -> str:
    return textwrap.fill(" ".join(plain(text).split()), WIDTH, initial_indent=first, subsequent_indent=rest,
                         break_on_hyphens=False, break_long_words=False)


def between(text: str, begin: str, end: str, name: str) -> str:
    part = re.search(f"{re.escape(begin)}(.*?){re.escape(end)}", text, re.DOTALL)
    if not part:
        die(f"{name} has nothing between '{begin.strip()}' and '{end.strip()}'")
    return part[1]


def bullets(markdown: str) -> list[str]:
    return [wrap(item, "* ", "  ") for item in re.split(r"^\* ", markdown, flags=re.MULTILINE)[1:]]


def title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}"


def counted(results: str) -> list[str]:
    """What README.md says of the costs, with a table as wide as a mail."""
    intro, table, verdicts = results.strip().split("\n\n")[0:3]
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()]
    lines = [f"{'':{LABEL}}" + "".join(f"{word:>10}" for word in ("C adds", "Rust adds", "Rust/C"))]
    for row in rows[2:]:
        name, *more = textwrap.wrap(row[0], LABEL - 2)
        # What is cheaper on the file system than on the bare device has no ratio.
        lines.append(f"{name:{LABEL}}" + "".join(f"{cell:>10}" for cell in row[4:7]).rstrip())
        lines += [f"  {part}" for part in more]
    return [wrap(f"{intro.partition(', C / Rust')[0]} that the file system and direct I/O add to the same I/O on the "
                 f"bare block device {intro[intro.index('('):]}"), "\n".join(lines), verdicts, *bullets(results)]


def fstests(project: Path) -> list[str]:
    page = project / FSTESTS
    if not page.exists():
        return ["* fstests were not run for this series."]
    table = re.search(r"^=+(?: +=+)+\n(?:.+\n)+?=+(?: +=+)+\n(?:.+\n)+?=+(?: +=+)+$", page.read_text(), re.MULTILINE)
    if not table:
        die(f"{FSTESTS} has no table")
    return [title("fstests"), table[0]]


def whole(project: Path) -> str:
    readme = (project / "README.md").read_text()
    history = (project / "Documentation/rust/iomap-history.rst").read_text()
    intro = readme.split("\n\n")
    limits = bullets(between(readme, "\n## Limits\n", "\n## ", "README.md"))
    bugs = re.search(r"^Of \d+ entries, .*?\n\n", history, re.MULTILINE | re.DOTALL)
    if not bugs:
        die("Documentation/rust/iomap-history.rst does not say 'Of N entries'")
    n, ran = len(patches("all", project)), fstests(project)
    said = len(ran) > 1
    return "\n\n".join([
        "iomap: direct I/O in Rust",
        wrap(intro[1].partition(" This repository")[0] + " This series adds an implementation of that file in Rust, "
             "with CONFIG_IOMAP_DIO_RUST. File systems call the same functions as before. Without the option the "
             "tree builds the C file as before; those for fs, block and mm change C, and say why."),
        wrap(f"The last two, {n - 1} and {n}, build both implementations into one kernel with a switch between them, "
             "and compare them. They are for development and can be left out. The manual is in "
             "Documentation/rust/iomap.rst."),
        title("What it costs"), *counted(between(readme, "<!-- results -->\n", "<!-- /results -->", "README.md")),
        wrap(next(part for part in intro if part.startswith("**None of the saving"))
             .partition(" Counted without")[0]),
        *(ran if said else []),
        title("Published bugs of this path"),
        wrap(f"Documentation/rust/iomap-history.rst lists those of the C implementation since 4.10. {bugs[0]}"),
        title("What is not tested"), *([] if said else ran), *limits]) + "\n"


def small(project: Path) -> str:
    found = patches("c", project)
    parts = [f"{subject(path)}\n\n{wrap(SMALL[next(s for s in SMALL if path.name.startswith(s))], '  ', '  ')}"
             for path in found]
    return "\n\n".join([
        "iomap, ext4, xfs, fs: small changes of direct I/O",
        wrap("These came up while direct I/O was implemented in Rust, and need no Rust. Each stands by itself, but for "
             "the two for mappings that are written in part."),
        *parts]) + "\n"


def main() -> None:
    what, which = sys.argv[1:]
    if which not in ("all", "c"):
        die(f"SERIES={which}: there is all, which is the default, and c")
    if what == "patches":
        print("\n".join(map(str, patches(which))))
    else:
        print(whole(PROJECT) if which == "all" else small(PROJECT), end="")


if __name__ == "__main__":
    main()
