#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Deletes what the other scripts made: the cache and the results.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# IOMAP_CACHE= may name a directory that has other things in it, unless it has the name that is ours.
[ "${CACHE##*/}" = iomap-dio-rust ] || [ -e "$CACHE/.iomap-dio-rust" ] || [ -z "$(ls -A "$CACHE" 2>/dev/null)" ] ||
	die "$CACHE is not known to hold the cache alone (it has no .iomap-dio-rust): delete by hand what is of the cache"
need_root "$@"

lock build
# Files in the toolchain root belong to several users; --one-file-system in case a mount is left.
"${NAMESPACE[@]}" rm -rf --one-file-system "$CACHE" "$PROJECT/results"
say "deleted $CACHE and $PROJECT/results"
