#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What "make vm" runs in its guest: file systems on disks in memory, and a shell, or one command, on /dev/ttyS1."""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from machine import SWITCH, Failed, command, make_null_blk

TTY = "/dev/ttyS1"
HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[2]
BIN = Path("/run/iomap")
TERMINFO = Path("/usr/share/terminfo")
# Each I/O takes as long as on a fast disk, and ends in an interrupt.
DISK = {"queue_mode": 2, "submit_queues": 1, "hw_queue_depth": 128, "irqmode": 2, "completion_nsec": 10000}
MEGABYTES = 1024
# No thread that zeroes in the background.
MKFS = {"ext4": ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"),
        "xfs": ("mkfs.xfs", "-q", "-K")}
# The one that takes no memory until it is used.
BENCH = "/dev/ram0"


def take_terminal(options: list[str]) -> None:
    """Makes it ours: for what we say, and for job control and ctrl-C of who reads from it."""
    os.setsid()
    # Whoever begins a session controls the first terminal that it opens.
    fd = os.open(TTY, os.O_RDWR)
    command("stty", "-F", TTY, "115200", *options)
    for n in (1, 2):
        os.dup2(fd, n)


def make_programs() -> None:
    """Short names for what is done often."""
    BIN.mkdir()
    for name, script in {
        "bench": f'exec make -s -C {PROJECT} bench DEVICE={BENCH} CONFIRM={BENCH} "$@"',
        # Those of the root belong to an init that does not run here.
        "poweroff": f"kill -HUP {os.getpid()}",
    }.items():
        (BIN / name).write_text(f"#!/bin/sh\n{script}\n")
        (BIN / name).chmod(0o755)


def set_up() -> None:
    """The root cannot be written to. Where programs expect to, there is memory."""
    for folder in (Path("/root"), Path("/var/tmp"), PROJECT / "results"):
        command("mount", "-t", "tmpfs", "tmpfs", folder)
    # What changes there while the guest runs is seen at once.
    command("mount", "-t", "9p", "-o", "ro,trans=virtio,version=9p2000.L,cache=mmap", "host", "/host")
    make_programs()
    for fs, mkfs in MKFS.items():
        node, folder = Path("/dev", make_null_blk(f"vm_{fs}", MEGABYTES, DISK)), Path("/mnt", fs)
        command(*mkfs, node)
        folder.mkdir()
        command("mount", node, folder)


def greeting(impl: str, kept: str, disk: str) -> str:
    other = "c" if impl == "rust" else "rust"
    return f"""\
Direct I/O runs in {impl.capitalize()} here; echo {other} >{SWITCH} switches, echo {impl} returns.
/mnt/ext4, /mnt/xfs   {MEGABYTES} MiB each, in memory, 10 us for each I/O{f'; {disk} is /dev/nvme0n1' if disk else ''}
/host                 the files of your machine, read-only; what you put into $KEPT is in {kept} there
bench QUICK=1 FS=xfs  compares the time of C and Rust, on {BENCH} (DEVICE=, CONFIRM= for another)
ctrl-D or poweroff ends this; ctrl-A x does so at once, ctrl-A a is ctrl-A
"""


def environment(term: str) -> dict[str, str]:
    known = term and (TERMINFO / term[0] / term).exists()
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "TERM": term if known else "vt220",
            "PS1": r"guest:\w# ", "KEPT": os.environ["RUN"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kept", required=True, help="where the host has what this leaves")
    parser.add_argument("--disk", default="", help="what the host calls the disk of the guest")
    parser.add_argument("--terminal", help="name, lines and columns of a terminal")
    parser.add_argument("command", nargs="?")
    args = parser.parse_args()
    term, lines, columns = args.terminal.split() if args.terminal else ("dumb", "", "")
    try:
        set_up()
        impl = SWITCH.read_text().strip()
        # Bytes as they are, unless somebody looks at them.
        take_terminal(["sane", "rows", lines, "cols", columns] if args.terminal else ["raw", "-echo"])
    except (Failed, OSError) as error:
        print(f"@@ error: the guest is not complete: {error}", flush=True)
        return 1
    if args.command is not None:
        status = subprocess.run(["bash", "-c", args.command], stdin=subprocess.DEVNULL, cwd="/root",
                                env=environment(term), check=False).returncode
        return status if status >= 0 else 128 - status
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(0))
    print(greeting(impl, args.kept, args.disk), end="", flush=True)
    with open(TTY, "rb", buffering=0) as tty:
        subprocess.run(["bash", "--norc", "-i"], stdin=tty, cwd="/root", env=environment(term), check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
