#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# "make soak": looks for long at what "make test" looks at shortly, with one report: models, properties and
# schedules on the host (host/run.sh), random scripts and power cuts (fuzz.sh), and wrong edits (mutants.sh).
#
#   MINUTES=n   for how long (60), and the time to build the kernels
#   SEED=n      draws everything (another one each time)
#
# Results go to results/<time>-soak/, and results/latest-soak points there. What is wrong is listed with the
# command that plays it again. The last line is "N violations, N errors"; it fails if there are any.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
minutes=${MINUTES:-60}
[[ $minutes =~ ^[1-9][0-9]{0,4}$ ]] || die "MINUTES=$minutes is not a number of minutes"
[[ ${SEED:-0} =~ ^(0|[1-9][0-9]{0,14})$ ]] || die "SEED=$SEED is not a number of at most 15 digits"
need_root "$@"
export SEED=${SEED:-$(($(date +%s) % 1000000 * 1000000000))}

"$IOMAP_DIR/root.sh"
lock soak
run=$CACHE/run/soak
rm -rf "$run"
mkdir -p "$run"
trap stop INT TERM HUP

# Runs a command, and the others whatever becomes of it. What it says is in $run/$1 and $1.log.
engine()
{
	local status=0

	"${@:2}" >"$run/$1" 2>"$run/$1.log" </dev/null &
	watch_child "$1" "$run/$1.log" || status=$?
	echo $status >"$run/$1.status"
	say "$1, status $status: $(tail -qn 1 "$run/$1" "$run/$1.log" | head -n 1)"
}

say "$minutes minutes; make soak MINUTES=$minutes SEED=$SEED does the same again"
# One after the other, since each takes all processors. Scripts and mutants, which need a kernel, are the
# slowest to find something new: 40 % each. The rest is enough for 170000 schedules a minute, 10^7 an hour.
HOST_LOG=$run/cargo.log SCHEDULES=$((minutes * 170000)) engine host "$IOMAP_DIR/host/run.sh"
FOR_SECONDS=$((minutes * 24)) engine fuzz "$IOMAP_DIR/fuzz.sh"
FOR_SECONDS=$((minutes * 24)) engine mutants "$IOMAP_DIR/mutants.sh"

about_run
publish soak
dir=$PROJECT/$results status=0
cp -r "$run/." "$dir/"
for f in "$CACHE"/run/fuzz-*/console.log; do
	[ ! -e "$f" ] || cp "$f" "$dir/console-$(basename "${f%/*}").log"
done
# Published by mutants.sh under the time of this run.
[ ! -d "${dir%-soak}-mutants" ] || cp -r "${dir%-soak}-mutants" "$dir/mutation"
in_root python3 -B /project/tools/testing/iomap/soak.py "/project/$results" "$SEED" \
	"Linux $KERNEL_VERSION, $about_text, MINUTES=$minutes SEED=$SEED." </dev/null || status=$?
[ -s "$dir/report.md" ] || die "there is no report; the results are in $dir"
published
exit $status
}
