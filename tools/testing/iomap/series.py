#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What a commit of "make apply COMMIT=1" concerns, for matrix.sh.

  series.py targets FILE...        what make has to build after a commit of these files, a line each
  series.py waiting BUILD FILE...  which of these files nothing in that build was compiled from
"""

import sys
from collections.abc import Iterable
from pathlib import Path


def targets(files: Iterable[str]) -> list[str]:
    code = [name for name in files if "/" in name and not name.startswith("Documentation/")]
    ours = [name for name in code if name.startswith(("fs/iomap/", "include/", "rust/")) or "Kconfig" in name]
    # A header of a file system is for the files beside it.
    rest = {f"{Path(name).parent}/" if name.endswith(".h") else f"{name.removesuffix('.c')}.o"
            for name in code if name not in ours}
    return [*(["prepare"] if code else []), *(["rust/", "fs/iomap/"] if ours else []), *sorted(rest)]


def waiting(build: Path, files: Iterable[str]) -> list[str]:
    read = {word for path in build.rglob(".*.cmd") for word in path.read_text(errors="replace").split()}
    return [name for name in files
            if name.endswith((".c", ".h", ".rs")) and not any(word.endswith(f"/{name}") for word in read)]


if __name__ == "__main__":
    command, *args = sys.argv[1:]
    for line in targets(args) if command == "targets" else waiting(Path(args[0]), args[1:]):
        print(line)
