#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What ONLY= selects.

  only.py [PATTERN...]     prints those of the names on stdin, a line each, that a pattern matches
"""

import fnmatch
import sys
from collections.abc import Sequence


def matches(name: str, patterns: Sequence[str]) -> bool:
    """A pattern is a glob over the whole name, or a part of it; no pattern means everything."""
    return not patterns or any(fnmatch.fnmatchcase(name, p) or p in name for p in patterns)


def main() -> None:
    for line in sys.stdin:
        if matches(line.rstrip("\n"), sys.argv[1:]):
            sys.stdout.write(line)


if __name__ == "__main__":
    main()
