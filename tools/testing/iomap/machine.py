# SPDX-License-Identifier: GPL-2.0
"""What fstest/run.py and bench/load.py do with the machine that they run on: the switch, and disks in memory."""

import mmap
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from glob import glob
from pathlib import Path
from typing import TypeVar

MIB = 1 << 20
SWITCH = Path("/sys/kernel/iomap/dio_impl")
NULLB = Path("/sys/kernel/config/nullb")
SCSI = Path("/sys/bus/pseudo/drivers/scsi_debug")

T = TypeVar("T")


class Failed(Exception):
    pass


def command(*argv: str | Path, timeout: int = 300) -> None:
    """Runs it; raises what it said if it failed."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              errors="replace", timeout=timeout, check=False)
    except FileNotFoundError:
        raise Failed(f"{argv[0]}: not installed") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"{argv[0]}: took more than {timeout} s") from None
    if done.returncode:
        said = done.stdout.strip().replace("\n", "; ")
        said = f"{said[:200]} ... {said[-200:]}" if len(said) > 400 else said
        raise Failed(f"{' '.join(map(str, argv))}: exit {done.returncode}: {said}")


def wait_for(done: Callable[[], T], what: str) -> T:
    """What it returns, as soon as that is something."""
    for _ in range(2400):
        if got := done():
            return got
        time.sleep(0.05)
    raise Failed(what)


def set_impl(impl: str) -> None:
    SWITCH.write_text(impl)
    shown = SWITCH.read_text().strip()
    if shown != impl:
        raise Failed(f"{SWITCH} says {shown!r} after {impl!r} was written")


def fill(path: Path, size: int, page: bytes) -> None:
    """Writes every byte once, past the page cache, which would take as long again."""
    buffer = mmap.mmap(-1, MIB)
    buffer.write(page * (MIB // len(page)))
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
    try:
        for _ in range(size // MIB):
            if os.write(fd, buffer) != MIB:
                raise Failed(f"short write to {path}")
        os.fsync(fd)
    finally:
        os.close(fd)


def need(path: Path, option: str) -> None:
    if not path.exists():
        raise Failed(f"{path} is missing: {option}")


def set_attributes(folder: Path, attributes: Mapping[str, int | str]) -> None:
    for name, value in attributes.items():
        (folder / name).write_text(str(value))


def wait_for_disk(found: Callable[[], list[Path]], where: str | Path) -> str:
    """Its name, of what is found below /sys/block."""
    disk = wait_for(found, f"no disk appeared in {where}")[0].name
    wait_for(Path("/dev", disk).exists, f"/dev/{disk} did not appear")
    return disk


def scsi_disk(adapter: str) -> str:
    return wait_for_disk(lambda: [*map(Path, glob(f"{adapter}/host*/target*/*/block/sd*"))], adapter)


def make_scsi(attributes: Mapping[str, int]) -> str:
    """A disk with atomic writes, see the parameters in guest.sh."""
    need(SCSI, "CONFIG_SCSI_DEBUG")
    set_attributes(SCSI, {**attributes, "fake_rw": 0, "add_host": 1})
    return scsi_disk(f"{SCSI}/adapter*")


def make_null_blk(name: str, megabytes: int, attributes: Mapping[str, int]) -> str:
    """A disk of null_blk that has memory."""
    folder = NULLB / name
    need(NULLB, "CONFIG_BLK_DEV_NULL_BLK and CONFIG_CONFIGFS_FS")
    folder.mkdir()
    set_attributes(folder, {"size": megabytes, "memory_backed": 1, "blocksize": 512, **attributes, "power": 1})
    names = name, f"nullb{(folder / 'index').read_text().strip()}"
    return wait_for_disk(lambda: [path for path in map(Path("/sys/block").joinpath, names) if path.exists()], folder)
