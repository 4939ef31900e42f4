# SPDX-License-Identifier: GPL-2.0
"""Tests of overlay.py, with a tree and a checkout of a few files."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import overlay

MAKEFILE = "VERSION = {}\nPATCHLEVEL = {}\nSUBLEVEL = 4\n".format(*overlay.VERSION.split("."))
TEXT = "one\ntwo\nthree\n"
PATCH = """\
From: Somebody <somebody@localhost>
Subject: [PATCH] change {file}

New files: {new}
---
diff --git a/{file} b/{file}
--- a/{file}
+++ b/{file}
@@ -1,3 +1,3 @@
 one
-two
+2
 three
"""
NEW = ["fs/iomap/direct_io_glue.c", "fs/iomap/tests/.kunitconfig", "fs/iomap/tests/run", "rust/new.rs"]


class Place(unittest.TestCase):
    def setUp(self) -> None:
        self.tmp = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        self.tree = self.tmp / "tree"
        self.env = {"HOME": str(self.tmp), "PATH": os.environ["PATH"]}
        self.write({"tree/Makefile": MAKEFILE, "tree/fs/a": TEXT, "tree/rust/b": TEXT,
                    "ours/patches/1-a.patch": PATCH.format(file="fs/a", new="fs/ fs/iomap/"),
                    "ours/patches/2-b.patch": PATCH.format(file="rust/b", new="fs/iomap/tests/ rust/new.rs"),
                    "ours/fs/old.o": "", "ours/fs/.hidden": "", "ours/tools/tool": ""} |
                   {f"ours/{name}": name for name in NEW})
        (self.tmp / "ours/fs/iomap/tests/run").chmod(0o755)
        self.start = self.snapshot()

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.tmp / name).parent.mkdir(parents=True, exist_ok=True)
            (self.tmp / name).write_text(text)

    def snapshot(self) -> dict[str, tuple[int, bytes]]:
        return {str(p.relative_to(self.tree)): (p.stat().st_mode, p.read_bytes() if p.is_file() else b"")
                for p in self.tree.rglob("*") if ".git" not in p.parts}

    def says(self, what: str, command: str, *args: str, status: int = 0, **env: str) -> None:
        """Prints a line that matches. If that is an error, nothing has changed."""
        before = self.snapshot()
        words = [sys.executable, "-B", overlay.__file__, "--from", self.tmp / "ours", command, *(args or [self.tree])]
        ran = subprocess.run(words, env=self.env | env, capture_output=True, text=True, check=False)
        self.assertRegex(ran.stderr.replace(f"{self.tmp}/", ""), f"^{what}\n?$")
        self.assertEqual(ran.returncode, status or what.startswith("error: "))
        if ran.returncode:
            self.assertEqual(self.snapshot(), before)


class Apply(Place):
    def test_there_and_back(self) -> None:
        # As in the trees that are built here
        os.link(self.tree / "fs/a", self.tmp / "pristine")
        self.says("", "check")
        self.says(r"\[ 0:00\] applied 2 patches and 4 new files to tree", "apply")
        self.says("error: tree already has the patches in it: 'make unapply KSRC=tree' takes them out", "check")
        there, state = self.snapshot(), self.tree / ".iomap-dio-rust"
        self.assertEqual({name for name in there.keys() - self.start.keys() if not name.startswith(state.name)},
                         {*NEW, "fs/iomap", "fs/iomap/tests"})
        self.assertEqual(there["fs/a"][1].decode(), TEXT.replace("two", "2"))
        self.assertEqual(there["fs/iomap/tests/run"][0] & 0o777, 0o755)
        self.assertEqual((self.tmp / "pristine").read_text(), TEXT)
        self.assertEqual(overlay.lines(state / "new"), NEW)
        self.assertEqual(overlay.lines(state / "patched"), ["fs/a", "rust/b"])
        self.assertEqual((state / "orig/fs/a").read_text(), TEXT)
        subprocess.run(["sha256sum", "--quiet", "-c", state / "sums"], cwd=self.tree, check=True)
        # A build leaves these.
        self.write(dict.fromkeys(("tree/fs/iomap/direct_io_glue.o", "tree/fs/iomap/.direct_io_glue.o.cmd",
                                  "tree/fs/iomap/built-in.a", "tree/rust/new.rsi", "tree/rust/.new.o.cmd"), ""))
        self.says(r"\[ 0:00\] tree is as it was", "unapply")
        self.assertEqual(self.snapshot(), self.start)
        self.says("error: tree has no patches of ours in it: nothing to undo", "unapply")

    def test_tree_that_does_not_fit(self) -> None:
        self.says("error: which kernel tree\\? make apply KSRC=/path/to/linux", "apply", "")
        self.says("error: no is no directory: KSRC=/path/to/linux", "check", f"{self.tmp}/no")
        patch = "ours/patches/2-b.patch"
        for name, text, said in (
                ("tree/rust/new.rs", "mine", "tree/rust/new.rs exists already, and we would overwrite it"),
                ("tree/rust/b", "one\nzwei\nthree\n", f"{patch} does not apply to tree/rust/b"),
                (patch, "--- a/fs/a\n+++ b/fs/a\n@@ -1 +1 @@\n", f"{patch} does not apply to tree/fs/a"),
                (patch, PATCH.format(file="rust/c", new=""), f"{patch} changes tree/rust/c, which does not exist"),
                ("tree/Makefile", "VERSION = 6\nPATCHLEVEL = 1\n",
                 f"tree/Makefile says Linux 6.1, but the patches are for {overlay.VERSION}")):
            with self.subTest(said):
                self.setUp()
                self.write({name: text})
                self.says(f"error: {said}; nothing was changed", "apply")
        (self.tree / "Makefile").unlink()
        self.says("error: tree/Makefile is missing: tree is no kernel source tree", "apply")

    def test_error_in_the_middle(self) -> None:
        self.write({"tree/Documentation": "a file, but ours is to be a folder", "ours/Documentation/rust/c": ""})
        self.says("error: .*tree/Documentation.*", "apply")

    def test_changed_since(self) -> None:
        self.says(".*applied.*", "apply")
        self.write({"tree/fs/a": "changed"})
        self.says("error: tree/fs/a was changed after the patches: save your change, then 'make unapply FORCE=1' "
                  "restores the original", "unapply")
        self.says(".* tree is as it was", "unapply", FORCE="1")
        self.assertEqual(self.snapshot(), self.start)

    def test_sync_touches_what_changes(self) -> None:
        def touched() -> set[str]:
            for path in self.tree.rglob("*"):
                os.utime(path, (0, 0))
            self.says("", "sync", str(self.tree), f"{self.tmp}/more")
            return {str(path.relative_to(self.tree)) for path in self.tree.rglob("*")
                    if path.is_file() and path.stat().st_mtime and ".iomap-dio-rust" not in path.parts}

        self.write({"tree/fs/c": TEXT, "more/c.patch": PATCH.format(file="fs/c", new=""), "more/fs/iomap/d": "d"})
        self.assertEqual(touched(), {*NEW, "fs/a", "fs/c", "rust/b", "fs/iomap/d"})
        self.assertEqual(touched(), set())
        self.write({"ours/rust/new.rs": "other"})
        self.assertEqual(touched(), {"rust/new.rs"})
        shutil.rmtree(self.tmp / "more")
        # What was patched has a new time.
        self.assertEqual(touched(), {"fs/c"})
        self.assertEqual((self.tree / "fs/c").read_text(), TEXT)
        self.assertFalse((self.tree / "fs/iomap/d").exists())

    def test_try(self) -> None:
        self.says(".* 2 patches apply to tree", "try")
        self.write({"ours/rust/d": ""})
        self.says("error: rust/d is a new file that no patch names in its line 'New files:'; nothing was changed",
                  "try")
        self.write({"tree/fs/a": TEXT.replace("one", "eins")})
        self.says("error: ours/patches/1-a.patch does not apply to tree/fs/a; nothing was changed", "try")
        # With fuzz
        self.says(".*applied.*", "apply")


@unittest.skipUnless(shutil.which("git"), "there is no git")
class Commits(Place):
    def setUp(self) -> None:
        super().setUp()
        self.env["COMMIT"] = "1"
        self.write({".gitconfig": "[user]\nname = me\nemail = me@localhost\n"})
        self.git("init", "-q")
        self.commit()

    def git(self, *args: str) -> str:
        return subprocess.run(["git", *args], cwd=self.tree, env=self.env, capture_output=True, text=True,
                              check=True).stdout.strip()

    def commit(self, files: dict[str, str] | None = None) -> None:
        self.write(files or {})
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "theirs")
        self.base, self.start = self.git("rev-parse", "HEAD"), self.snapshot()

    def is_back(self) -> None:
        self.assertEqual(self.snapshot(), self.start)
        self.assertEqual(self.git("rev-parse", "HEAD"), self.base)
        self.assertEqual(self.git("status", "--porcelain"), "")
        self.assertEqual(self.git("for-each-ref", "refs/worktree/"), "")
        self.assertFalse((self.tree / ".git/rebase-apply").exists())

    def test_there_and_back(self) -> None:
        self.says(rf"\[ 0:00\] made 2 commits with 4 new files in tree, on top of {self.base[:12]}", "apply")
        self.assertEqual(self.git("log", "--format=%s", "--name-only", "--reverse", f"{self.base}..").split("\n"), [
            "change fs/a", "", "fs/a", "fs/iomap/direct_io_glue.c",
            "change rust/b", "", "fs/iomap/tests/.kunitconfig", "fs/iomap/tests/run", "rust/b", "rust/new.rs"])
        self.assertEqual(self.git("status", "--porcelain"), "")
        self.says("error: tree already has the patches in it: .*", "apply")
        ours = self.git("rev-parse", "HEAD")
        self.git("commit", "-q", "--allow-empty", "-m", "on top")
        self.says(f"error: tree has commits on top of ours: 'git rebase --onto {self.base[:12]} {ours[:12]}' "
                  "takes ours from under them; nothing was changed", "unapply")
        self.git("reset", "-q", "--hard", ours)
        self.says(rf"\[ 0:00\] tree is as it was, at {self.base[:12]}", "unapply")
        self.is_back()
        self.says("error: tree has no patches of ours in it: nothing to undo", "unapply")

    def test_modules_come_with_their_files(self) -> None:
        early = "mod a;\n\nuse a::A;\n"
        new = f'{early[:8]}/// About it\n#[cfg(X)]\npub(crate) mod b;\n#[path = "below/c.rs"]\nmod c;\n{early[7:]}'
        self.write({"ours/rust/new.rs": new, "ours/rust/new/a.rs": "", "ours/rust/new/b.rs": "mod d;\n",
                    "ours/rust/new/b/d.rs": "", "ours/rust/below/c.rs": "",
                    "ours/patches/2-b.patch": PATCH.format(file="rust/b", new="fs/iomap/tests/ rust/new.rs "
                                                                              "rust/new/a.rs"),
                    # Without a diff
                    "ours/patches/3-c.patch": "From: me <me@localhost>\nSubject: [PATCH] the rest\n\nWhy\n---\n"
                                              "New files: rust/new/ rust/below/\n-- \n2.39.5\n"})
        self.says(".*made 3 commits with 8 new files.*", "apply")
        self.assertEqual(self.git("show", "HEAD~:rust/new.rs"), early.strip())
        self.assertEqual((self.tree / "rust/new.rs").read_text(), new)
        self.assertEqual(self.git("log", "-1", "--format=%s: %b"), "the rest: Why")
        self.assertEqual(self.git("show", "--format=", "--name-only").split(),
                         ["rust/below/c.rs", "rust/new.rs", "rust/new/b.rs", "rust/new/b/d.rs"])
        self.says(".* tree is as it was.*", "unapply")
        self.is_back()

    def test_tree_that_takes_no_commits(self) -> None:
        for name, text, said in (
                ("tree/fs/a", "other", "tree/fs/a has a change that is not committed: commit or stash it first"),
                ("tree/.git/MERGE_HEAD", "", "tree/.git/MERGE_HEAD says that git is busy in tree: finish that first"),
                (".gitconfig", "", "git does not know who you are: set user.name and user.email with "
                 "'git config --global'")):
            with self.subTest(said):
                self.setUp()
                self.write({name: text})
                self.says(f"error: {said}; nothing was changed", "apply")
        self.write({"tree/below/Makefile": MAKEFILE})
        self.says("error: tree/below is not the top of its git tree: make apply COMMIT=1 KSRC=tree", "apply",
                  f"{self.tree}/below")
        shutil.rmtree(self.tree / ".git")
        self.says("error: COMMIT=1 needs a git tree, and git says of tree: fatal: .*", "apply")
        self.git("init", "-q")
        self.says("error: tree has no commit yet, and COMMIT=1 needs one to start from", "apply")

    def test_git_is_stricter_than_patch(self) -> None:
        self.commit({"tree/rust/b": TEXT.replace("one", "eins")})
        self.says(r"error: git am does not take ours/patches/2-b.patch \(error: .*\); tree is as it was", "apply")
        self.is_back()

    def test_git_makes_something_else(self) -> None:
        self.commit({"tree/.gitattributes": "rust/b ident\n", "tree/rust/b": f"{TEXT}$Id$\n"})
        (self.tree / "rust/b").unlink()
        self.git("reset", "-q", "--hard")
        self.start = self.snapshot()
        self.says("error: git made something else of tree/rust/b than patch does; tree is as it was", "apply")
        self.is_back()

    def test_roll_back(self) -> None:
        # A signal while git holds a lock; and new files that git does not know yet
        for when, then, said, status in (
                ("am -q", "touch .git/index.lock; kill $PPID; sleep 0.2; rm .git/index.lock", "", 130),
                ("add -f", "echo full >&2; exit 1", "error: git add fails in tree: full", 1)):
            with self.subTest(when):
                self.setUp()
                self.write({"bin/git": f'#!/bin/sh\ncase $* in *"{when}"*) {then} ;; esac\n'
                                       f'exec {shutil.which("git")} "$@"\n'})
                (self.tmp / "bin/git").chmod(0o755)
                self.says(said, "apply", status=status, PATH=f"{self.tmp}/bin:{self.env['PATH']}")
                self.is_back()
