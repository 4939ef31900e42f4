# SPDX-License-Identifier: GPL-2.0
"""Compiles a file as a build of the kernel has compiled fs/iomap/direct_io.rs."""

import os
import shlex
import subprocess
from pathlib import Path

CRATE = "fs/iomap/direct_io.rs"


def run(build: Path, source: str, out: str, emit: str) -> tuple[int, str]:
    """What the compiler says of `source`, whose results (`--emit`) go to the folder `out`."""
    with open(f"{build}/fs/iomap/.direct_io.o.cmd", encoding="utf-8") as f:
        command = f.readline().split(":= ", 1)[1].split(";")[0]
    words: list[str] = []
    skip = False
    for word in shlex.split(command):
        if skip or word.startswith("--emit="):
            skip = False
        elif word == "--out-dir":
            skip = True
        else:
            words.append(source if word.endswith(CRATE) else word)
    env = dict(os.environ, RUSTC_BOOTSTRAP="1")
    while words and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    ran = subprocess.run([*words, f"--emit={emit}", "--out-dir", out], cwd=build, env=env,
                         capture_output=True, text=True, check=False)
    return ran.returncode, ran.stderr
