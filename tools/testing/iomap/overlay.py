#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Puts our files and patches into a kernel tree, and takes them out again.

  overlay.py check TREE          are the patches for this tree, and not in it yet?
  overlay.py apply TREE          once, into a user's tree; with COMMIT=1 as commits
  overlay.py unapply TREE        the tree as it was
  overlay.py sync TREE [DIR...]  make a tree of our own match the checkout, and each DIR with more patches
                                 and files, touching only what changes, so that builds stay incremental
  overlay.py try TREE            would it apply, without fuzz? Changes nothing.

overlay.sh runs it. --from says where the checkout is, if it is another one than this.

TREE/.iomap-dio-rust remembers what was done: "new" and "patched" list files, "orig/" holds the
patched ones as they were, "sums" what we made of them.
All of the result is made beside the tree first; only then is the tree touched.

With COMMIT=1 each patch becomes a commit, by git am, together with the files that its line "New files:"
names. A `mod` of Rust is left out of a file until the commit that brings the file of the module, so that
each commit builds. The commits before the first and at the last are the references "base" and "head"
below refs/worktree/iomap-dio-rust/.
"""

import argparse
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[2]
VERSION = re.findall(r"^KERNEL_VERSION=(.*)", (HERE / "pins").read_text(), re.MULTILINE)[0]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
signalled: list[int] = []
BASE, HEAD = "refs/worktree/iomap-dio-rust/base", "refs/worktree/iomap-dio-rust/head"
OBJECTS = ("o", "ko", "rsi", "mod", "mod.c", "mod.o", "i", "s", "ll")
GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", "-c", "commit.gpgSign=false",
       "-c", "am.threeWay=true", "-c", "apply.whitespace=nowarn")


def die(text: str) -> NoReturn:
    sys.exit(f"error: {text}")


def say(text: str) -> None:
    """With the time since the start, as in common.sh."""
    now = int(time.time())
    minutes, seconds = divmod(now - int(os.environ.get("IOMAP_T0", now)), 60)
    print(f"[{minutes:2}:{seconds:02}] {text}", file=sys.stderr)


def shown(path: Path) -> str:
    return str(path).removeprefix(f"{PROJECT}/")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def heed_signals() -> None:
    """To be called between steps: what is stopped within one may leave a lock of git, or half a file."""
    if signalled:
        sys.exit(130)


def ignore_signals() -> None:
    """To be called before something is undone, or done for good."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signalled.clear()


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    heed_signals()
    return ran


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def put(source: Path, target: Path) -> None:
    """Replaces what differs, and never writes into it: it may be a hard link into the pristine source."""
    heed_signals()
    if digest(source) == digest(target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f"{target.name}.iomap-tmp")
    try:
        shutil.copy(source, new)
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


def our_files(folder: Path) -> Iterator[str]:
    """The files that we add, as paths in the tree."""
    for top in ("fs", "rust", "Documentation"):
        for path in (folder / top).rglob("*"):
            hidden = path.name.startswith(".") and path.name != ".kunitconfig"
            if path.is_file() and not hidden and not path.name.endswith((".o", "~", ".orig", ".rej")):
                yield str(path.relative_to(folder))


def has_diff(patch: Path) -> bool:
    """Or it only brings new files."""
    return "\n+++ b/" in patch.read_text()


def without_later(name: str, text: str, later: Container[str]) -> str:
    """A Rust file without each `mod` whose own file is in `later`, its attributes and its documentation."""
    def kept(item: re.Match[str]) -> str:
        path = re.search(r'#\[path = "(.*)"\]', item[0])
        file = Path(name).parent / path[1] if path else Path(name).with_suffix("") / f"{item[1]}.rs"
        return "" if str(file) in later else item[0]

    left = re.sub(r"(?:^ *(?:///|#\[).*\n)*^ *(?:pub(?:\(.*?\))? )?mod (\w+);\n", kept, text, flags=re.MULTILINE)
    return text if left == text else re.sub(r"\n{3,}", "\n\n", left)


