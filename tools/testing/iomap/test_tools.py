# SPDX-License-Identifier: GPL-2.0
"""Tests of what the scripts of this folder share."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from only import matches

HERE = Path(__file__).resolve().parent


class Only(unittest.TestCase):
    def test_matches(self) -> None:
        for name, patterns, wanted in (
                ("check/flags", [], True),
                ("xfs/rust/mix-sync", ["xfs/*/mix*"], True),
                # A glob is of the whole name.
                ("diff/xfs/rust/mix-sync", ["xfs/*/mix*"], False),
                ("xfs/rust/mix-sync", ["other", "rust/mix"], True),
                ("xfs/rust/mix-sync", ["Rust"], False)):
            self.assertEqual(matches(name, patterns), wanted, (name, patterns))

    def test_from_a_script(self) -> None:
        said = subprocess.run([sys.executable, HERE / "only.py", "arm", "*-rt"], input="arm64\nx86\nx86-rt\n",
                              capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout, "arm64\nx86-rt\n")


def shell(script: str, **env: str) -> str:
    """What a script says that sources common.sh."""
    return subprocess.run(["bash", "-euc", f". {HERE}/common.sh; {script}"], env=os.environ | env,
                          capture_output=True, text=True, check=True).stdout


class Variables(unittest.TestCase):
    # Of the shell, of sudo, or set where they are used.
    OTHERS = frozenset(("XDG_CACHE_HOME", "SUDO_UID", "SUDO_GID", "PROGRESS_LAST", "BUILD"))

    def test_the_lists_have_what_scripts_read(self) -> None:
        listed = shell("variables").split()
        self.assertEqual(len(listed), len(set(listed)))
        read = {"SECONDS": "Makefile", "FLAVOUR": "Makefile", "CACHE": "Makefile", "IOMAP_T0": "common.sh"}
        for path in HERE.rglob("*.sh"):
            for name in re.findall(r"\$\{([A-Z][A-Z0-9_]*):[-+=?]", path.read_text()):
                read[name] = path.name
        for name in re.findall(r'environ\.get\("(\w+)"', (HERE / "overlay.py").read_text()):
            read[name] = "overlay.py"
        self.assertEqual({n: where for n, where in read.items() if n not in listed and n not in self.OTHERS}, {})
        self.assertEqual(set(listed) - set(read), set())

    def test_they_survive_sudo(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            tmp = Path(name)
            for file in ("common.sh", "in-root.sh", "pins", "README"):
                shutil.copy(HERE / file, tmp)
            (tmp / "sudo").write_text('#!/bin/sh\n[ "$2" = true ] || printf "%s\\n" "$@"\n')
            (tmp / "again").write_text(f'. {tmp}/common.sh; userns_works() {{ false; }}; need_root "$@"\n')
            for path in (tmp, *tmp.iterdir()):
                path.chmod(0o755)
            want = {v: f"/{v} twice" for v in shell("variables").split() if v not in ("SECONDS", "CACHE")}
            said = subprocess.run(["bash", tmp / "again", "an argument"],
                                  env=want | {"PATH": f"{tmp}:{os.environ['PATH']}", "HOME": name}, text=True,
                                  capture_output=True, check=True, user=None if os.geteuid() else 65534)
        lines = said.stdout.splitlines()
        self.assertEqual([f"{v}={value}" for v, value in want.items() if f"{v}={value}" not in lines], [])
        self.assertEqual(lines[-3:], ["bash", str(tmp / "again"), "an argument"])


class Names(unittest.TestCase):
    def test_tilde(self) -> None:
        said = shell('echo "$CACHE $KSRC"', HOME="/home/me", IOMAP_CACHE="~/cache", KSRC="~/linux")
        self.assertEqual(said, "/home/me/cache /home/me/linux\n")

    def test_relative(self) -> None:
        self.assertEqual(shell('cd /; echo "$CACHE"', IOMAP_CACHE="here/cache").rstrip(), os.path.abspath("here/cache"))


class Space(unittest.TestCase):
    def test_a_full_disk_is_named(self) -> None:
        shell("need_space 0 it", IOMAP_CACHE="/")
        said = shell("(need_space 999999 'making it') 2>&1 || :", IOMAP_CACHE="/")
        self.assertRegex(said, r"^error: / has \d+ GiB of free space, and making it takes up to 999999\n$")


class Clean(unittest.TestCase):
    def test_it_deletes_what_the_scripts_made(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            tmp = Path(name)
            (tmp / "unshare").write_text('#!/bin/sh\necho "$@"\n')
            (tmp / "unshare").chmod(0o755)
            for before, deleted in (([], True), (["cache"], True), (["cache", "cache/mine"], False),
                                    (["iomap-dio-rust", "iomap-dio-rust/old"], True)):
                for folder in before:
                    (tmp / folder).mkdir()
                cache = tmp / [*before, "cache"][0]
                env = {"IOMAP_CACHE": str(cache), "PATH": f"{tmp}:{os.environ['PATH']}"}
                shell("lock root", **env)
                said = subprocess.run(["bash", HERE / "clean.sh"], env=os.environ | env, capture_output=True, text=True,
                                      check=False)
                self.assertEqual(f"rm -rf --one-file-system {cache} " in said.stdout, deleted, said)
                self.assertEqual(said.returncode, 0 if deleted else 1, said)
                if not deleted:
                    self.assertRegex(said.stderr, rf"^error: {cache} .*\n$")
                shutil.rmtree(cache)


class Readme(unittest.TestCase):
    def test_it_has_every_file(self) -> None:
        text = (HERE / "README").read_text()
        here = {p.name + "/" * p.is_dir() for p in HERE.iterdir() if not p.name.startswith((".", "test_", "__"))}
        listed = {*re.findall(r"^  ([a-z][\w./-]*) ", text, re.MULTILINE), "README"}
        folders = {name for name in re.findall(r"[\w-]+/", text) if name in here}
        self.assertEqual(here - listed - folders, set())
        self.assertEqual({name for name in listed if not (HERE / name).exists()}, set())


class Publish(unittest.TestCase):
    def test_latest_points_to_it(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            for kind, latest in (("test", "latest-test"), ("bench", "latest")):
                # One that was begun later and has died does not count.
                for time, end in (("1000000000", "published"), ("1000000001", ":")):
                    shell(f'. {HERE}/results.sh; PROJECT={name}; publish {kind}; echo 1 >"$PROJECT/$results/report"; '
                          f"{end}", IOMAP_T0=time)
                self.assertEqual((Path(name) / "results" / latest).readlink(), Path(f"20010909T014640Z-{kind}"))
                self.assertEqual((Path(name) / "results" / latest / "report").read_text(), "1\n")
