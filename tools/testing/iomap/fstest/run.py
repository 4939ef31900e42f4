#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs the file system tests in a guest.

For each configuration (a file system with options on a device) and each implementation of direct
I/O in the kernel: makes the file system, runs the cases of dio_test on it, mounts it again and
looks whether all is still there, runs fio with verification, and the checker of the file system.
Then compares what the two implementations answered, request by request.

Results go to OUT/results.jsonl, a line each, as they come: {"start": NAME} and
{"name": NAME, "status": "pass"|"fail"|"skip", "reason": ..., "ms": ...}; the last line is
{"done": true}. Who reads them knows from this what a guest that died was doing.

Names are CONFIG/IMPL/CASE and diff/CONFIG/CASE.
"""

import argparse
import array
import contextlib
import dataclasses
import fnmatch
import functools
import json
import mmap
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import replay

import ktap
import machine
from machine import MIB, Failed, command
from only import matches

DEV_MIB = 400
DIRTY_MIB = 48
TIMEOUT = 200       # of a case of dio_test, in seconds
MNT = "/mnt/fstest"
TARGET = Path("/sys/kernel/config/target")
TRACING = Path("/sys/kernel/tracing")
# How dio_test begins the reason of a case that C is known to get wrong.
KNOWN_DEFECT = "a known defect of the C code"
# What goes into a file system that is read only: files of the sizes that basic.c reads.
TREE = "/tmp/fstest-tree"
TREE_SIZES = (1, 511, 512, 513, 4095, 4096, 4097, 10000, 65536 + 7, 1048576 + 513)

# What run.py itself tests around the cases of dio_test
OWN_CASES = ["which-impl", "fio-verify", "remount", "replay", "fsck", "pins"]
# Not every configuration needs every case: these show what differs on another device.
SMOKE = ["mix-*", "holes", "unwritten-*", "eof-reads", "append-*", "extend", "sync-writes",
         "fragments", "coherent", "cached-async", "which-impl", "remount", "fsck"]
# Another file system takes no more than two of the mixes.
FEW = ["mix-sync", "mix-io_uring", *SMOKE[1:]]
# Where XFS writes everything to a new place, there are no unwritten extents.
COW = ["mix-sync", "mix-io_uring", "holes", "eof-reads", "append-*", "extend", "coherent",
       "cached-async", "which-impl", "remount", "fsck"]
# Where it is the disk that differs
ATOMIC = ["atomic", "mix-io_uring", "holes", "which-impl", "remount", "fsck"]
READS = ["read-only", "which-impl", "remount", "fsck"]
# These fit one file system only: they run where they are named, and "*" does not mean them.
SPECIAL = ["read-only", "zone-sequential", "zone-conventional", "busy-poller", "slow-flush", "logged-writes",
           "replay", "nowait-append", "nowait-busy", "nowait-split", "no-space"]


# How to make each file system, and how to check it; there is no checker of zonefs.
EXT = ("mke2fs -t {fstype} -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 {how} {disk}"
       f" {DEV_MIB}M")
FILE_SYSTEMS = {
    "ext4": (EXT, "e2fsck -fn"),
    "ext2": (EXT, "e2fsck -fn"),
    "xfs": ("mkfs.xfs -q -f {how} {disk}", "xfs_repair -n"),
    "btrfs": (f"mkfs.btrfs -q -f -K -b {DEV_MIB}M {{disk}}", "btrfs check --readonly"),
    "f2fs": (f"mkfs.f2fs -q -f -t 0 {{how}} {{disk}} {DEV_MIB * MIB // 512}", "fsck.f2fs --dry-run"),
    "gfs2": (f"mkfs.gfs2 -q -K -O -p lock_nolock -j 1 -J 32 {{disk}} {DEV_MIB * MIB // 4096}",
             "fsck.gfs2 -n"),
    "exfat": ("mkfs.exfat -q -c 4096 {disk}", "fsck.exfat -n"),
    "ntfs3": ("mkntfs -q -Q -F {disk}", "ntfsresize --info --force"),
    # Not onto the disk itself, which mkfs.erofs wants to discard.
    "erofs": (f"sh -ec 'rm -f {TREE}.img; mkfs.erofs --quiet {{how}} {TREE}.img {TREE};"
              f" cp {TREE}.img {{disk}}'", "fsck.erofs"),
    "zonefs": ("mkzonefs -f {disk}", ""),
}


@dataclasses.dataclass
class Config:
    name: str
    fstype: str
    how: str = ""       # options of mkfs
    device: str = "null"
    reflink: bool = False
    stable_writes: bool = False
    only: Sequence[str] = ("*",)
    knob: str = ""      # file to write 1 to before the mount
    options: str = ""   # of the mount
    flip: bool = False  # also while the implementation changes all the time
    probe: str = ""     # file for which-impl to read, where it cannot make one


def xfs(name: str, how: str = f"-K -d size={DEV_MIB}m -m reflink=1", *, reflink: bool = True,
        **more: Any) -> Config:
    return Config(name, "xfs", how, reflink=reflink, **more)


CONFIGS = [
    Config("ext4-4k", "ext4", "-b 4096", flip=True),
    Config("ext4-1k", "ext4", "-b 1024"),
    xfs("xfs", flip=True),
    xfs("xfs-noreflink", f"-K -d size={DEV_MIB}m -m reflink=0", reflink=False),
    xfs("xfs-bounce", stable_writes=True, flip=True),
    Config("btrfs", "btrfs", reflink=True),
    Config("f2fs", "f2fs"),
    # A RAM disk completes everything before the submission returns.
    Config("ext4-ram", "ext4", "-b 4096", device="ram", only=SMOKE),
    Config("ext2", "ext2", "-b 4096", device="ram",
           only=["mix-sync", "mix-libaio", "holes", "eof-reads", "extend", "remount", "fsck"]),
    # Encrypted with a key that the kernel makes up. The disk cannot do that: the block layer does.
    Config("ext4-encrypted", "ext4", "-b 4096 -O encrypt", only=SMOKE, options="test_dummy_encryption"),
    # Late completion by a timer, and a volatile cache with FUA
    xfs("xfs-timer", device="null-timer", only=SMOKE),
    # So late that the submitter has left, also where it is slow
    xfs("xfs-late", device="null-late", only=["busy-poller", "pending"]),
    xfs("xfs-full", device="null-late", only=["no-space"], options="allocsize=1m"),
    Config("ext4-late", "ext4", "-b 4096", device="null-late", only=["pending"]),
    Config("btrfs-late", "btrfs", device="null-late", only=["pending"]),
    Config("f2fs-late", "f2fs", device="null-late", only=["pending"]),
    # On a file of XFS on such a disk: what completes a request of one file system makes one of the other.
    Config("ext4-loop", "ext4", "-b 4096", device="loop", only=["pending"]),
    # One tag, and memory without gaps; one tag behind a driver that splits bios where no limit says so.
    xfs("xfs-narrow", device="null-narrow", only=["nowait-*"]),
    Config("ext4-narrow", "ext4", "-b 4096", device="null-narrow", only=["nowait-*"]),
    # So late that the tag is still taken when ntfs3 has made room
    Config("ntfs3-narrow", "ntfs3", device="null-single", only=["nowait-append"]),
    xfs("xfs-pieces", device="pieces", only=["nowait-*"]),
    # With a cache that can be slow, and with a log of what is stable.
    xfs("xfs-flush", device="slow-flush", only=["slow-flush"]),
    Config("ext4-flush", "ext4", "-b 4096", device="slow-flush", only=["slow-flush"]),
    Config("ext4-logged", "ext4", "-b 4096", device="logged", only=["logged-writes", "replay", "fsck"]),
    xfs("xfs-logged", device="logged", only=["logged-writes", "replay", "fsck"]),
    xfs("xfs-alwayscow", only=COW, knob="/sys/fs/xfs/debug/always_cow"),
    xfs("xfs-zoned", "-r zoned=1", reflink=False, device="zoned", only=COW),
    # Both with a disk that writes atomically by itself
    xfs("xfs-atomic", device="scsi", only=ATOMIC),
    Config("ext4-atomic", "ext4", "-b 4096 -O bigalloc -C 65536", device="scsi", only=ATOMIC),
    # The disk checks protection information, and XFS makes it: that bounces all of its direct I/O.
    xfs("xfs-integrity", device="protected", stable_writes=True, only=FEW),
    Config("f2fs-encrypted", "f2fs", "-O encrypt", only=FEW, options="test_dummy_encryption"),
    Config("gfs2", "gfs2", only=FEW),
    Config("exfat", "exfat", only=FEW),
    Config("ntfs3", "ntfs3", only=FEW),
    # Tails within the metadata, and then files of chunks, which may be holes.
    Config("erofs", "erofs", probe="read-10000", only=READS),
    Config("erofs-chunks", "erofs", "--chunksize=4096", probe="read-10000", only=READS),
    Config("zonefs", "zonefs", device="zones", probe="cnv/0", only=["zone-*", "which-impl", "remount"]),
]


def wants(config: Config, case: str) -> bool:
    return any(fnmatch.fnmatchcase(case, p) for p in config.only
               if p != "*" or case not in SPECIAL)


def plan(cases: list[str], patterns: Sequence[str], shard: Sequence[int] = (0, 1)) -> tuple[
        list[tuple[Config, str, list[str]]], set[str]]:
    """Of a share of the configurations, as selected by the patterns: [(config, impl, [case, ...])] and the diffs."""
    runs: list[tuple[Config, str, list[str]]] = []
    diffs: set[str] = set()
    for config in CONFIGS[shard[0]::shard[1]]:
        wanted = [c for c in cases + OWN_CASES if wants(config, c) and c != "flip"]
        compared = {c for c in wanted if c not in OWN_CASES and matches(f"diff/{config.name}/{c}", patterns)}
        diffs |= {f"diff/{config.name}/{c}" for c in compared}
        chosen = [(config, impl, [c for c in wanted if c in compared
                                  or matches(f"{config.name}/{impl}/{c}", patterns)])
                  for impl in ("rust", "c")]
        runs += [run for run in chosen if run[2]]
        if config.flip and matches(f"{config.name}/both/flip", patterns):
            runs.append((config, "both", ["flip"]))
    return runs, diffs


@functools.cache
def read_record(path: str) -> dict[str, list[str]]:
    """A record of dio_test: what each case observed, in order."""
    record: dict[str, list[str]] = {}
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            case, _, fact = line.rstrip("\n").partition("\t")
            record.setdefault(case, []).append(fact)
    return record


def compare(c: list[str], rust: list[str]) -> str:
    """Where two lists of facts differ first, in words; "" if nowhere."""
    for i, (a, b) in enumerate(zip(c, rust, strict=False)):
        if a != b:
            return f"line {i + 1}: C: {a!r}, Rust: {b!r}"
    return f"C recorded {len(c)} facts, Rust {len(rust)}" if len(c) != len(rust) else ""


def trace_caller(text: str, ino: int) -> str:
    """The function that the last iomap_iter event of an inode in a trace names as its caller."""
    callers: list[str] = re.findall(rf" iomap_iter: .* ino {ino:#x} .* caller (\w+)", text)
    return callers[-1] if callers else ""


def make_tree(tree: str) -> None:
    """Files for the case read-only: each word says where it is, and some blocks are holes."""
    os.makedirs(tree, exist_ok=True)
    for size in TREE_SIZES:
        data = array.array("Q", range(size << 32, (size << 32) + size, 8)).tobytes()
        with open(f"{tree}/read-{size}", "wb") as f:
            for off in range(0, size, 4096):
                if off // 4096 % 5 != 3:
                    f.seek(off)
                    f.write(data[off:min(off + 4096, size)])
            f.truncate(size)


# What null_blk disks have that are not as the first
NULL_BLK: dict[str, dict[str, int]] = {
    "null": {},
    "null-timer": {"irqmode": 2, "completion_nsec": 20000, "cache_size": 16},
    "null-late": {"irqmode": 2, "completion_nsec": 5000000},
    "null-below": {"irqmode": 2, "completion_nsec": 5000000, "size": DEV_MIB + 200},
    "null-cached": {"irqmode": 2, "completion_nsec": 100000, "cache_size": 16, "size": DEV_MIB},
    "null-log": {"size": 300},
    "null-replayed": {"size": DEV_MIB},
    "null-cow": {"size": 64},
    "null-narrow": {"irqmode": 2, "completion_nsec": 100000, "submit_queues": 1, "poll_queues": 0,
                    "hw_queue_depth": 1, "virt_boundary": 1},
    "null-single": {"irqmode": 2, "completion_nsec": 5000000, "submit_queues": 1, "poll_queues": 0,
                    "hw_queue_depth": 1},
    "null-whole": {"irqmode": 2, "completion_nsec": 100000, "size": DEV_MIB, "submit_queues": 1, "poll_queues": 0,
                   "hw_queue_depth": 1},
    "zoned": {"size": 2048, "zoned": 1, "zone_size": 64, "zone_nr_conv": 6, "poll_queues": 0},
    "zones": {"size": 64, "zoned": 1, "zone_size": 4, "zone_nr_conv": 2, "poll_queues": 0},
}


def make_protected() -> str:
    """A RAM disk of the SCSI target, which has and checks protection information of type 1."""
    disk, port = TARGET / "core/rd_mcp_0/protected", TARGET / "loopback/naa.5001405000000001/tpgt_1"
    machine.need(TARGET, "CONFIG_TARGET_CORE")
    disk.mkdir(parents=True)
    machine.set_attributes(disk, {"control": f"rd_pages={DEV_MIB * MIB // mmap.PAGESIZE}", "enable": 1,
                                  "attrib/pi_prot_type": 1})
    port.mkdir(parents=True)
    machine.set_attributes(port, {"nexus": "naa.5001405000000002"})
    (port / "lun/lun_0").mkdir()
    (port / "lun/lun_0/protected").symlink_to(disk)
    return machine.scsi_disk("/sys/bus/tcm_loop_bus/devices/*")


def make_loop() -> str:
    """A file of unwritten blocks on an XFS, with direct I/O."""
    below, file = f"{MNT}-below", f"{MNT}-below/disk"
    os.makedirs(below)
    disk = f"/dev/{make_disk('null-below')}"
    command("mkfs.xfs", "-q", "-f", "-K", disk)
    command("mount", disk, below)
    command("fallocate", "-l", f"{DEV_MIB}M", file)
    command("losetup", "--direct-io=on", "/dev/loop0", file)
    return "loop0"


def begin_log() -> str:
    """A disk with a log of what is written to it from now on."""
    below, log, replayed = (Path("/dev", make_disk(f"null-{name}")) for name in ("cached", "log", "replayed"))
    return replay.start(below, log, replayed, DIRTY_MIB * MIB)


def make_slow_flush() -> str:
    """A disk with a cache; the case says how long a flush takes."""
    below = Path("/dev", make_disk("null-cached"))
    return replay.map_disk("slow-flush", f"0 {replay.size_of(below)} delay" + f" {below} 0 0" * 3)


def make_pieces() -> str:
    """A disk of the device mapper in pieces, at the borders of which it splits bios. Two and two change places, or
    what was split would be merged again."""
    whole, piece = Path("/dev", make_disk("null-whole")), 40
    pieces = range(replay.size_of(whole) // piece // 2 * 2)
    return replay.map_disk("pieces", "".join(f"{n * piece} {piece} linear {whole} {(n ^ 1) * piece}\n" for n in pieces))


@functools.cache
def make_disk(kind: str) -> str:
    """A disk in memory. What is on it stays, so that stale data can be noticed."""
    if kind == "ram":
        machine.need(Path("/sys/block/ram0"), "CONFIG_BLK_DEV_RAM")
        disk = "ram0"
    elif kind == "scsi":
        # It completes late, by a timer.
        disk = machine.make_scsi({"ndelay": 20000})
    elif kind == "protected":
        disk = make_protected()
    elif kind == "loop":
        disk = make_loop()
    elif kind == "slow-flush":
        disk = make_slow_flush()
    elif kind == "pieces":
        disk = make_pieces()
    else:
        disk = machine.make_null_blk(f"nullb{list(NULL_BLK).index(kind)}", DEV_MIB, {
            "submit_queues": 2, "poll_queues": 1, "irqmode": 1, **NULL_BLK[kind]})
    # Where the first files will be; later ones find what others left. null_blk makes a page of its memory when it
    # is first written to: a polled write may be carried out under RCU, and lockdep finds that it must not sleep.
    # Zones are written in order.
    if "size" not in NULL_BLK.get(kind, {}):
        machine.fill(Path("/dev", disk), (DEV_MIB if kind in NULL_BLK else DIRTY_MIB) * MIB, b"\xdb")
    return disk


def pins() -> int:
    """How many pages are pinned for I/O?"""
    # What each processor has counted for itself counts as well.
    Path("/proc/sys/vm/stat_refresh").read_text()
    stat = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(stat["nr_foll_pin_acquired"]) - int(stat["nr_foll_pin_released"])


def check_pins(at_start: int) -> None:
    """Every page that was pinned for I/O is let go again, if with a delay."""
    machine.wait_for(lambda: pins() <= at_start, "pages are still pinned")


def mount(config: Config, disk: str) -> None:
    os.makedirs(MNT, exist_ok=True)
    options = ["-o", config.options] if config.options else []
    command("mount", "-t", config.fstype, *options, f"/dev/{disk}", MNT)


def umount() -> None:
    """io_uring and aio let go of their files a little after their process is gone."""
    for _ in range(1200):
        with contextlib.suppress(Failed):
            return command("umount", MNT)
        time.sleep(0.1)
    return command("umount", MNT)


def fio() -> None:
    name = f"{MNT}/fio"
    command("fio", "--name=verify", f"--filename={name}", "--size=2m", "--rw=randrw",
            "--bssplit=512/20:4k/50:64k/30", "--ioengine=io_uring", "--iodepth=16",
            "--direct=1", "--verify=crc32c", "--verify_fatal=1", "--randseed=7",
            "--thread", "--fallocate=posix", "--output-format=terse",
            "--do_verify=1", "--verify_backlog=64", "--verify_state_save=0", "--unlink=1")


class Runner:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.out = os.path.abspath(args.out)
        os.makedirs(self.out, exist_ok=True)
        self.log = open(f"{self.out}/results.jsonl", "w", encoding="utf-8")  # noqa: SIM115
        self.counts = {"pass": 0, "fail": 0, "skip": 0}
        self.seen: dict[str, str] = {}
        self.why: dict[str, str] = {}
        open(f"{self.out}/dio_test.log", "w", encoding="utf-8").close()
        self.pins_at_start = pins()
        self.callers: dict[tuple[str, str], str] = {}

    def put(self, **fields: Any) -> None:
        self.log.write(json.dumps(fields) + "\n")
        self.log.flush()

    def result(self, name: str, status: str, reason: str = "", ms: int = 0) -> None:
        self.counts[status] += 1
        self.seen[name] = status
        self.why[name] = reason
        self.put(name=name, status=status, reason=reason, ms=ms)
        if status == "fail":
            print(f"@@ failed: {name}: {reason}", flush=True)

    @contextlib.contextmanager
    def test(self, name: str) -> Iterator[list[str]]:
        """A test that passes if it does not raise. It may say something of itself."""
        self.put(start=name)
        began = time.monotonic()
        say: list[str] = []
        try:
            yield say
        except (Failed, OSError) as e:
            self.result(name, "fail", str(e))
        else:
            self.result(name, "pass", "".join(say), int((time.monotonic() - began) * 1000))

    def prepare(self, config: Config) -> str:
        if config.knob:
            Path(config.knob).write_text("1")
        disk = begin_log() if config.device == "logged" else make_disk(config.device)
        Path("/sys/block", disk, "queue/stable_writes").write_text(str(int(config.stable_writes)))
        if config.fstype == "erofs":
            make_tree(TREE)
        mkfs = FILE_SYSTEMS[config.fstype][0]
        command(*shlex.split(mkfs.format(fstype=config.fstype, how=config.how, disk=f"/dev/{disk}")))
        mount(config, disk)
        return disk

    def dio_test(self, config: Config, impl: str, disk: str, cases: list[str]) -> None:
        prefix = f"{config.name}/{impl}"
        env = {"DIR": MNT, "DISK": disk, "FSTYPE": config.fstype, "IMPL": impl,
               "MANIFEST": f"{self.out}/manifest", "RECORD": self.record(config.name, impl),
               "SEED": self.args.seed, "SCALE": self.args.scale, "REFLINK": int(config.reflink),
               "TIMEOUT": TIMEOUT, "STABLE_WRITES": int(config.stable_writes)}
        for name in ("dma_alignment", "io_poll"):
            env[name.upper()] = Path("/sys/block", disk, "queue", name).read_text().strip()
        left = list(cases)
        began = 0.0

        def listen(lines: Iterable[str], log: TextIO) -> Iterator[str]:
            nonlocal began
            for line in lines:
                log.write(f"{prefix}: {line}")
                log.flush()
                m = re.match(r"#  RUN +\w+\.(\S+)", line)
                if m:
                    began = time.monotonic()
                    signal.alarm(TIMEOUT - 2)
                    self.put(start=f"{prefix}/{m[1]}")
                yield line

        def done(test: ktap.Test) -> None:
            signal.alarm(0)
            case = test.name.partition(".")[2]
            left.remove(case)
            self.result(f"{prefix}/{case}", test.status, test.reason,
                        int((time.monotonic() - began) * 1000))

        # Where a case hangs, for the console log
        signal.signal(signal.SIGALRM, lambda *_: Path("/proc/sysrq-trigger").write_text("w"))
        with subprocess.Popen([self.args.bin, *(w for c in cases for w in ("-t", c))],
                              env=os.environ | {f"DIO_{k}": str(v) for k, v in env.items()},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace") as p, \
                open(f"{self.out}/dio_test.log", "a", encoding="utf-8") as log:
            lines = listen(p.stdout or (), log)
            ktap.parse(lines, self.args.kunit, done)
            for _ in lines:
                pass
        signal.alarm(0)
        for case in left:
            self.result(f"{prefix}/{case}", "fail", f"dio_test ended early (exit {p.returncode})")

    def record(self, config: str, impl: str) -> str:
        return f"{self.out}/{config}.{impl}.record"

    def which_impl(self, config: Config, impl: str) -> str:
        """Does what the switch says really answer? A trace point names the function that asked
        the file system for a mapping: it is another one in each implementation."""
        event, trace = TRACING / "events/iomap/iomap_iter/enable", TRACING / "trace"
        trace.write_text("")
        event.write_text("1")
        try:
            buf = mmap.mmap(-1, 64 << 10)
            flags = os.O_RDONLY if config.probe else os.O_RDWR | os.O_CREAT
            fd = os.open(f"{MNT}/{config.probe or 'which'}", flags | os.O_DIRECT, 0o600)
            if not config.probe:
                os.pwritev(fd, [buf], 0)
                os.unlink(f"{MNT}/which")
            os.preadv(fd, [buf], 0)
        finally:
            event.write_text("0")
        caller = trace_caller(trace.read_text(), os.fstat(fd).st_ino)
        os.close(fd)
        if not caller:
            raise Failed("no iomap_iter event in the trace")
        self.callers[config.name, impl] = caller
        if caller == self.callers.get((config.name, {"rust": "c", "c": "rust"}[impl])):
            raise Failed(f"{caller} answers for both implementations")
        return caller

    def replay(self, name: str, config: Config, logged: bool) -> None:
        if not logged:
            self.result(name, "skip", "logged-writes has not run")
            return
        log, disk, cow = (Path("/dev", make_disk(f"null-{name}")) for name in ("log", "replayed", "cow"))
        with self.test(name) as say:
            say.append(f"{replay.replay(config.fstype, log, disk, cow)} crashes")

    def config(self, config: Config, impl: str, cases: list[str]) -> None:
        prefix = f"{config.name}/{impl}"
        for path in (self.record(config.name, impl), f"{self.out}/manifest"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        self.put(start=f"{prefix}/setup")
        try:
            machine.set_impl("c" if impl == "c" else "rust")
            disk = self.prepare(config)
        except (Failed, OSError) as e:
            self.result(f"{prefix}/setup", "fail", str(e))
            return
        mine = [c for c in cases if c not in OWN_CASES]
        before = dict(self.counts)
        try:
            if "which-impl" in cases:
                with self.test(f"{prefix}/which-impl") as say:
                    say.append(self.which_impl(config, impl))
            if mine:
                self.dio_test(config, impl, disk, mine)
            if "fio-verify" in cases:
                with self.test(f"{prefix}/fio-verify"):
                    fio()
            umount()
            if "remount" in cases:
                mount(config, disk)
                self.dio_test(config, impl, disk, ["remount"])
                umount()
            if "pins" in cases:
                with self.test(f"{prefix}/pins"):
                    check_pins(self.pins_at_start)
            if "fsck" in cases:
                with self.test(f"{prefix}/fsck"):
                    command(*FILE_SYSTEMS[config.fstype][1].split(), f"/dev/{disk}")
            if "replay" in cases:
                self.replay(f"{prefix}/replay", config, "logged-writes" in cases)
        except (Failed, OSError) as e:
            # Without this unmount nothing else can use the disk.
            self.result(f"{prefix}/teardown", "fail", str(e))
        n = {k: self.counts[k] - before[k] for k in before}
        print(f"@@ fstest: {prefix}: {n['pass']} passed, {n['fail']} failed, "
              f"{n['skip']} skipped", flush=True)

    def diff(self, names: set[str]) -> None:
        for name in sorted(names):
            _, config, case = name.split("/")
            both = [f"{config}/{i}/{case}" for i in ("c", "rust")]
            states, whys = ([of.get(one, "") for one in both] for of in (self.seen, self.why))
            c, rust = (read_record(self.record(config, i)).get(case, []) for i in ("c", "rust"))
            if "" in states or (states == ["skip", "skip"] and whys[0] == whys[1]):
                continue        # the setup failed and said so, or nothing was done
            if states[0] != states[1] or states[0] == "skip":
                # Where C is wrong it may fail, but Rust must not, and nobody is to overlook it.
                known = states == ["skip", "pass"] and whys[0].startswith(KNOWN_DEFECT)
                said = [f" ({why})" if why else "" for why in whys]
                self.result(name, "skip" if known else "fail",
                            f"C: {states[0]}{said[0]}, Rust: {states[1]}{said[1]}")
            elif c or rust or case.startswith("mix-"):      # others only check
                what = compare(c, rust) if c or rust else "neither has recorded anything"
                self.result(name, "fail" if what else "pass", what)


def list_cases(binary: str) -> list[str]:
    """The cases of dio_test, which the harness prints as the last column of a table."""
    p = subprocess.run([binary, "-l"], stderr=subprocess.PIPE, text=True, check=False)
    cases = [name for name in (line.split()[-1] for line in p.stderr.splitlines()[1:]) if name not in OWN_CASES]
    if not cases:
        sys.exit(f"{binary} -l lists no case")
    return cases


def main() -> int:
    ap = argparse.ArgumentParser()
    ap.add_argument("--bin", default="/cache/fstest/dio_test")
    ap.add_argument("--kunit", default="/cache/tree/tools/testing/kunit",
                    help="tools/testing/kunit of the kernel tree")
    ap.add_argument("--out", default=os.path.join(os.environ.get("RUN", "/tmp"), "fstest"))
    ap.add_argument("--only", action="append", default=[], help="glob or part of a test's name")
    ap.add_argument("--list", action="store_true", help="names of all tests, for both")
    ap.add_argument("--shard", default="0/1", help="I/N: every N-th configuration from the I-th")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--scale", type=int, default=100)
    args = ap.parse_args()

    cases = list_cases(args.bin)
    if args.list:
        runs, diffs = plan(cases, args.only)
        names = [f"{config.name}/{impl}/{case}" for config, impl, chosen in runs for case in chosen]
        names += sorted(diffs)
        sys.stdout.writelines(f"{name}\n" for name in names)
        return 0

    runner = Runner(args)
    shard = tuple(int(x) for x in args.shard.split("/"))
    runs, diffs = plan(cases, args.only, shard)
    for config, impl, chosen in runs:
        runner.config(config, impl, chosen)
        # A kernel without it has failed the setup.
        if os.path.exists(config.knob):
            Path(config.knob).write_text("0")
    runner.diff(diffs)
    runner.put(done=True)
    n = runner.counts
    print(f"@@ fstest: {n['pass']} passed, {n['fail']} failed, {n['skip']} skipped", flush=True)
    return 1 if n["fail"] else 0


if __name__ == "__main__":
    sys.exit(main())
