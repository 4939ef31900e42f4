#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests census as its user would, in a guest with a stock kernel: under fio, PostgreSQL and MariaDB.

Prints "ok census-VERSION-NAME" or "FAIL census-VERSION-NAME: why" for each test into the file tests in --out,
which gets the censuses as well.
"""

import argparse
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from machine import Failed, command, wait_for
from only import matches

CENSUS = Path(__file__).with_name("census")
TRACING = Path("/sys/kernel/tracing")
EXT4, XFS = Path("/mnt/ext4"), Path("/mnt/xfs")
MIB = 1 << 20
TRIES = 10


class Run:
    """A census that has ended: what it said, and its JSON."""

    def __init__(self, out: Path, done: subprocess.CompletedProcess[str]) -> None:
        self.status, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr
        self.json: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}

    def kinds(self, mount: Path) -> dict[str, int]:
        found: dict[str, int] = {}
        for c in self.json["classes"]:
            if c["mount"] == str(mount):
                found[c["kind"]] = found.get(c["kind"], 0) + c["requests"]
        return found


class Tests:
    def __init__(self, out: Path) -> None:
        self.out = out

    def census(self, name: str, *argv: str, prefix: tuple[str, ...] = ()) -> Run:
        """Runs it, and keeps what it says and its JSON under that name."""
        path = self.out / f"{name}.json"
        done = subprocess.run([*prefix, str(CENSUS), "--json", str(path), *argv], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=600, check=False)
        (self.out / f"{name}.txt").write_text(done.stdout + done.stderr)
        return Run(path, done)

    def refused(self, words: str, *argv: str) -> None:
        """One line says why, and no JSON is left."""
        run = self.census("refused", *argv[argv.index("census") + 1:], prefix=argv[:argv.index("census")])
        assert run.status == 1 and not run.stdout and not run.json, f"status {run.status}, it said {run.stdout}"
        assert run.stderr.startswith("error: ") and run.stderr.count("\n") == 1 and words in run.stderr, run.stderr

    # Bad input

    def no_root(self) -> None:
        self.refused("root", "setpriv", "--reuid=65534", "--clear-groups", "census")

    def no_tracefs(self) -> None:
        self.refused("mount -t tracefs", "unshare", "-m", "sh", "-c",
                     'umount /sys/kernel/tracing; umount -R /sys/kernel/debug; exec "$@"', "sh", "census")

    def no_tracepoint(self) -> None:
        self.refused("no tracepoint iomap/", "unshare", "-m", "sh", "-c",
                     'mount -t tmpfs tmpfs /sys/kernel/tracing/events/iomap; exec "$@"', "sh", "census")

    def no_command(self) -> None:
        self.refused("no-such-program", "census", "--", "no-such-program")

    def no_space(self) -> None:
        full = Path("/mnt/full")
        full.mkdir(exist_ok=True)
        command("mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", full)
        try:
            (full / "all").write_bytes(bytes(4096))
            done = subprocess.run([CENSUS, "--seconds=0.2", "--json", full / "x.json"], capture_output=True, text=True,
                                  check=False)
            assert done.returncode == 1 and done.stderr.endswith("No space left on device\n"), done.stderr
            assert [path.name for path in full.iterdir()] == ["all"], list(full.iterdir())
        finally:
            command("umount", full)

    def idle(self) -> None:
        run = self.census("idle", "--seconds=0.5")
        assert run.status == 0 and "no direct I/O" in run.stdout, run.stdout

    # fio

    def fio(self, name: str, *jobs: str, argv: tuple[str, ...] = (), kind: str = "") -> tuple[Run, int]:
        """The census of jobs one after the other, and how many requests fio has made.

        It looks at a part of the time, which is short where the machine is slow. So a load may not fall into
        that: this is repeated until something of the `kind` was seen, and the hop to the worker if there is one.
        """
        log = self.out / "fio.json"
        words = " ".join(f"--name=j{i} {job} --stonewall" for i, job in enumerate(jobs)).split()
        for _ in range(TRIES):
            for at in (EXT4, XFS):
                (at / "fallocated").unlink(missing_ok=True)
                command("fallocate", "--length", str(16 * MIB), at / "fallocated")
            run = self.census(name, *argv, "--", "fio", "--output-format=json", f"--output={log}", "--direct=1",
                              "--thread", "--allow_file_create=0", "--io_size=1g", "--norandommap", "--invalidate=0",
                              *words)
            assert run.status == 0, run.stderr
            if not kind or any(c["kind"] == kind and (c["hop_us"] or "worker" not in c["ended_in"])
                               for c in run.json["classes"]):
                break
        made = json.loads(log.read_text()[log.read_text().index("{"):])["jobs"]
        return run, sum(job[way]["total_ios"] for job in made for way in ("read", "write"))

    def plain(self) -> None:
        """Each request is counted once, under what it is."""
        for at, kind, engine in product((EXT4, XFS), ("randread", "randwrite"), ("psync", "libaio", "io_uring")):
            run, made = self.fio("plain", f"--filename={at}/file --bs=4k --rw={kind} --ioengine={engine} --iodepth=8 "
                                 "--number_ios=2000", argv=("--events=1000000",), kind=kind)
            # io_uring repeats a request that was refused.
            refused = sum(n for what, n in run.json["errors"].items() if "unavailable" in what)
            assert made == 2000 == run.json["requests"] - refused, f"{made} of fio, {run.json['requests']} counted"
            # Some are refused, and of some a part of the events is lost.
            found = [c for c in run.json["classes"]
                     if (c["mount"], c["kind"], c["engine"]) == (str(at), kind, engine)]
            assert sum(c["requests"] for c in found) > 1500, run.stdout
            assert all(c["row"].endswith(f"{engine}/4k") for c in found), run.stdout
            assert run.json["saves_per_second"] > 0, run.stdout

    def owed(self) -> None:
        """What is to be done in the end, and the hop to the worker that does it."""
        append = "--size=16m --bs=16k --rw=write --ioengine=libaio --iodepth=16 --fallocate=none --number_ios=1024"
        sync = "--bs=4k --rw=randwrite --sync=dsync --number_ios=1000"
        # The disk of ext4 has FUA, that of XFS has not.
        for at, kind, job in ((EXT4, "unwritten", f"--filename={EXT4}/fallocated {append}"),
                              (XFS, "unwritten", f"--filename={XFS}/fallocated {append}"),
                              (EXT4, "dsync-fua", f"--filename={EXT4}/file {sync}"),
                              (XFS, "dsync-flush", f"--filename={XFS}/file {sync}")):
            run, _ = self.fio("owed", job, argv=("--events=1000000",), kind=kind)
            assert run.kinds(at).get(kind, 0) > 100, f"{at}: {run.kinds(at)}"
            hops = [c for c in run.json["classes"] if c["kind"] == "unwritten" and c["hop_us"]]
            assert all(c["hop_us"][0] <= c["latency_us"][1] for c in hops), run.stdout
            assert hops or kind != "unwritten", run.stdout

    def probe(self) -> None:
        with open(EXT4 / "file", "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            file.seek(31 * MIB)
            file.read(1)
            run, _ = self.fio("probe", f"--filename={EXT4}/file --size=16m --bs=4k --rw=randwrite --ioengine=io_uring "
                              "--fixedbufs=1 --number_ios=500", argv=("--probe",))
        assert run.kinds(EXT4).get("cached-write", 0) >= 450, run.stdout
        assert {c["engine"] for c in run.json["classes"]} == {"fixedbufs"}, run.stdout

    def busy(self) -> None:
        """With little to be read, all are counted."""
        run, made = self.fio("busy", f"--filename={EXT4}/file --bs=4k --rw=randread --ioengine=libaio --iodepth=32 "
                             "--number_ios=20000", argv=("--events=500",))
        assert run.json["requests"] == made == 20000, f"{made} of fio, {run.json['requests']} counted"
        assert run.json["looked_at"] < made / 2, run.stdout
        assert run.kinds(EXT4)["randread"] > 0.9 * made, run.stdout

    def killed(self) -> None:
        """However it ends, nothing of it stays."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            out = self.out / "killed.json"
            out.unlink(missing_ok=True)
            with subprocess.Popen([CENSUS, "--probe", "--json", out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True) as process:
                wait_for(lambda: list(TRACING.glob("instances/iomap_*/events/iomap_census_*/dio/enable")), "no probe")
                time.sleep(1)
                process.send_signal(number)
                said = process.communicate(timeout=60)[0]
            assert process.returncode == (-9 if number == signal.SIGKILL else 1), f"{number.name}: {said}"
            assert out.exists() == (number != signal.SIGKILL), f"{number.name}: {said}"
            wait_for(lambda: not list(TRACING.glob("instances/iomap_census_*")), f"{number.name}: the instance is left")
            wait_for(lambda: "iomap_census" not in (TRACING / "dynamic_events").read_text(), "the probe is left")

    # Databases

    @contextmanager
    def server(self, user: str, *argv: str | Path) -> Iterator[Callable[..., list[str]]]:
        """Runs it as that user; gives the words that run another program so."""
        who = pwd.getpwnam(user)

        def as_user(*words: str | Path) -> list[str]:
            return ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups", *map(str, words)]

        with open(self.out / f"{user}.log", "w") as log:
            server = subprocess.Popen(as_user(*argv), stdout=log, stderr=log)
            try:
                yield as_user
            finally:
                server.terminate()
                server.wait(120)

    def database(self, run: Run, at: Path, size: str) -> None:
        assert run.status == 0, run.stderr
        pages = sum(c["requests"] for c in run.json["classes"] if (c["mount"], c["size"]) == (str(at), size))
        assert pages > 100, run.stdout
        assert run.json["with_row"] > run.json["requests"] / 4, run.stdout

    def postgresql(self) -> None:
        bin_, data = next(Path("/usr/lib/postgresql").glob("*/bin")), EXT4 / "postgresql"
        data.mkdir(mode=0o700)
        shutil.chown(data, "postgres", "postgres")
        with self.server("postgres", "true") as user:
            command(*user(bin_ / "initdb", "--no-sync", "--auth=trust", "-D", data))
        options = [f"-c{option}" for option in ("debug_io_direct=data,wal", "shared_buffers=8MB", "listen_addresses=",
                                                "unix_socket_directories=/tmp", "checkpoint_timeout=30s")]
        with self.server("postgres", bin_ / "postgres", "-D", data, *options) as user:
            wait_for(lambda: subprocess.run([bin_ / "pg_isready", "-q", "-h/tmp"], check=False).returncode == 0,
                     "no server")
            command(*user(bin_ / "pgbench", "-h/tmp", "-i", "-s2", "-q", "postgres"))
            run = self.census("postgresql", "--", *user(bin_ / "pgbench", "-h/tmp", "-c4", "-T20", "postgres"))
        self.database(run, EXT4, "8k")

    def mariadb(self) -> None:
        data = XFS / "mariadb"
        data.mkdir()
        shutil.chown(data, "mysql", "mysql")
        command("mariadb-install-db", "--user=mysql", f"--datadir={data}", "--auth-root-authentication-method=normal",
                "--skip-test-db", timeout=600)
        with self.server("mysql", "mariadbd", "--no-defaults", f"--datadir={data}", "--socket=/tmp/mariadb",
                         "--skip-networking", "--innodb-flush-method=O_DIRECT", "--innodb-buffer-pool-size=6M"):
            wait_for(lambda: Path("/tmp/mariadb").exists(), "no server")
            client = ("mariadb", "--no-defaults", "--user=root", "--socket=/tmp/mariadb", "-e")
            command(*client, "CREATE DATABASE d; USE d; CREATE TABLE d.t (id INT PRIMARY KEY, n INT, fill CHAR(200)); "
                    "INSERT INTO d.t SELECT seq, 0, REPEAT('x', 200) FROM seq_1_to_60000")
            run = self.census("mariadb", "--", *client, "".join(
                f"UPDATE d.t SET n = n + 1 WHERE id = {1 + i * 7919 % 60000};" for i in range(1500)))
        self.database(run, XFS, "16k")


def state() -> dict[str, str]:
    """All that others would see of tracing."""
    files = ["current_tracer", "tracing_on", "trace_clock", "trace_options", "set_event", "dynamic_events",
             "buffer_size_kb", "events/enable", "events/iomap/enable", "instances/other/set_event",
             "instances/other/trace_options"]
    return {**{name: (TRACING / name).read_text() for name in files},
            "instances": " ".join(sorted(path.name for path in (TRACING / "instances").iterdir()))}


def prepare() -> None:
    """Disks, and somebody else who traces."""
    for module in ("nvme", "virtio_blk", "ext4", "xfs"):
        command("modprobe", module)
    for at, disk in ((EXT4, "/dev/nvme0n1"), (XFS, "/dev/vda")):
        wait_for(Path(disk).exists, f"no {disk}")
        command(f"mkfs.{at.name}", disk)
        at.mkdir(exist_ok=True)
        command("mount", disk, at)
        (at / "file").write_bytes(bytes(32 * MIB))
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    other = TRACING / "instances/other"
    other.mkdir()
    (other / "events/iomap/iomap_dio_complete/enable").write_text("1")
    file = os.open(TRACING / "dynamic_events", os.O_WRONLY | os.O_APPEND)
    os.write(file, b"p:other/read vfs_read\n")
    os.close(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--only", action="append", default=[])
    args = parser.parse_args()
    prepare()
    tests = Tests(args.out)
    version = ".".join(os.uname().release.split(".")[:2])
    lines = []
    for test in (tests.no_root, tests.no_tracefs, tests.no_tracepoint, tests.no_command, tests.no_space, tests.idle,
                 tests.plain, tests.owed, tests.probe, tests.busy, tests.killed, tests.postgresql, tests.mariadb):
        name = f"census-{version}-{test.__name__.replace('_', '-')}"
        if not matches(f"unit/{name}", args.only):
            continue
        before = state()
        try:
            test()
            if changed := [key for key, value in state().items() if value != before[key]]:
                raise Failed(f"{changed} of tracing changed")
            lines.append(f"ok {name}")
        except (AssertionError, Failed, subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
            lines.append(f"FAIL {name}: {' '.join(str(error).split())[-1000:]}")
        print(f"@@ {lines[-1]}", flush=True)
    (args.out / "tests").write_text("".join(f"{line}\n" for line in lines))
    os.sync()
    sys.exit(any(line.startswith("FAIL") for line in lines))


if __name__ == "__main__":
    main()
