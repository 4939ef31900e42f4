#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Deletes what the other scripts made: the cache and the results.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_root "$@"

lock build
# Files in the toolchain root belong to several users; --one-file-system in case a mount is left.
"${NAMESPACE[@]}" rm -rf --one-file-system "$CACHE" "$PROJECT/results"
say "deleted $CACHE and $PROJECT/results"
