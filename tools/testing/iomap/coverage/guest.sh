#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What coverage.sh runs in a guest when the KUnit suites are over: saves what they reached.
dir=/sys/kernel/debug/iomap_dio_coverage
cat $dir/gcda >"$RUN/direct_io_compare.gcda" && cat $dir/edges >"$RUN/edges"
