# SPDX-License-Identifier: GPL-2.0
"""Where the fields of a structure of the kernel are, as the compiler tells."""

import re
import shlex
import subprocess
from bisect import bisect
from pathlib import Path

ENTRY = re.compile(r" *(\d+)(?::[\d-]+)? \| ( *)(.*)$")
# What is looked into: the fields of these structures, and what has no name.
OPENED = re.compile(r"struct (inode|address_space) (\w+)$|.*\(anonymous at [^)]*\) ?$")


class Layout:
    """The fields of a structure that contains a struct inode, at self.inode, from a dump of the compiler."""

    def __init__(self, dump: str, name: str) -> None:
        _, found, dump = dump.partition(f" 0 | struct {name}\n")
        if not found:
            raise ValueError(f"the compiler knows no struct {name}")
        fields: dict[int, str] = {}
        # In front of the names of fields, by depth; None where nobody looks.
        prefixes: list[str | None] = [f"{name}."]
        self.inode = 0
        for line in dump.splitlines():
            entry = ENTRY.match(line)
            if not entry:
                break
            offset, depth, text = int(entry[1]), len(entry[2]) // 2, entry[3]
            del prefixes[depth:]
            prefix, opened = prefixes[-1], OPENED.match(text)
            if prefix is None or not opened:
                prefixes.append(None)
            elif opened[1] == "inode":
                self.inode = offset
                prefixes.append("")
            else:
                prefixes.append(f"{opened[2]}." if opened[1] else prefix)
            if prefix is not None and not opened:
                # Of a union the first.
                fields.setdefault(offset, prefix + text.split()[-1])
        self.size = int(line.partition("sizeof=")[2].partition(",")[0])
        self.offsets = sorted(fields)
        self.names = [fields[at] for at in self.offsets]

    def name(self, offset: int) -> str:
        return self.names[bisect(self.offsets, offset) - 1]


def read(build: Path, source: str, name: str) -> Layout:
    """The structure as the build has compiled it for a source file, which is without its suffix."""
    path = Path(source)
    command = (build / path.with_name(f".{path.name}.o.cmd")).read_text().split(":= ", 1)[1].split(";")[0]
    command = command.removeprefix("ccache ").replace(" -c ", " -fsyntax-only -Xclang -fdump-record-layouts ")
    done = subprocess.run([*shlex.split(command), "-o", "/dev/null"], cwd=build, text=True, capture_output=True,
                          check=False)
    if done.returncode:
        raise ValueError(f"{source}.c does not compile: {done.stderr.strip()[-300:]}")
    return Layout(done.stdout, name)
