#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Measures the rows of the benchmark; runs as root in the guest.

fio makes the load, one process for each row, and goes on without a pause while
the switch /sys/kernel/iomap/dio_impl is turned under it: C, Rust, Rust, C, C,
Rust... Both sides so use the same buffers, the same threads and the same file,
and what differs between two runs of a program cannot pose as a difference
between two kernels' code; and no time is lost to starting fio again, which is
slow in UML.

How much I/O was done in a turn is read from /proc/vmstat (pgpgin, pgpgout:
counted in submit_bio(), below the code that is compared, for block devices
and file systems alike). What fio says it did in the whole row checks these
counters and scales them, for writes include a journal's.

Lines that begin with "@@ " are progress for the one who waits.
"""

import argparse
import ctypes
import json
import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import rows as bench_rows  # noqa: E402
import stats  # noqa: E402

SWITCH = Path("/sys/kernel/iomap/dio_impl")
MNT = Path("/mnt/bench")
NULLB = Path("/sys/kernel/config/nullb/nullb_bench")

MIB = 1 << 20
FILE_SIZE = 256 * MIB
# A turn into fallocated space must not come round to what it wrote itself.
UNWRITTEN_SIZE = 512 * MIB
NULLB_MB = 512

SETTLE = 0.004          # after the switch, before counting
WARM = 0.12             # after fio's first I/O
# A turn is short, for what disturbs it from outside comes and goes in tenths of
# a second: many short pairs lose a few to that, few long ones are all touched.
# But it holds enough I/O for the count itself to be exact.
TURN, TURN_MAX, TURN_IOS = 0.025, 0.12, 150
ROUNDS_MIN, ROUNDS_MAX = 5, 60
START_TIMEOUT = 30
USER_HZ = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    pass


def say(text):
    print(f"@@ {text}", flush=True)


def sh(*argv):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, argv))}: {done.stdout.strip()[-300:]}")


# The switch

AGAINST_ITSELF = False


def implementations():
    return ["c", "rust"] if SWITCH.exists() or AGAINST_ITSELF else ["c"]


def set_impl(impl):
    if SWITCH.exists() and not AGAINST_ITSELF:
        SWITCH.write_text(impl)
        # the file may show all choices, the current one in brackets
        shown = SWITCH.read_text().strip()
        if shown != impl and f"[{impl}]" not in shown:
            raise Failed(f"{SWITCH} says {shown!r} after {impl!r} was written")


def requests_by_impl():
    """How many requests each implementation began, if the kernel counts them.

    /sys/kernel/iomap/dio_stats: lines "c NUMBER" and "rust NUMBER".
    """
    path = SWITCH.with_name("dio_stats")
    if not path.exists():
        return None
    return {line.split()[0]: int(line.split()[1]) for line in path.read_text().splitlines()}


def check_requests(row, before, after, sides):
    """A kernel that counts must have served exactly the sides asked for."""
    if before is None or row.fs == "raw" or AGAINST_ITSELF:
        return
    for impl in sides:
        if after[impl] == before[impl]:
            raise Failed(f"the switch said {impl}, but no request went through it")


# Counters

def io_bytes(read):
    """Bytes that block devices were asked to read or write since boot."""
    want = "pgpgin " if read else "pgpgout "
    with open("/proc/vmstat", encoding="ascii") as file:
        for line in file:
            if line.startswith(want):
                return int(line[len(want):]) << 10
    raise Failed(f"/proc/vmstat has no {want}(CONFIG_VM_EVENT_COUNTERS)")


def cpu_seconds():
    """(user, system) of all processors since boot."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _wait, irq, softirq = map(int, file.readline().split()[1:8])
    return (user + nice) / USER_HZ, (system + irq + softirq) / USER_HZ


# Devices and file systems

