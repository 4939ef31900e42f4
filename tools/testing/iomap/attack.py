# SPDX-License-Identifier: GPL-2.0
"""Is safe code kept from breaking the abstractions?

The files in attack/ are safe code that would be undefined behaviour, or lose a request, if it compiled.
Comments say which findings of the review it stands for; `//~ E0624 share` says that the line is an error
of that number, with that word in it. Compiles each against the kernel crate of the build, with all errors
of each in their places and no others; and once more without these lines, which must work.
"""

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

CRATE = "fs/iomap/direct_io.rs"


def compiled(build: Path, source: str, out: str) -> tuple[int, str]:
    """What the compiler says of `source` if it is compiled as the kernel build has compiled direct_io.rs. The
    object goes to the folder `out`.
    """
    with open(f"{build}/fs/iomap/.direct_io.o.cmd", encoding="utf-8") as f:
        command = f.readline().split(":= ", 1)[1].split(";")[0]
    words = [source if word.endswith(CRATE) else word
             for word in shlex.split(re.sub(r" --out-dir \S+| --emit=\S+", "", command))]
    # The first words are variables.
    ran = subprocess.run(["env", "RUSTC_BOOTSTRAP=1", *words, "--emit=obj", "--out-dir", out], cwd=build,
                         capture_output=True, text=True, check=False)
    return ran.returncode, ran.stderr


def expected(text: str) -> dict[tuple[int, str], str]:
    """{(line, error): word} of a file."""
    return {(n, m[1]): m[2] for n, line in enumerate(text.split("\n"), 1)
            for m in re.finditer(r"//~ (E\d{4}) (\S+)", line)}


def said(stderr: str, path: str) -> dict[tuple[int, str], str]:
    """{(line, error): message} of a compiler."""
    found: dict[tuple[int, str], str] = {}
    for error in re.split(r"\n(?=error)", stderr):
        m = re.match(r"error\[(E\d{4})\]: ([^\n]*)\n\s*--> ([^:\n]*):(\d+)", error)
        if not m:
            continue
        line = m[4] if m[3] == path else None
        # Or in the kernel crate, for something generic that we have made concrete.
        if use := re.search(rf"encountered while instantiating [^\n]*\n\s*--> {re.escape(path)}:(\d+)", error):
            line = line or use[1]
        if line:
            found[int(line), m[1]] = m[2]
    return found


def judge(path: Path, build: Path, out: str) -> str:
    """What is wrong with a file of attacks, "" if they fail as they should."""
    text = path.read_text()
    want = expected(text)
    if not want:
        return "expects no error"
    harmless = Path(out, path.name)
    harmless.write_text(re.sub(r"[^\n]*//~ [^\n]*", "", text))
    status, stderr = compiled(build, str(harmless), out)
    if status:
        return f"does not compile without its attacks: {stderr.strip()[:300]}"
    status, stderr = compiled(build, str(path), out)
    got = said(stderr, str(path))
    if not status:
        return "compiles"
    for key, word in want.items():
        if key not in got:
            return f"line {key[0]} is no {key[1]}: {stderr.strip()[:300]}"
        if word not in got[key]:
            return f"line {key[0]}: '{got[key]}' does not speak of {word}"
    other = set(got) - set(want)
    return f"line {min(other)[0]} is an error as well: {got[min(other)]}" if other else ""


def judge_all(project: Path, build: Path) -> str:
    """How many attacks there are, or an end that says what is wrong."""
    files = sorted((project / "tools/testing/iomap/attack").glob("*.rs"))
    with tempfile.TemporaryDirectory() as out:
        wrong = [f"{path.name} {trouble}" for path in files if (trouble := judge(path, build, out))]
    if wrong or not files:
        sys.exit("; ".join(wrong) or "there are no attacks")
    return f"{sum(len(expected(path.read_text())) for path in files)} attacks do not compile"
