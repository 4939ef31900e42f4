#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Runs overlay.py, which says what its arguments are, on this machine.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_tool python3 python3
need_tool patch patch
exec python3 -B "$IOMAP_DIR/overlay.py" --from "$OVERLAY" "$@"
