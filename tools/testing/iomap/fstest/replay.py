# SPDX-License-Identifier: GPL-2.0
"""Crashes of a disk with a log of its writes (dm-log-writes): is everything there that was promised?

The log has each write when it is stable, in this order, and the marks of the case "logged-writes" in
flush.c. What the log has until then is what a crash leaves at worst.
"""

import array
import contextlib
import dataclasses
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import machine
from machine import Failed, command

SECTOR = 512
FLUSH, DISCARD, MARK = 1, 4, 8
MAGIC = 0x6A736677736872
# Of the device mapper, as the last one
END = b"dm-log-writes-end"
# Of the case
LEN = 16 << 10
MNT = "/mnt/replay"


@dataclasses.dataclass
class Entry:
    sector: int
    flags: int
    data: bytes     # or the name of a mark


def map_disk(name: str, table: str) -> str:
    """A disk of the device mapper, of which the name below /sys/block is returned."""
    # It may be too long for an argument.
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:
        file.write(table)
        file.flush()
        command("dmsetup", "create", name, "--noudevsync", file.name)
    return machine.wait_for_disk(
        lambda: [path.parent.parent for path in Path("/sys/block").glob("dm-*/dm/name")
                 if path.read_text().strip() == name], "/sys/block")


def unmap_disk(name: str) -> None:
    command("dmsetup", "remove", "--noudevsync", "--retry", name)


def size_of(disk: Path) -> int:
    """In sectors"""
    return int(Path("/sys/block", disk.name, "size").read_text())


def entries(log: Path) -> Iterator[Entry]:
    """The format is described in drivers/md/dm-log-writes.c."""
    with open(log, "rb") as f:
        magic, _, number, size = struct.unpack_from("<QQQI", f.read(SECTOR))
        if (magic, size) != (MAGIC, SECTOR):
            raise Failed(f"{log} has no log of writes")
        for _ in range(number):
            head = f.read(SECTOR)
            sector, sectors, flags, length = struct.unpack_from("<QQQQ", head)
            if flags & MARK:
                yield Entry(sector, flags, head[32:32 + length].rstrip(b"\0"))
            else:
                yield Entry(sector, flags, f.read(0 if flags & DISCARD else sectors * SECTOR))


def check_file(number: int, done: set[int]) -> None:
    """A file of the case: of each write everything or nothing, and everything if it was done."""
    with open(f"{MNT}/logged-{number}", "rb") as f:
        found = f.read()
    for at in range(0, max([len(found), *(at + LEN for at in done)]), LEN):
        first = (number << 40) + at + 1
        right = array.array("Q", range(first, first + LEN, 8)).tobytes()
        is_now = found[at:at + LEN]
        if is_now == right:
            continue
        if at in done:
            raise Failed(f"the write to {at} of file {number} was complete and is lost")
        if is_now.strip(b"\0"):
            words = " ".join(is_now[n:n + 8].hex() for n in range(0, len(is_now), 4 << 10))
            raise Failed(f"at {at} of file {number} is neither what was written nor nothing, but {words}")


def check(fstype: str, disk: Path, cow: Path, done: list[set[int]]) -> None:
    """Mounts what is on the disk, which stays as it is."""
    os.sync()
    crashed = map_disk("crashed", f"0 {size_of(disk)} snapshot {disk} {cow} N 8")
    try:
        os.makedirs(MNT, exist_ok=True)
        command("mount", "-t", fstype, f"/dev/{crashed}", MNT)
        try:
            for number, offsets in enumerate(done):
                check_file(number, offsets)
        finally:
            command("umount", MNT)
    finally:
        unmap_disk("crashed")


def replay(fstype: str, log: Path, disk: Path, cow: Path) -> int:
    """The number of crashes after which everything was there. The disk "logged" is gone."""
    unmap_disk("logged")
    began, checked, worth_it = False, 0, False
    done: list[set[int]] = [set(), set()]
    with open(disk, "r+b", buffering=0) as f:
        for number, entry in enumerate(entries(log)):
            if entry.flags & MARK:
                if entry.data == END:
                    break
                if began:
                    file, at = map(int, entry.data.split(b"/"))
                    done[file].add(at)
                began = worth_it = True
                continue
            # What is complete by now is what the marks up to here say.
            if worth_it:
                try:
                    check(fstype, disk, cow, done)
                except Failed as error:
                    raise Failed(f"a crash after entry {number - 1} of the log: {error}") from None
                checked += 1
            if not entry.flags & DISCARD:
                f.seek(entry.sector * SECTOR)
                f.write(entry.data)
            worth_it = began and bool(entry.flags & FLUSH)
    if not checked or not all(done):
        raise Failed("the log has no writes of the test")
    return checked


def start(below: Path, log: Path, replayed: Path, dirty: int) -> str:
    """The disk "logged", which begins with this many bytes of rubbish, as that for replay() does."""
    with contextlib.suppress(Failed):
        unmap_disk("logged")
    for disk in below, replayed:
        machine.fill(disk, dirty, b"\xdb")
    return map_disk("logged", f"0 {size_of(below)} log-writes {below} {log}")
