#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The checks of check.sh that need more than running a tool.

  check.py NAME PROJECT TREE BUILD LLVM     paths are those in the toolchain root

Prints what it checked, or prints what is wrong and fails. The first line says it all; more may follow.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import attack

HERE = Path(__file__).resolve().parent
# What both implementations have under one name.
SHARED = {"iomap_dio_rw", "__iomap_dio_rw", "iomap_dio_complete", "iomap_dio_bio_end_io", "iomap_finish_ioend_direct",
          "__iomap_dio_read_simple"}


class Wrong(Exception):
    """Says what, in its first line."""


@dataclass
class Place:
    """Where things are. `build` is the folder of all builds, a folder each."""

    project: Path
    tree: Path
    build: Path
    llvm: str

    def run(self, tool: str, *args: str | Path) -> str:
        return subprocess.run([f"{tool}-{self.llvm}", *args], capture_output=True, text=True, check=True).stdout

    def functions(self, path: str) -> set[str]:
        """Those that are defined in an object."""
        return set(re.findall(r" [tT] (\S+)$", self.run("llvm-nm", self.build / path), re.MULTILINE))

    def files(self, *patterns: str, folders: Sequence[str] = ("fs", "rust")) -> list[Path]:
        """Those of ours that go into a kernel tree, or are in other folders. Without any, nothing would be checked."""
        found = [path for pattern in patterns for folder in folders
                 for path in sorted((self.project / folder).rglob(pattern))]
        if not found:
            raise Wrong(f"there is no {' or '.join(patterns)} in {' and '.join(folders)}")
        return found


