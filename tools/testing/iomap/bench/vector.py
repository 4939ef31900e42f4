#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes the loads that fio cannot, until it is interrupted; then says how many bytes, as fio does.

preadv() and pwritev() with several buffers at random places; and appends with
RWF_NOWAIT, which are repeated without the flag when they would wait.
"""

import argparse
import json
import mmap
import os
import random
from collections.abc import Iterator

BLOCK = 4096


def transfers(args: argparse.Namespace, fd: int) -> Iterator[int]:
    """Bytes of one system call after the other."""
    memory = mmap.mmap(-1, args.bs)
    memory.write(os.urandom(args.bs))
    view = memoryview(memory)
    buffers = [view[at:at + args.buffer] for at in range(0, args.bs, args.buffer)]
    if args.kind == "nowait-append":
        while True:
            # The last block of what was written comes again, in front of what is appended.
            for pos in range(0, args.size - args.bs + 1, args.bs - BLOCK):
                try:
                    yield os.pwritev(fd, buffers, pos, os.RWF_NOWAIT)
                except BlockingIOError:
                    yield os.pwrite(fd, view, pos)
    transfer = os.preadv if args.kind.endswith("read") else os.pwritev
    places = [args.bs * block for block in range(args.size // args.bs)]
    random.Random(1).shuffle(places)
    while True:
        for pos in places:
            yield transfer(fd, buffers, pos)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--filename", required=True)
    parser.add_argument("--kind", required=True)
    for name in ("size", "bs", "buffer"):
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()
    fd, done = os.open(args.filename, os.O_RDWR | os.O_DIRECT), 0
    try:
        for count in transfers(args, fd):
            done += count
    except KeyboardInterrupt:
        direction = "read" if args.kind.endswith("read") else "write"
        print(json.dumps({"jobs": [{"error": 0, direction: {"io_bytes": done}}]}))


if __name__ == "__main__":
    main()
