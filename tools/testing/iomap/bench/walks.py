# SPDX-License-Identifier: GPL-2.0
"""Walks over memory whose cache misses are known, in a guest whose caches the plugin simulates.

A walk reads each line of a buffer in order, or executes an instruction of each, three times. Its machine code
makes the mark before each pass, so that the window of the second pass has nothing else in it.
"""

import ctypes
import mmap
from typing import Any

LINE = 64
# nopl 0x10c0d1(%rax,%rax), at which the plugin writes what it has counted.
MARK = bytes.fromhex("0f1f8400d1c01000")
# rdi: the buffer, rsi: its size, edx: how many passes
READ = MARK + bytes.fromhex(
    "4889f8"        # mov rax, rdi
    "4889f1"        # mov rcx, rsi
    "448a00"        # mov r8b, [rax]
    "4883c040"      # add rax, 64
    "4883e940"      # sub rcx, 64
    "75f3"          # jnz to the read
    "ffca"          # dec edx
    "75e1"          # jnz to the mark
    "c3")           # ret
PASSES = 3
# A timer interrupt may disturb one.
TRIES = 3
# In KiB: what fits in L1i, L1d or L2, and what does not.
WALKS = {"execute": (32, 36), "read": (48, 52, 64, 4096)}


def execute(size: int) -> bytes:
    """Code that jumps from each line of the buffer to the next, and as often as edx says back to the first."""
    first = MARK + b"\xe9" + (LINE - 13).to_bytes(4, "little")
    middle = b"\xe9" + (LINE - 5).to_bytes(4, "little")
    last = b"\xff\xca\x0f\x85" + (LINE - size - 8).to_bytes(4, "little", signed=True) + b"\xc3"
    return b"".join(line.ljust(LINE, b"\xcc") for line in (first, *[middle] * (size // LINE - 2), last))


def memory(code: bytes) -> tuple[mmap.mmap, int]:
    """Pages that hold it, and their address."""
    pages = mmap.mmap(-1, len(code), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    pages.write(code)
    return pages, ctypes.addressof(ctypes.c_char.from_buffer(pages))


def walk(marks: int) -> list[dict[str, Any]]:
    """Does them all, after that many marks. Says which marks end a second pass."""
    out: list[dict[str, Any]] = []
    for kind, sizes in WALKS.items():
        for size in (kib << 10 for kib in sizes):
            buffer, address = memory(execute(size) if kind == "execute" else bytes(size))
            code, entry = memory(READ) if kind == "read" else (buffer, address)
            function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(entry)
            ends = []
            for _ in range(TRIES):
                function(address, size, PASSES)
                marks += PASSES
                ends.append(marks - 1)
            out.append({"kind": kind, "bytes": size, "marks": ends})
            # Until here they must stay.
            del buffer, code
    return out
