#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs what README says of the packages in a guest with Debian on a disk, and lets the new kernel panic once.

Talks to the shell on the console of the guest, and prints a line for each test, "ok NAME" or "FAIL NAME: why".
What it is at goes to standard error, and all of the console to RUN/console.log.
"""

import argparse
import base64
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

SECTION = "## A package, with a way back"
NEW = "7.3.4-iomap-dio"
BOOT = 600          # seconds for a boot
COMMAND = 900       # for commands, of which installing makes an initramfs
FIRMWARE = "/usr/share/OVMF/OVMF_CODE_4M.fd"


class Failed(Exception):
    """What the guest did not do."""


def blocks(readme: str) -> list[str]:
    """The commands of the section for the guest, block by block."""
    text = readme.split(f"\n{SECTION}\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^```\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for block in found if not block.startswith("make ")]


class Guest:
    """A PC with a shell on its serial console."""

    def __init__(self, run: Path, accel: str) -> None:
        self.console = (run / "console.log").open("wb")
        self.seen = b""
        self.qemu = subprocess.Popen(
            ["qemu-system-x86_64", "-machine", "q35", "-accel", accel, "-cpu", "max", "-smp", "2", "-m", "2G",
             "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio",
             "-drive", f"if=pflash,format=raw,readonly=on,file={FIRMWARE}",
             "-drive", f"if=pflash,format=raw,file={run}/vars.fd",
             "-drive", f"if=virtio,format=raw,cache=unsafe,file={run}/disk",
             "-drive", f"if=virtio,format=raw,readonly=on,file={run}/files.disk"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.console)
        assert self.qemu.stdin and self.qemu.stdout
        self.to, self.of = self.qemu.stdin, self.qemu.stdout
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.of, selectors.EVENT_READ)

    def expect(self, pattern: bytes, seconds: int, what: str) -> re.Match[bytes]:
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            if not self.selector.select(max(end - time.monotonic(), 0)):
                raise Failed(f"{what}: nothing in {seconds} s")
            # read1() returns what is there.
            more = self.of.read1(65536)  # type: ignore[attr-defined]
            if not more:
                raise Failed(f"{what}: the guest is gone")
            self.console.write(more)
            self.console.flush()
            self.seen += more
            if text := more.decode(errors="replace").strip():
                print(text.splitlines()[-1][:80], file=sys.stderr, flush=True)
        self.seen = self.seen[found.end():]
        return found

    def send(self, line: str) -> None:
        self.to.write(f"{line}\n".encode())
        self.to.flush()

    def login(self, what: str) -> None:
        """Waits for the shell of a boot."""
        self.expect(rb"root@debian:\S*# ", BOOT, what)
        # Its own words are not to look like an answer.
        self.send("stty -echo; PS1=; mkdir -p /mnt/files; cd /root; echo rea''dy")
        self.expect(rb"ready\r?\n", 60, what)

    def run(self, script: str, seconds: int = COMMAND) -> str:
        """What it says; it must not fail."""
        text = base64.b64encode(script.encode()).decode()
        self.send("rm -f /run/script")
        for n in range(0, len(text), 512):
            self.send(f"printf %s {text[n:n + 512]} >>/run/script")
        self.send("base64 -d /run/script >/run/script.sh; echo beg''in; "
                  "bash -euo pipefail /run/script.sh 2>&1; echo en''d $?")
        self.expect(rb"begin\r?\n", 60, script)
        found = self.expect(rb"(?s)(.*?)end (\d+)\r?\n", seconds, script)
        said = found[1].decode(errors="replace").replace("\r", "")
        if int(found[2]):
            raise Failed(f"{script.strip().splitlines()[0]} ...: {(said.strip().splitlines() or ['no word'])[-1]}")
        return said

    def restart(self, script: str, what: str) -> None:
        """Runs what ends in a reboot."""
        self.run(f"{script}\nsync\n")
        self.send("reboot")
        self.login(what)

    def end(self) -> None:
        self.qemu.kill()
        self.qemu.wait()
        self.console.close()


def is_kernel(guest: Guest, want: str, impl: str = "") -> None:
    said = guest.run("uname -r; cat /sys/kernel/iomap/dio_impl 2>/dev/null || echo none").split()
    if said != [want, impl or "none"]:
        raise Failed(f"{' with '.join(said)} runs, not {want} with {impl or 'none'}")


class Test:
    """What has to come true, one after the other."""

    def __init__(self, guest: Guest, page: list[str]) -> None:
        self.guest, self.page, self.old = guest, page, ""

    def commands(self, begin: str) -> str:
        """The block of the page that has this."""
        found = [block for block in self.page if begin in block]
        if len(found) != 1:
            raise Failed(f"{len(found)} blocks of README have {begin!r}")
        self.page.remove(found[0])
        return found[0]

    def boot(self) -> None:
        """Debian, as its installer leaves it."""
        self.guest.login("Debian")
        self.guest.run("mount /boot/efi 2>/dev/null || mountpoint /boot/efi\n"
                       "grub-install --target=x86_64-efi --removable --no-nvram && update-grub")
        self.guest.restart("true", "Debian by its own GRUB")
        self.old = self.guest.run("uname -r").strip()
        self.guest.run("mount -o ro /dev/vdb /mnt/files; cp /mnt/files/*.deb /mnt/files/census /root/")

    def default(self) -> None:
        """The old kernel is the one that is booted."""
        self.guest.run(self.commands("grub-set-default"))

    def install(self) -> None:
        """The new kernel runs once, and begins with C."""
        script = self.commands("apt-get install")
        self.guest.restart(script.removesuffix("sudo reboot\n"), NEW)
        if self.guest.run(self.commands("uname -r")).split() != [NEW, "c"]:
            raise Failed("another kernel or implementation runs")

    def choose(self) -> None:
        """Rust executes direct I/O."""
        self.guest.run(self.commands("echo rust"))
        is_kernel(self.guest, NEW, "rust")

    def census(self) -> None:
        """Census sees what fio does."""
        said = self.guest.run(self.commands("census.json"))
        if "ext4 /" not in said:
            raise Failed(f"census says: {said[-200:]}")

    def panic(self) -> None:
        """A kernel that panics comes back to the old one."""
        self.guest.send("sync; echo c >/proc/sysrq-trigger")
        self.guest.expect(rb"Kernel panic", 60, "panic")
        self.guest.login("after a panic")
        is_kernel(self.guest, self.old)

    def parameter(self) -> None:
        """With iomap_dio=rust on the command line Rust begins, and C can be chosen."""
        self.guest.run("sed -i 's/panic=10/& iomap_dio=rust/' /etc/default/grub.d/iomap-dio.cfg; update-grub")
        self.guest.restart("fs=$(grub-probe --target=fs_uuid /)\n"
                           f'grub-reboot "gnulinux-advanced-$fs>gnulinux-{NEW}-advanced-$fs"', NEW)
        is_kernel(self.guest, NEW, "rust")
        script = self.commands("echo c")
        self.guest.run(script.removesuffix("sudo reboot\n"))
        is_kernel(self.guest, NEW, "c")
        self.guest.restart("true", "back")
        is_kernel(self.guest, self.old)

    def remove(self) -> None:
        """Nothing is left."""
        self.guest.run(self.commands("apt-get purge"))
        left = self.guest.run("find /boot /lib/modules /etc/default -name '*iomap*'; ! grep iomap /boot/grub/grub.cfg")
        if left.strip():
            raise Failed(f"left: {left.split()}")
        self.guest.restart("true", "without the package")
        is_kernel(self.guest, self.old)
        if self.page:
            raise Failed(f"no test runs {self.page[0]!r}")

    def all(self) -> list[Callable[[], None]]:
        return [self.boot, self.default, self.install, self.choose, self.census, self.panic, self.parameter,
                self.remove]


def main() -> int:
    ap = argparse.ArgumentParser()
    ap.add_argument("--run", type=Path, required=True)
    ap.add_argument("--accel", required=True)
    ap.add_argument("--readme", type=Path, required=True)
    args = ap.parse_args()
    (args.run / "vars.fd").write_bytes(Path(FIRMWARE.replace("CODE", "VARS")).read_bytes())
    guest = Guest(args.run, args.accel)
    test = Test(guest, blocks(args.readme.read_text()))
    why = ""
    try:
        for step in test.all():
            # Each begins where the one before has ended.
            if not why:
                try:
                    step()
                except Failed as failed:
                    why = str(failed).replace("\n", " ")
                    print(f"FAIL deb-{step.__name__}: {why}", flush=True)
                    continue
                print(f"ok deb-{step.__name__}", flush=True)
            else:
                print(f"FAIL deb-{step.__name__}: not run", flush=True)
    finally:
        guest.end()
    return int(bool(why))


if __name__ == "__main__":
    sys.exit(main())
