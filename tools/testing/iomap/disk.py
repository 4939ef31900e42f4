#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Is a disk of this machine free to be used by somebody else? For bench/device.py and vm.sh.

  disk.py DISK [CONFIRM]    prints the path of what may be the disk of a guest, or why it may not
"""

import errno
import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

# What begins an image that holds more than the bytes of a disk.
FORMATS = {b"QFI\xfb": "qcow2", b"KDMV": "vmdk", b"vhdxfile": "vhdx", b"conectix": "vpc"}
# The bytes of an image that QEMU locks while it uses it.
LOCKS = range(100, 300)


class Refused(Exception):
    """One line for the person who called."""


def name_of(device: str, variable: str = "DEVICE") -> str:
    """The name of a block device in sysfs."""
    try:
        info = os.stat(device)
    except OSError as error:
        raise Refused(f"{variable}={device}: {error.strerror}") from None
    if not stat.S_ISBLK(info.st_mode):
        raise Refused(f"{variable}={device} is no block device")
    return Path(f"/sys/dev/block/{os.major(info.st_rdev)}:{os.minor(info.st_rdev)}").resolve().name


def check_unused(device: str, name: str) -> None:
    """Nobody else has anything to do with the device, and nothing is divided on it."""
    disk = Path("/sys/class/block", name).resolve()
    # The disk and its partitions.
    parts = {(path / "dev").read_text().strip(): path
             for path in (disk, *(path.parent for path in disk.glob("*/partition")))}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        if words[2] in parts:
            raise Refused(f"/dev/{parts[words[2]].name} is mounted on {words[4]}: umount it, or take another device")
    for part in parts.values():
        holders = ", ".join(path.name for path in (part / "holders").glob("*"))
        if holders:
            raise Refused(f"/dev/{part.name} is in use by {holders}: take another device")
    if len(parts) > 1:
        raise Refused(f"{device} has a partition table: name one of its partitions, or wipe it: wipefs -a {device}")
    try:
        # Whoever mounts it, swaps to it or builds on it has it open in this way.
        os.close(os.open(device, os.O_RDWR | os.O_EXCL))
    except OSError as error:
        why = ("is in use (swap, a volume, a mount elsewhere)" if error.errno == errno.EBUSY
               else f"cannot be opened: {error.strerror}")
        raise Refused(f"{device} {why}: take another device") from None
    table = subprocess.run(["blkid", "-p", "-s", "PTTYPE", "-o", "value", device], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
    if table:
        raise Refused(f"{device} has a partition table ({table}): wipe it if it is not needed: wipefs -a {device}")


def check_image(path: Path) -> None:
    """A file that is a disk, byte by byte, and that nobody has as a disk already."""
    try:
        with path.open("r+b") as file:
            head = file.read(8)
            size = file.seek(0, os.SEEK_END)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, len(LOCKS), LOCKS.start)
    except OSError as error:
        why = ("is in use by another guest" if error.errno in (errno.EAGAIN, errno.EACCES) and os.access(path, os.W_OK)
               else f"cannot be opened: {error.strerror}")
        raise Refused(f"{path} {why}") from None
    for magic, name in FORMATS.items():
        if head.startswith(magic):
            raise Refused(f"{path} is a {name} image, and a raw one is needed: "
                          f"qemu-img convert -f {name} -O raw {path} {path.with_suffix('.raw')}")
    if size == 0 or size % 512:
        raise Refused(f"{path} has {size} bytes, and a disk has sectors of 512 (truncate -s 2G makes an empty one)")
    for loop in Path("/sys/block").glob("loop*/loop/backing_file"):
        if loop.read_text().strip() == str(path):
            raise Refused(f"{path} is in use by /dev/{loop.parts[3]}: losetup -d /dev/{loop.parts[3]}")


def check_disk(disk: str, confirm: str) -> Path:
    """What a guest may have as its disk. It is asked for a device twice, for the guest may write to it."""
    path = Path(disk).resolve()
    if path.is_file():
        check_image(path)
        return path
    if not path.exists():
        raise Refused(f"DISK={disk} does not exist: truncate -s 2G {disk} makes an empty one")
    check_unused(str(path), name_of(disk, "DISK"))
    if confirm != disk:
        raise Refused(f"the guest can write to {disk}: if that is meant, add CONFIRM={disk}")
    return path


if __name__ == "__main__":
    try:
        print(check_disk(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""))
    except (Refused, OSError) as refused:
        sys.exit(f"error: {refused}")