def output(*command: str | Path) -> str:
    """What a program says, whether it is content (0) or not (1)."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode not in (0, 1):
        raise Wrong(f"{command[0]} ended with {done.returncode}: {(done.stdout.splitlines() or ['no word'])[-1]}")
    return done.stdout


def rustfmt(at: Place) -> str:
    files = at.files("*.rs", folders=("fs", "rust", "tools"))
    said = output("rustfmt", "--check", "--edition", "2021", "--config-path", at.tree / ".rustfmt.toml", *files)
    if said:
        raise Wrong(f"{said.count('Diff in')} places differ\n{said}")
    return f"{len(files)} files"


def checkpatch(at: Place) -> str:
    command = ("perl", at.tree / "scripts/checkpatch.pl", f"--root={at.tree}", "--terse", "--show-types",
               # A patch may only bring files, which are looked at by themselves.
               "--ignore", "FILE_PATH_CHANGES,NOT_UNIFIED_DIFF")
    said = "".join(output(*command, patch) for patch in at.files("*.patch", folders=["patches"]))
    said += output(*command, "-f", *at.files("*.[ch]", "*.rs", "Kconfig"))
    errors = [line for line in said.splitlines() if " ERROR:" in line]
    if errors or "\ntotal:" not in said:
        raise Wrong(f"{len(errors)} errors, the first: {[*errors, *said.splitlines(), 'no word'][0]}\n{said}")
    return f"{said.count(' WARNING:')} warnings\n{said}"


def clippy(at: Place) -> str:
    """What compilers have said of our files, which are at their place in the tree."""
    ours = [f"{path.relative_to(at.project)}:" for path in at.files("*.rs", "*.[ch]")]
    what = ""
    for line in (at.build / "check-rust/build.log").read_text(errors="replace").splitlines():
        # rustc says what before it says where. Of a macro of others, ":::" is where we use it.
        what = line if re.match("warning|error", line) else what
        if re.search("warning|error|-->|:::", line) and any(name in line for name in ours):
            where = "" if line == what else line.strip()
            raise Wrong(f"{what} {where}".strip() + ", see build/check-rust/build.log in the cache")
    # Tells check.sh that nothing has to be compiled again to warn again.
    (at.build / "check-rust/.clean").touch()
    return "CLIPPY=1 W=1"


def unsafe(at: Place) -> str:
    """The compiler has forbidden it, in each file below the crate root."""
    files = at.files("*.rs", folders=["fs/iomap/direct_io"])
    for path in files:
        if "\n#![forbid(unsafe_code)]\n" not in path.read_text():
            raise Wrong(f"{path.relative_to(at.project)} does not forbid unsafe_code")
    return f"{len(files)} files forbid it"


def flags(at: Place) -> str:
    there: dict[str, str] = {}
    for header in ("include/linux/iomap.h", "include/linux/fs.h"):
        text = (at.tree / header).read_text()
        there |= dict.fromkeys(re.findall(r"^#define\s+((?:IOMAP|IOCB)_[A-Z0-9_]+)\s", text, re.MULTILINE), header)
    if not there:
        raise Wrong("include/linux/iomap.h has no flags")
    known = set(re.findall(r"^IO[A-Z0-9_]+", (HERE / "known-flags").read_text(), re.MULTILINE))
    for name in sorted(there.keys() - known):
        raise Wrong(f"{name} is new in {there[name]}: decide what rust/kernel/iomap/flags.rs, or for IOCB_* "
                    "rust/kernel/fs/kiocb/request.rs, and fs/iomap/direct_io/ do with it, then add it to "
                    "tools/testing/iomap/known-flags")
    for name in sorted(known - there.keys()):
        raise Wrong(f"{name} is in tools/testing/iomap/known-flags, but no longer in include/linux/iomap.h or fs.h")
    return f"{len(there)} names"


# What panics; not all of it has that in its name.
PANIC = r"panic|core::.*(unwrap_failed|expect_failed|_fail)\b"
# Of the kernel crate only what is ours.
OURS = re.compile(r"kernel::(flag_word|iomap|block::(bdev|bio|plug)|fs::(inode|kiocb)|iov::iter|task::may_sleep)::")


def references(listing: str) -> tuple[int, list[str]]:
    """Of what llvm-objdump lists: the lines in functions of ours, and who of them refers to a panic."""
    function, n, found = "", 0, []
    for line in listing.splitlines():
        if re.match(r"[0-9a-f]+ <.*>:$", line):
            function = line if OURS.search(line) else ""
        if function:
            n += 1
            if re.search(f"R_.*({PANIC})", line):
                found.append(f"{line.split()[-1]} in {function.partition(' ')[2]}")
    return n, found


def panicking(at: Place) -> str:
    symbols = at.run("llvm-nm", "--demangle", at.build / "check-rust/fs/iomap/direct_io.o")
    found = [name for name in re.findall(r"^ +U (.*)$", symbols, re.MULTILINE) if re.search(PANIC, name)]
    n, more = references(at.run("llvm-objdump", "-dr", "--demangle", at.build / "check-rust/rust/kernel.o"))
    if found + more:
        raise Wrong(f"direct_io.o or our part of the kernel crate refers to {(found + more)[0]}")
    if not re.search(r" T .*iomap_dio", symbols) or n < 10:
        raise Wrong("direct_io.o or our part of the kernel crate has no code")
    return "neither direct_io.o nor our parts of the kernel crate refer to core::panicking"


def not_exported(c_file: str, rust_file: str, symbols: str) -> tuple[int, list[str]]:
    """How many functions the C file exports, and what is missing of that."""
    wrong = []
    names = re.findall(r"^EXPORT_SYMBOL_GPL\((.*)\);", c_file, re.MULTILINE)
    for name in names:
        if not re.search(rf"\b__export_symbol_{name}\b", symbols):
            wrong.append(f"{name} is not exported")
        # #[export] makes rustc compare the signature with the one in the C header.
        if not re.search(r"#\[(cfg_attr\(not\(CONFIG_IOMAP_DIO_COMPARE\), )?export\)?\]\n(.*\n){0,2}"
                         rf".*fn (rust_)?{name}\b", rust_file):
            wrong.append(f"{name} has no #[export]")
    return len(names), wrong


def exports(at: Place) -> str:
    n, wrong = not_exported((at.tree / "fs/iomap/direct-io.c").read_text(),
                            (at.project / "fs/iomap/direct_io.rs").read_text(),
                            at.run("llvm-nm", "-a", at.build / "check-rust/fs/iomap/built-in.a"))
    if wrong or not n:
        raise Wrong("; ".join(wrong) or "fs/iomap/direct-io.c exports nothing")
    return f"{n} functions"


def off(at: Place) -> str:
    """The kernel crate has our abstractions also where nothing else of ours is built, and has to link."""
    glue = at.functions("check-rust/fs/iomap/built-in.a") - at.functions("check-off/fs/iomap/built-in.a")
    calls = set(re.findall(r" U (\S+)$", at.run("llvm-nm", at.build / "check-off/rust/kernel.o"), re.MULTILINE))
    if calls & glue or not glue or not calls:
        raise Wrong(f"the kernel crate calls {min([*calls & glue, 'nothing'])}, which IOMAP_DIO_RUST=n does not build")
    return "IOMAP_DIO_RUST=n"


def c_free(at: Place) -> str:
    c = at.functions("check-off/fs/iomap/direct-io.o")
    rust = at.functions("check-rust/fs/iomap/built-in.a")
    if not c or not rust:
        raise Wrong("a build without IOMAP_DIO_COMPARE has no functions")
    left = {name for name in c & rust if re.match("iomap_|__iomap", name)} - SHARED
    left |= {name for name in rust if name.startswith("c_")}
    if left:
        raise Wrong(f"{min(left)} of direct-io.c is in the build without IOMAP_DIO_COMPARE")
    return "without IOMAP_DIO_COMPARE nothing of direct-io.c is built"


CHECKS: dict[str, Callable[[Place], str]] = {
    "rustfmt": rustfmt, "checkpatch": checkpatch, "unsafe": unsafe, "flags": flags, "clippy": clippy,
    "panicking": panicking, "exports": exports, "c-free": c_free, "off": off,
    "attack": lambda at: attack.judge_all(at.project, at.build / "check-rust")}


def main() -> None:
    name, project, tree, build, llvm = sys.argv[1:]
    try:
        print(CHECKS[name](Place(Path(project), Path(tree), Path(build), llvm)))
    except (Wrong, OSError) as e:
        sys.exit(str(e))
    except subprocess.CalledProcessError as e:
        sys.exit(f"{e.cmd[0]}: {e.stderr.strip()}")


if __name__ == "__main__":
    main()
