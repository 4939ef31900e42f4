#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What test.sh runs in a guest: the file system suite with the arguments given, and then whether
# lockdep is still awake. Without arguments, only the latter (KUnit runs by itself at boot).
status=0
if [ $# -gt 0 ]; then
	python3 -B /project/tools/testing/iomap/fstest/run.py --out "$RUN/fstest" "$@" || status=$?
fi
cat /proc/lockdep_stats >"$RUN/lockdep_stats"
exit $status