class Overlay:
    """What is to be in a tree, or is: the first of the folders is the checkout, `work` is ours to write to."""

    def __init__(self, tree: Path, folders: list[Path], work: Path) -> None:
        self.tree, self.folders, self.work = tree, folders, work
        self.state = tree / ".iomap-dio-rust"

    def check(self) -> None:
        # Or there are somebody's commits of it.
        if self.state.exists() or (self.tree / "fs/iomap/direct_io_glue.c").exists():
            die(f"{self.tree} already has the patches in it: 'make unapply KSRC={self.tree}' takes them out")

    def check_version(self) -> None:
        makefile = self.tree / "Makefile"
        if not makefile.is_file():
            die(f"{makefile} is missing: {self.tree} is no kernel source tree")
        version = ".".join(re.findall("^(?:VERSION|PATCHLEVEL) = (.*)", makefile.read_text(), re.MULTILINE))
        if version != VERSION:
            die(f"{makefile} says Linux {version}, but the patches are for {VERSION}; nothing was changed")

    def make_wanted(self, *fuzz: str) -> None:
        """Each file as it is to be, by its path in the tree. Says which patch and which file if it cannot."""
        checkout, *more = self.folders
        self.patches = [patch for d in (checkout / "patches", *more) for patch in sorted(d.glob("*.patch"))]
        self.new = {name: d / name for d in self.folders for name in sorted(our_files(d))}
        orig, want = self.work / "orig", self.work / "want"
        orig.mkdir()
        changed = {name: patch for patch in reversed(self.patches)
                   for name in re.findall(r"^\+\+\+ b/([^\t\n]*)", patch.read_text(), re.MULTILINE)}
        for name, patch in changed.items():
            saved = self.state / "orig" / name
            file = saved if saved.exists() else self.tree / name
            if not file.exists():
                die(f"{shown(patch)} changes {file}, which does not exist; nothing was changed")
            (orig / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, orig / name)
        shutil.copytree(orig, want)
        self.patched = {name: want / name for name in changed}
        for patch in self.patches:
            if not has_diff(patch):
                continue
            ran = run(want, "patch", "-p1", "-N", "--no-backup-if-mismatch", *fuzz, "-r", "-", "-i", str(patch))
            if ran.returncode:
                before = re.split("FAILED|ignored|malformed", ran.stdout + ran.stderr)[0]
                file = self.tree / ["", *re.findall("^patching file '?([^'\n]*)", before, re.MULTILINE)][-1]
                die(f"{shown(patch)} does not apply to {file}; nothing was changed")
        known = lines(self.state / "new")
        for name in self.new:
            if name in self.patched:
                die(f"{name} is both a file of ours and the object of a patch")
            if (self.tree / name).exists() and name not in known:
                die(f"{self.tree / name} exists already, and we would overwrite it; nothing was changed")
        self.wanted = self.new | self.patched

    def assign_new(self) -> None:
        """With which patch is each new file committed? It names the file, or the deepest directory above it."""
        owner = {name: patch for patch in self.patches for line in lines(patch) if line.startswith("New files: ")
                 for name in line.split()[2:]}
        self.new_with: dict[Path, list[str]] = {patch: [] for patch in self.patches}
        for file in self.new:
            names = [name for name in owner if name == file or (name.endswith("/") and file.startswith(name))]
            if not names:
                die(f"{file} is a new file that no patch names in its line 'New files:'; nothing was changed")
            self.new_with[owner[max(names, key=len)]].append(file)

    def put_wanted(self) -> None:
        """The state first, so that what is in the tree is known to be ours."""
        with tempfile.TemporaryDirectory(prefix=".iomap-dio-rust.", dir=self.tree) as tmp:
            state = Path(tmp, "state")
            shutil.copytree(self.work / "orig", state / "orig")
            for name, text in {
                # Known to git, this is nothing of the user's.
                ".gitignore": ["*"],
                "new": sorted(self.new),
                "patched": sorted(self.patched),
                "sums": [f"{digest(file)}  {name}" for name, file in sorted(self.patched.items())],
            }.items():
                (state / name).write_text("".join(f"{line}\n" for line in text))
            shutil.rmtree(self.state, ignore_errors=True)
            state.rename(self.state)
        for name, file in self.wanted.items():
            put(file, self.tree / name)

    def remove(self, names: Iterable[str]) -> None:
        """Files of ours, what a build leaves beside them, and directories that only we need."""
        folders = set()
        for path in (self.tree / name for name in names):
            built = (path.with_name(f"{path.stem}.{end}") for end in OBJECTS)
            for file in (path, *built, *path.parent.glob(f".{path.stem}.*.cmd")):
                if file.is_file():
                    file.unlink()
            folders |= {folder for folder in path.parents if self.tree in folder.parents}
        for folder in sorted(folders, reverse=True):
            if all(re.fullmatch(r"\..*\.cmd|built-in\.a|modules\.order", file.name) for file in folder.rglob("*")):
                shutil.rmtree(folder, ignore_errors=True)

    def take_out(self, but: Iterable[str] = ()) -> None:
        """What is ours goes. Patched files are as they were, with a new time so that make sees the change."""
        self.remove(set(lines(self.state / "new")).difference(but))
        for name in set(lines(self.state / "patched")).difference(but):
            put(self.state / "orig" / name, self.tree / name)

    def undo(self) -> None:
        ignore_signals()
        self.take_out()
        shutil.rmtree(self.state, ignore_errors=True)

    def git(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        ran = run(self.tree, *GIT, *args)
        if check and ran.returncode:
            die(f"git {args[0]} fails in {self.tree}: {' '.join(ran.stderr.split())}")
        return ran

    def check_git(self) -> None:
        """Is the tree one that commits can be made in, and taken back?"""
        if not shutil.which("git"):
            die("git is missing: apt-get install git")
        ran = self.git("rev-parse", "--show-toplevel", check=False)
        if ran.returncode:
            die(f"COMMIT=1 needs a git tree, and git says of {self.tree}: {ran.stderr.splitlines()[0]}")
        top = ran.stdout.strip()
        if Path(top).resolve() != self.tree:
            die(f"{self.tree} is not the top of its git tree: make apply COMMIT=1 KSRC={top}")
        if self.git("rev-parse", "-q", "--verify", "HEAD", check=False).returncode:
            die(f"{self.tree} has no commit yet, and COMMIT=1 needs one to start from")
        for name in ("index.lock", "rebase-apply", "rebase-merge", "MERGE_HEAD"):
            file = Path(self.git("rev-parse", "--absolute-git-dir").stdout.strip(), name)
            if file.exists():
                die(f"{file} says that git is busy in {self.tree}: finish that first; nothing was changed")
        if changes := self.git("status", "--porcelain", "--untracked-files=no").stdout:
            file = self.tree / changes.splitlines()[0][3:]
            die(f"{file} has a change that is not committed: commit or stash it first; nothing was changed")
        if self.git("-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT", check=False).returncode:
            die("git does not know who you are: set user.name and user.email with 'git config --global'; "
                "nothing was changed")

    def put_new(self, later: Container[str]) -> list[str]:
        """Puts the new files into the tree that do not come later, and names those that it had to change."""
        changed = []
        for name, file in self.new.items():
            if name in later:
                continue
            if name.endswith(".rs") and (left := without_later(name, file.read_text(), later)) != file.read_text():
                whole, file = file, self.work / "part.rs"
                file.write_text(left)
                shutil.copymode(whole, file)
            if digest(file) != digest(self.tree / name):
                put(file, self.tree / name)
                changed.append(name)
        return changed

    def make_commits(self) -> str:
        later = set(self.new)
        base = self.git("rev-parse", "HEAD").stdout.strip()
        try:
            for patch, files in self.new_with.items():
                mail = patch
                if not has_diff(patch):
                    mail = self.work / "message"
                    mail.write_text(patch.read_text().partition("\n---\n")[0])
                ran = self.git("am", "-q", "--empty=keep", str(mail), check=False)
                if ran.returncode:
                    said = (ran.stdout + ran.stderr).splitlines()
                    why = [line for line in said if line.startswith("error: ")] or said or [""]
                    die(f"git am does not take {shown(patch)} ({why[0]}); {self.tree} is as it was")
                later.difference_update(files)
                if changed := self.put_new(later):
                    self.git("add", "-f", "--", *changed)
                    self.git("commit", "-q", "--amend", "--no-edit")
            for name, file in self.wanted.items():
                if digest(file) != digest(self.tree / name):
                    die(f"git made something else of {self.tree / name} than patch does; {self.tree} is as it was")
            ignore_signals()
            self.git("update-ref", BASE, base)
            self.git("update-ref", HEAD, "HEAD")
        except BaseException:
            ignore_signals()
            self.git("am", "--abort", check=False)
            if self.git("reset", "-q", "--hard", base, check=False).returncode:
                say(f"could not go back: 'git reset --hard {base}' in {self.tree} does")
            self.remove(self.new)
            raise
        return base[:12]

    def undo_commits(self) -> str:
        """Takes back the commits that "apply" made last, if there are any and HEAD still has them."""
        base = head = ""
        if shutil.which("git"):
            base, head = (self.git("rev-parse", "-q", "--verify", ref, check=False).stdout.strip()
                          for ref in (BASE, HEAD))
        if not base or not head or self.git("merge-base", "--is-ancestor", head, "HEAD", check=False).returncode:
            die(f"{self.tree} has no patches of ours in it: nothing to undo")
        if self.git("rev-parse", "HEAD").stdout.strip() != head:
            die(f"{self.tree} has commits on top of ours: 'git rebase --onto {base[:12]} {head[:12]}' takes ours "
                "from under them; nothing was changed")
        self.check_git()
        new = self.git("diff", "--name-only", "--diff-filter=A", base, head).stdout.splitlines()
        ignore_signals()
        self.git("reset", "-q", "--hard", base)
        self.remove(new)
        for ref in (BASE, HEAD):
            self.git("update-ref", "-d", ref)
        return base[:12]

    def apply(self) -> str:
        self.check()
        if os.environ.get("COMMIT", "") not in ("", "0", "n"):
            self.check_git()
            self.make_wanted()
            self.assign_new()
            base = self.make_commits()
            return f"made {len(self.patches)} commits with {len(self.new)} new files in {self.tree}, on top of {base}"
        self.make_wanted()
        try:
            self.put_wanted()
        except BaseException:
            self.undo()
            raise
        return f"applied {len(self.patches)} patches and {len(self.new)} new files to {self.tree}"

    def unapply(self) -> str:
        if not self.state.exists():
            return f"{self.tree} is as it was, at {self.undo_commits()}"
        for line in [] if os.environ.get("FORCE", "") not in ("", "0", "n") else lines(self.state / "sums"):
            was, name = line.split(maxsplit=1)
            if digest(self.tree / name) != was:
                die(f"{self.tree / name} was changed after the patches: save your change, then "
                    "'make unapply FORCE=1' restores the original")
        self.undo()
        return f"{self.tree} is as it was"

    def sync(self) -> None:
        self.make_wanted()
        # What is ours no longer goes first.
        self.take_out(but=self.wanted)
        self.put_wanted()

    def rehearse(self) -> str:
        self.make_wanted("-F0")
        self.assign_new()
        said = f"{len(self.patches)} patches apply to {self.tree}"
        # And as commits, to a tree of no more files than they change.
        if shutil.which("git"):
            self.tree = self.work / "tree"
            shutil.copytree(self.work / "orig", self.tree)
            for who in ("AUTHOR", "COMMITTER"):
                os.environ |= {f"GIT_{who}_NAME": "try", f"GIT_{who}_EMAIL": "try@localhost"}
            self.git("init", "-q")
            self.git("add", "-f", "-A")
            self.git("commit", "-q", "-m", "try")
            self.make_commits()
        return said


COMMANDS = {"check": Overlay.check, "apply": Overlay.apply, "unapply": Overlay.unapply, "sync": Overlay.sync,
            "try": Overlay.rehearse}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--from", dest="checkout", type=Path, default=PROJECT)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("tree", nargs="?", default="")
    parser.add_argument("more", nargs="*", type=Path)
    args = parser.parse_args()
    for number in SIGNALS:
        signal.signal(number, lambda number, _: signalled.append(number))
    how = f"make {args.command} KSRC=/path/to/linux" if "apply" in args.command else "KSRC=/path/to/linux"
    if not args.tree:
        die(f"which kernel tree? {how}")
    tree = Path(args.tree).expanduser()
    if not tree.is_dir():
        die(f"{tree} is no directory: {how}")
    try:
        with tempfile.TemporaryDirectory() as work:
            folders = [folder.resolve() for folder in (args.checkout, *args.more)]
            overlay = Overlay(tree.resolve(), folders, Path(work))
            overlay.check_version()
            if done := COMMANDS[args.command](overlay):
                say(done)
    except OSError as error:
        die(str(error))


if __name__ == "__main__":
    main()