def make_nullb():
    """A memory-backed null_blk with a poll queue: what polled I/O can run on."""
    config = Path("/sys/kernel/config")
    if not (config / "nullb").exists():
        try:
            sh("mount", "-t", "configfs", "none", config)
        except Failed:
            pass
    if not (config / "nullb").exists():
        raise Failed("no null_blk with configfs in this kernel")
    NULLB.mkdir()
    for name, value in (("size", NULLB_MB), ("memory_backed", 1), ("blocksize", 512),
                        ("queue_mode", 2), ("irqmode", 0), ("submit_queues", 1),
                        ("poll_queues", 1), ("hw_queue_depth", 128), ("power", 1)):
        (NULLB / name).write_text(str(value))
    for name in (NULLB.name, f"nullb{(NULLB / 'index').read_text().strip()}"):
        if Path("/sys/block", name).exists():
            return name
    raise Failed("null_blk made no block device")


def device_node(name):
    node = Path("/dev", name)
    if not node.exists():
        major, minor = Path("/sys/block", name, "dev").read_text().split(":")
        os.mknod(node, 0o600 | 0o060000, os.makedev(int(major), int(minor)))
    return node


def fill(path, size):
    """Write every byte once, past the page cache."""
    buffer = mmap.mmap(-1, MIB)
    buffer.write(os.urandom(4096) * (MIB // 4096))
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
    try:
        for offset in range(0, size, MIB):
            if os.pwrite(fd, buffer, offset) != MIB:
                raise Failed(f"short write to {path}")
        os.fsync(fd)
    finally:
        os.close(fd)


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
ZERO_RANGE = 0x10


def make_unwritten(fd):
    """Turn the whole file back into fallocated, unwritten space."""
    if LIBC.fallocate(fd, ZERO_RANGE, 0, UNWRITTEN_SIZE):
        raise Failed(f"FALLOC_FL_ZERO_RANGE: {os.strerror(ctypes.get_errno())}")


class Stage:
    """A device, perhaps with a file system on it, for the rows that share it."""

    def __init__(self, key, disks):
        self.kind, self.fs, self.bounce = key
        self.disk = disks[self.kind]()
        self.stable = Path("/sys/block", self.disk, "queue/stable_writes")

    def __enter__(self):
        node = device_node(self.disk)
        if self.fs == "raw":
            fill(node, FILE_SIZE)
            self.path = node
            return self
        mkfs = {"ext4": ("mkfs.ext4", "-q", "-F", "-b", "4096",
                         # no thread that zeroes in the background of the measurement
                         "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"),
                "xfs": ("mkfs.xfs", "-q", "-f", "-K", "-b", "size=4096")}[self.fs]
        # the last file system of the other kind must not be found again
        sh("wipefs", "-aq", node)
        sh(*mkfs, node)
        if self.bounce:
            self.stable.write_text("1")
        MNT.mkdir(parents=True, exist_ok=True)
        sh("mount", "-t", self.fs, node, MNT)
        self.path = MNT / "file"
        fill(self.path, FILE_SIZE)
        os.sync()
        return self

    def __exit__(self, *_):
        if self.fs != "raw":
            sh("umount", MNT)
            if self.bounce:
                self.stable.write_text("0")


# One row

class Fio:
    def __init__(self, row, path, size):
        self.row = row
        self.read = row.is_read
        self.argv = ["fio", "--output-format=json", "--eta=never", "--name=row",
                     *(f"--{option}" for option in row.fio(path, size)),
                     # the timer, the console and this script have the other processor
                     *(["--cpus_allowed=1"] if os.cpu_count() > 1 else [])]
        self.start_bytes = io_bytes(self.read)
        self.proc = subprocess.Popen(self.argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     text=True)

    def wait_for_io(self):
        limit = time.monotonic() + START_TIMEOUT
        while io_bytes(self.read) - self.start_bytes < 4 * self.row.bytes:
            self.alive()
            if time.monotonic() > limit:
                raise Failed(f"no I/O within {START_TIMEOUT} s")
            time.sleep(0.01)

    def alive(self):
        if self.proc.poll() is not None:
            out, err = self.proc.communicate()
            raise Failed(f"fio: {complaint(out, err)}")

    def stop(self):
        """The bytes fio says it moved."""
        self.alive()
        self.proc.send_signal(signal.SIGINT)
        try:
            out, err = self.proc.communicate(timeout=START_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise Failed("fio does not stop") from None
        try:
            job = json.loads(out[out.index("{"):])["jobs"][0]
        except ValueError:
            raise Failed(f"fio: {complaint(out, err)}") from None
        if job["error"]:
            raise Failed(f"fio: {os.strerror(job['error'])}")
        return job["read" if self.read else "write"]["io_bytes"]

    def kill(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.communicate()


def complaint(out, err):
    lines = [line for line in (err + "\n" + out).splitlines()
             if line.strip() and line.strip()[0] not in '{}[]"']
    text = lines[0].strip()[-300:] if lines else "it ended without a word"
    return text.replace("fio: ", "")


def turn(fio, impl, seconds, prepare):
    """One sample: I/O under one implementation, for some time."""
    set_impl(impl)
    since = io_bytes(fio.read)
    prepare()
    time.sleep(SETTLE)
    cpu, count, start = cpu_seconds(), io_bytes(fio.read), time.monotonic()
    while True:
        time.sleep(seconds)
        end, after, cpu_end = time.monotonic(), io_bytes(fio.read), cpu_seconds()
        fio.alive()
        # a host that is busy elsewhere may have given no time at all
        if after > count:
            break
        if end - start > START_TIMEOUT:
            raise Failed(f"no I/O for {START_TIMEOUT} s")
    return {"impl": impl, "bytes": after - count, "seconds": end - start,
            "usr": cpu_end[0] - cpu[0], "sys": cpu_end[1] - cpu[1],
            "since_switch": after - since}


def plan(row, rate, size, budget, sides):
    """(seconds of a turn, rounds) for a row that moves rate bytes a second."""
    seconds = min(max(TURN, TURN_IOS * row.bytes / rate), TURN_MAX)
    if row.kind == "unwritten":
        # twice around would overwrite: stop well before
        seconds = min(seconds, 0.6 * size / rate - SETTLE)
        if seconds < 0.01:
            raise Failed("the device is too fast for the size of the file")
    rounds = round(budget / len(sides) / (seconds + SETTLE))
    return seconds, min(max(rounds, ROUNDS_MIN), ROUNDS_MAX)


def measure(row, stage, budget, sides):
    """The samples of a row, in about budget seconds."""
    path, size, prepare, extra = stage.path, FILE_SIZE, lambda: None, None
    if row.kind == "unwritten":
        path, size = MNT / "unwritten", UNWRITTEN_SIZE
        extra = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        make_unwritten(extra)
        prepare = lambda: make_unwritten(extra)  # noqa: E731
    requests = requests_by_impl()
    fio = Fio(row, path, size)
    try:
        fio.wait_for_io()
        rate = 0
        for impl in sides:
            sample = turn(fio, impl, WARM / len(sides), prepare)
            rate = max(rate, sample["bytes"] / sample["seconds"])
        seconds, rounds = plan(row, rate, size, budget, sides)
        samples = []
        for pair in range(rounds):
            for impl in sides if pair % 2 == 0 else sides[::-1]:
                sample = turn(fio, impl, seconds, prepare)
                if row.kind == "unwritten" and sample["since_switch"] > size:
                    raise Failed("a turn wrote more than the fallocated space")
                samples.append({"pair": pair, **sample})
        claimed = fio.stop()
        total = io_bytes(fio.read) - fio.start_bytes
    finally:
        fio.kill()
        if extra is not None:
            os.close(extra)
            os.unlink(path)
    check_requests(row, requests, requests_by_impl(), sides)
    scale = claimed / total
    # Reads are counted exactly. Writes share the counter with the journal, and a polled bio
    # of more segments than null_blk takes is submitted twice: it must not wait, splitting it
    # would, and io_uring then hands it to a worker.
    exact = row.is_read and row.engine != "poll"
    if not (0.97 if exact else 0.3) < scale < 1.03:
        raise Failed(f"fio counts {claimed} bytes, the kernel {total}")
    for sample in samples:
        sample["ios"] = sample["bytes"] * scale / row.bytes
        sample["iops"] = sample["ios"] / sample["seconds"]
        del sample["since_switch"]
    return {"id": row.id, "fio": fio.argv, "fio_share": scale, "rounds": rounds,
            "turn_seconds": seconds, "samples": samples}


# The whole run

def clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def short(iops):
    return f"{iops / 1000:.1f}k" if iops >= 1000 else f"{iops:.0f}"


def describe(row, result):
    got = stats.summary(result["samples"])
    text = "  ".join(f"{impl} {short(got[impl]['iops'])}" for impl in ("c", "rust") if impl in got)
    if row.fs == "raw":
        return f"raw {short(got['c']['iops'])}"
    if "ratio" in got:
        ratio = got["ratio"]
        text += f"  rust/c {ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bench_rows.add_arguments(parser)
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    parser.add_argument("--budget", type=float, default=0,
                        help="seconds of measuring for each row (default 2; 0.9 if quick)")
    parser.add_argument("--against-itself", action="store_true",
                        help="leave the switch alone, and see what noise looks like")
    args = parser.parse_args()
    global AGAINST_ITSELF
    AGAINST_ITSELF = args.against_itself
    began = time.monotonic()
    try:
        rows, notes = bench_rows.select(args.fs, args.io, args.bs, args.quick)
    except ValueError as error:
        sys.exit(f"error: {error}")
    budget = args.budget or (0.9 if args.quick else 2)
    sides = implementations()

    for note in notes:
        say(note)
    say(f"{len(rows)} rows, each {budget:g} s of rounds of {' and '.join(sides)}")
    if AGAINST_ITSELF:
        say("against itself: both sides are the same code")
    elif sides == ["c"]:
        say(f"no {SWITCH}: this kernel has only one implementation, shown as c")

    nullb = []

    def polled():
        if not nullb:
            nullb.append(make_nullb())
        return nullb[0]

    disks = {"ram": lambda: "ram0", "poll": polled}
    results, failures = [], []
    first_row = None

    def failed(row, why):
        failures.append({"id": row.id, "error": str(why)})
        say(f"FAILED {row.id}: {why}")

    for key in dict.fromkeys(row.stage for row in rows):
        mine = [row for row in rows if row.stage == key]
        try:
            with Stage(key, disks) as stage:
                for row in mine:
                    now = time.monotonic()
                    first_row = first_row or now
                    done = len(results) + len(failures)
                    left = (now - first_row) / done * (len(rows) - done) if done > 3 else 0
                    try:
                        # one side has half the work
                        result = (measure(row, stage, budget / 2, ["c"]) if row.fs == "raw"
                                  else measure(row, stage, budget, sides))
                    except (Failed, OSError) as error:
                        failed(row, error)
                        continue
                    result["wall"] = time.monotonic() - now
                    results.append(result)
                    say(f"{done + 1}/{len(rows)}{f', {clock(left)} left' if left else ''}: "
                        f"{row.id}: {describe(row, result)}")
        except (Failed, OSError) as error:
            # without its device or file system none of the rest can run
            known = {entry["id"] for entry in [*results, *failures]}
            for row in mine:
                if row.id not in known:
                    failed(row, error)

    uname = os.uname()
    out = {
        "kernel": {"release": uname.release, "version": uname.version, "machine": uname.machine,
                   "banner": Path("/proc/version").read_text().strip(),
                   "cmdline": Path("/proc/cmdline").read_text().strip()},
        "guest": {"cpus": os.cpu_count(),
                  "fio": subprocess.run(["fio", "--version"], capture_output=True,
                                        text=True).stdout.strip(),
                  "memory_kb": int(Path("/proc/meminfo").read_text().split()[1])},
        "settings": {"fs": args.fs, "io": args.io, "bs": args.bs, "quick": args.quick,
                     "budget": budget, "implementations": sides, "file_bytes": FILE_SIZE,
                     "against_itself": AGAINST_ITSELF},
        "left_out": notes,
        "seconds": time.monotonic() - began,
        "rows": results,
        "failures": failures,
    }
    partial = args.out.with_suffix(".tmp")
    partial.write_text(json.dumps(out, indent=1) + "\n")
    partial.rename(args.out)
    say(f"measured {len(results)} rows in {clock(out['seconds'])}"
        + (f", {len(failures)} failed" if failures else ""))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
