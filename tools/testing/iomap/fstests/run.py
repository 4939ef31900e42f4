#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs fstests in a guest, each test with direct I/O in C and in Rust.

run.py SUITE OUT --until TIME: the suite is built in SUITE. Tests run in batches, a batch with C and then with
Rust, on file systems just made; those that end differently run twice more with each. A line of
OUT/results.jsonl is a test that ended. What a guest before this one did, which did not come to the end, is not
repeated: the test that it was in is "died". Exit status 75 asks for another guest, which goes on.

run.py SUITE OUT --plan: writes what there is to run, in this order, to OUT/plan.json, and which groups
no test is in. What guests found of the tests that --again names is forgotten. Exit status 1: there is nothing
to run; 2: --again names none of it.
"""

import argparse
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import machine
from only import matches

BATCH = 4
LIMIT = 300         # of a test, in seconds
AGAIN = 75
RERUNS = 2
IMPLS = ("c", "rust")
TEST, SCRATCH = "/mnt/test", "/mnt/scratch"
# In this order. The first two are no groups of fstests: these tests name direct I/O in their text, and the first
# are quick as well.
GROUPS = ("direct-quick", "direct", "dio", "aio", "rw", "quick", "auto")
DIRECT = re.compile(r"^[^#\n]*(_require_(odirect|aiodio)|aio-dio|O_DIRECT|direct=1|(XFS_IO_PROG|xfs_io) -\w*d)",
                    re.MULTILINE)
# fstests says of them that they may leave a machine useless.
DANGEROUS = re.compile("dangerous|broken|deprecated")


@dataclasses.dataclass(frozen=True)
class Config:
    name: str
    fstype: str
    mkfs: str = ""
    stable_writes: bool = False
    realtime: bool = False


CONFIGS = [
    Config("ext4", "ext4"),
    Config("xfs", "xfs", "-m reflink=0,rmapbt=0"),
    Config("xfs-reflink", "xfs", "-m reflink=1,rmapbt=1"),
    # fstests adds -f where the help says so, and no longer finds it in that of btrfs-progs 7.3.
    Config("btrfs", "btrfs", "-f"),
    Config("xfs-stable-writes", "xfs", "-m reflink=1,rmapbt=1", stable_writes=True),
    Config("f2fs", "f2fs"),
    Config("xfs-realtime", "xfs", "-d rtinherit=1 -m reflink=0,rmapbt=0", realtime=True),
]
MKFS = {"ext4": "mkfs.ext4 -q -F", "xfs": "mkfs.xfs -q -f", "btrfs": "mkfs.btrfs -q -f", "f2fs": "mkfs.f2fs -q -f"}
# In MiB: the memory of a guest has to hold what is written to them. mkfs.xfs wants 300 for a log.
DISKS = {"test": 1536, "scratch": 1536, "test-rt": 1024, "scratch-rt": 1024, "log": 512}

# No udev runs here, to which libdevmapper leaves its device nodes. They are links: by what they point at, fstests
# finds the folder in /sys.
DMSETUP = """#!/bin/sh
DM_DISABLE_UDEV=1 /usr/sbin/dmsetup "$@"
status=$?
for node in /dev/mapper/*; do
	[ -h "$node" ] || [ ! -b "$node" ] || ln -sf "../dm-$(stat -c %Lr "$node")" "$node"
done
exit $status
"""

Record = dict[str, Any]


def group_list(suite: Path, folder: str) -> dict[str, list[str]]:
    """{test: groups}"""
    lines = (suite / f"tests/{folder}/group.list").read_text(encoding="utf-8").splitlines()
    return {f"{folder}/{words[0]}": words[1:] for words in map(str.split, lines) if words and words[0].isdigit()}


def tests(suite: Path, fstype: str) -> dict[str, list[str]]:
    """The tests of a file system, by the first of our groups that has them."""
    found: dict[str, list[str]] = {group: [] for group in GROUPS}
    for folder in ("generic", fstype):
        for name, groups in group_list(suite, folder).items():
            if any(map(DANGEROUS.match, groups)):
                continue
            if DIRECT.search((suite / "tests" / name).read_text(encoding="utf-8", errors="replace")):
                groups.append("direct-quick" if "quick" in groups else "direct")
            # What is only said to be direct belongs to no group that was asked for.
            if first := next((group for group in GROUPS if group in groups and {*groups} & {*GROUPS[2:]}), None):
                found[first].append(name)
    return found


def plan(suite: Path, patterns: Sequence[str], configs: Sequence[Config]) -> list[tuple[str, str, list[str]]]:
    """[(configuration, group, tests)]: each configuration gets a batch before one gets its second."""
    batches = []
    for number, config in enumerate(configs):
        for rank, (group, names) in enumerate(tests(suite, config.fstype).items()):
            names = [name for name in names if matches(f"{config.name}/{name}", patterns)]
            batches += [((rank, at, number), (config.name, group, names[at:at + BATCH]))
                        for at in range(0, len(names), BATCH)]
    return [batch for _, batch in sorted(batches)]


def read_report(text: str) -> list[Record]:
    """What check says of the tests that have come to their end, in order. Its XML has the same, and takes longer
    than most tests."""
    records = []
    blocks = re.split(r"^(?=(?:\w+/\d+ |(?:Ran|Not run|Failures): |Passed all ))", text, flags=re.MULTILINE)
    for block in (block for block in blocks[:-1] if re.match(r"\w+/\d+ ", block)):
        name, said = block.split(None, 1)
        said, *more = said.splitlines()
        said = re.sub(r"^\d+s \.\.\. *", "", said)
        status = "notrun" if said.startswith("[not run]") else "pass" if re.fullmatch(r"\d+s", said) else "fail"
        # What the kernel says is another failure than a wrong result.
        status = "complaint" if "_check_dmesg: " in block else status
        records.append({
            "test": name, "status": status, "seconds": int(said[:-1]) if status == "pass" else 0,
            "reason": "" if status == "pass" else said.removeprefix("[not run]").strip(),
            "diff": [line.strip() for line in more if re.match(r" {4}[-+](?!-- |\+\+ )", line)]})
    return records


def forget(log: Path, patterns: Sequence[str]) -> None:
    """These tests have another turn, and so has what ran when the whole run was interrupted."""
    def again(config: str, names: Sequence[str]) -> bool:
        return bool(patterns) and any(matches(f"{config}/{name}", patterns) for name in names)

    lines = [line for line in log.read_text(encoding="utf-8").splitlines()
             if not {"begin", "end"} & {*(of := json.loads(line))}
             and not ("status" in of and again(of["config"], [of["test"]]))
             and not ("done" in of and again(*of["done"]))]
    log.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


class Guest:
    def __init__(self, suite: Path, out: Path, until: float) -> None:
        self.suite, self.out, self.until = suite, out, until
        self.log = out / "results.jsonl"
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        self.lines: list[Record] = [json.loads(line) for line in lines]
        self.disks: dict[str, str] = {}

    def put(self, **fields: Any) -> None:
        self.lines.append(fields)
        with open(self.log, "a", encoding="utf-8") as f:
            f.write(json.dumps(fields) + "\n")

    def records(self, config: str, impl: str, attempt: int) -> dict[str, Record]:
        return {line["test"]: line for line in self.lines if "status" in line
                and (line["config"], line["impl"], line["attempt"]) == (config, impl, attempt)}

    def folder(self, config: str, impl: str, attempt: int) -> Path:
        return self.out / "results" / f"{config}-{impl}-{attempt}"

    def take(self, config: str, impl: str, attempt: int, names: Sequence[str], end: str = "") -> None:
        """Records what check has reported of a batch. The first that it has not is what it was in."""
        have = self.records(config, impl, attempt)
        said = self.folder(config, impl, attempt) / "check.out"
        for record in read_report(said.read_text(encoding="utf-8", errors="replace") if said.exists() else ""):
            if record["test"] in names and record["test"] not in have:
                self.put(config=config, impl=impl, attempt=attempt, **record)
        left = [name for name in names if name not in self.records(config, impl, attempt)]
        if end and left:
            self.put(config=config, impl=impl, attempt=attempt, test=left[0], status=end, seconds=0, diff=[],
                     reason=f"after {LIMIT} s" if end == "timeout" else "the guest, or check, ended during it")

    def bury(self) -> None:
        """A guest before this one began a batch, and did not end it."""
        for batch in [line.get("begin") for line in self.lines if "begin" in line or "end" in line][-1:]:
            if batch:
                config, impl, attempt, names = batch
                self.take(config, impl, attempt, names, end="died")
                self.put(end=batch)

    def prepare(self, config: Config) -> dict[str, str]:
        """New file systems, and the variables of fstests for them."""
        if not self.disks:
            self.disks = {name: f"/dev/{machine.make_null_blk(name, mib, {'irqmode': 1, 'discard': 1})}"
                          for name, mib in DISKS.items()}
        disk = self.disks
        for name in disk.values():
            Path("/sys/block", Path(name).name, "queue/stable_writes").write_text(str(int(config.stable_writes)))
        env = {"FSTYP": config.fstype, "TEST_DIR": TEST, "TEST_DEV": disk["test"], "SCRATCH_MNT": SCRATCH,
               "SCRATCH_DEV": disk["scratch"], "LOGWRITES_DEV": disk["log"], "MKFS_OPTIONS": config.mkfs}
        rt = []
        if config.realtime:
            env |= {"USE_EXTERNAL": "yes", "TEST_RTDEV": disk["test-rt"], "SCRATCH_RTDEV": disk["scratch-rt"]}
            rt = ["-r", f"rtdev={disk['test-rt']}"]
        for path in (TEST, SCRATCH):
            os.makedirs(path, exist_ok=True)
        machine.command(*MKFS[config.fstype].split(), *config.mkfs.split(), *rt, disk["test"])
        return env

    def check(self, config: Config, impl: str, attempt: int, names: Sequence[str]) -> None:
        """Runs these; none may take more than LIMIT seconds."""
        folder = self.folder(config.name, impl, attempt)
        folder.mkdir(parents=True, exist_ok=True)
        said = folder / "check.out"
        machine.set_impl(impl)
        env = {**os.environ, **self.prepare(config), "RESULT_BASE": str(folder)}
        batch = config.name, impl, attempt, names
        self.put(begin=batch)
        # Who reads the console finds by this what belongs to which run of a test.
        Path("/dev/kmsg").write_text(f"fstests: {config.name} {impl} {attempt}\n", encoding="ascii")
        with open(said, "w", encoding="utf-8") as out, \
                subprocess.Popen(["./check", "--exact-order", *names], cwd=self.suite, stdout=out, stderr=out,
                                 stdin=subprocess.DEVNULL, env=env, start_new_session=True) as process:
            seen, began = 0, time.monotonic()
            while process.poll() is None:
                time.sleep(0.2)
                # It says a word before and after each test.
                if (now := said.stat().st_size) != seen:
                    seen, began = now, time.monotonic()
                if time.monotonic() - began > LIMIT:
                    Path("/proc/sysrq-trigger").write_text("w")
                    os.killpg(process.pid, signal.SIGKILL)
                    self.take(*batch, end="timeout")
                    self.put(end=batch)
                    # It may still use the disks.
                    sys.exit(AGAIN)
        text = said.read_text(encoding="utf-8", errors="replace")
        if not re.search(r"^\w+/\d+ ", text, re.MULTILINE):
            raise machine.Failed(f"{config.name}: no test began: {' '.join(text.split()[-40:])}")
        self.take(*batch, end="died")
        self.put(end=batch)

    def complete(self, config: Config, names: Sequence[str], attempt: int = 0) -> None:
        """Until each has a result with both implementations."""
        for impl in IMPLS:
            while left := [name for name in names if name not in self.records(config.name, impl, attempt)]:
                self.check(config, impl, attempt, left)
                # A checker that is off finds nothing.
                if re.search(r"debug_locks:\s*0", Path("/proc/lockdep_stats").read_text()):
                    print("@@ lockdep turned itself off", flush=True)
                    sys.exit(AGAIN)

    def batch(self, config: Config, group: str, names: Sequence[str]) -> None:
        self.complete(config, names)
        c, rust = (self.records(config.name, impl, 0) for impl in IMPLS)
        differ = [name for name in names if c[name]["status"] != rust[name]["status"]]
        for attempt in range(1, RERUNS + 1) if differ else ():
            self.complete(config, differ, attempt)
        ends = ("pass", "fail", "complaint", "notrun", "timeout", "died")
        counts = ", ".join(f"{impl}: " + " ".join(
            f"{n} {s}" for s in ends if (n := sum(of[name]["status"] == s for name in names)))
                           for impl, of in zip(IMPLS, (c, rust), strict=True))
        print(f"@@ {config.name}, {group}: {names[0]} to {names[-1]}: {counts}"
              + (f"; differ: {' '.join(differ)}" if differ else "")
              + f"; {max(0, int(self.until - time.time())) // 60} min left", flush=True)
        self.put(done=[config.name, names])


def main() -> int:
    ap = argparse.ArgumentParser()
    ap.add_argument("suite", type=Path)
    ap.add_argument("out", type=Path)
    ap.add_argument("--plan", action="store_true")
    ap.add_argument("--until", type=float, default=0, help="begin nothing after this time")
    ap.add_argument("--only", action="append", default=[], help="glob or part of CONFIGURATION/TEST")
    ap.add_argument("--again", action="append", default=[], help="the same")
    ap.add_argument("--shard", default="0/1", help="I/N: every N-th configuration from the I-th")
    args = ap.parse_args()
    at, of = map(int, args.shard.split("/"))
    batches = plan(args.suite, args.only, CONFIGS[at::of])
    if args.plan:
        names = [f"{config}/{name}" for config, _, batch in batches for name in batch]
        if not names:
            return 1
        if args.again and not any(matches(name, args.again) for name in names):
            return 2
        known = {group for folder in ("generic", *MKFS) for groups in group_list(args.suite, folder).values()
                 for group in groups}
        text = json.dumps({"batches": batches, "empty": sorted({*GROUPS[2:]} - known)})
        args.out.joinpath("plan.json").write_text(text, encoding="utf-8")
        for log in args.out.glob("[0-9]*/results.jsonl"):
            forget(log, args.again)
        return 0

    # On the file system of the host, a look at its thousands of files takes check longer than most tests.
    copy = Path("/tmp/fstests")
    copy.mkdir()
    machine.command("tar", "-C", copy, "-xf", f"{args.suite}.tar")
    dmsetup = Path("/tmp/bin/dmsetup")
    dmsetup.parent.mkdir()
    dmsetup.write_text(DMSETUP, encoding="ascii")
    dmsetup.chmod(0o755)
    os.environ["PATH"] = f"{dmsetup.parent}:{os.environ['PATH']}"
    guest = Guest(copy, args.out, args.until)
    guest.bury()
    guest.put(kernel=os.uname().release)
    configs = {config.name: config for config in CONFIGS}
    done = [line["done"] for line in guest.lines if "done" in line]
    for config, group, names in batches:
        if [config, names] in done:
            continue
        if time.time() > args.until:
            break
        try:
            guest.batch(configs[config], group, names)
        except machine.Failed as e:
            print(f"@@ error: {e}", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
