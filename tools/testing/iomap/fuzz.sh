#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Plays scripts of direct I/O that are drawn at random on C and on Rust, in the um-kunit kernel, for
# SECONDS on each processor, compares what they leave, and cuts the power at each event. One that
# differs, or that breaks a rule then, is made smaller and printed as it would be written in
# fs/iomap/tests/scripts/.
#
# What failed is followed by the command that plays it again. The last line is "N scripts, N failed,
# N states of C and N of Rust after power cuts"; the consoles are in $CACHE/run/fuzz-N.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
# In bash SECONDS is the time since the start.
seconds=${FOR_SECONDS:-60} seed=${SEED:-}
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "SECONDS=$seconds is not a number of seconds"
[ -z "$seed" ] || [[ $seed =~ ^[0-9]+$ ]] || die "SEED=$seed is not a number"
need_root "$@"
seed=${seed:-$(($(date +%s) % 1000000 * 1000000000))}

lock fuzz
trap stop INT TERM HUP
rm -rf "$CACHE"/run/fuzz-*
"$IOMAP_DIR/build.sh" um-kunit </dev/null & wait_child
mapfile -t cpus < <(processors)
# A chunk of 20 s has a million seeds (fs/iomap/tests/suite.c), and no two guests have the same.
guest_seeds=$(((seconds / 20 + 1) * 1000000))
for i in "${!cpus[@]}"; do
	first=$((seed + i * guest_seeds))
	say "processor ${cpus[$i]}: scripts from seed $first on, for $seconds s"
	# The world of the scripts has one processor.
	GUEST_PREFIX="taskset -c ${cpus[$i]}" GUEST_MEM=${GUEST_MEM:-1G} GUEST_CPUS=${GUEST_CPUS:-1} \
		GUEST_APPEND="kunit.filter_glob=iomap_dio_fuzz kunit.timeout=600 iomap_dio_fuzz.seconds=$seconds iomap_dio_fuzz.seed=$first ${GUEST_APPEND:-}" \
		start_guest um-kunit "$CACHE/run/fuzz-$i" $((seconds + 300)) true
done

# The sum of the numbers before $1.
played()
{
	{ cat "$CACHE"/run/fuzz-*/console.log 2>/dev/null | grep -a '# fuzz: ' | grep -oE "[0-9]+ $1" || :; } |
		awk '{ n += $1 } END { printf "%.0f\n", n }'
}

while kill -0 "${children[@]}" 2>/dev/null; do
	progress "$(played scripts,) scripts"
	sleep 1
done
progress_end
wait_guests

failed=0
for i in "${!cpus[@]}"; do
	console=$CACHE/run/fuzz-$i/console.log
	# From what is said of a script to the result of its chunk.
	tr -d '\r' <"$console" | sed -nE '/it is made smaller|EXPECTATION FAILED/,/ not ok /p' |
		sed -E 's/^\[ *[0-9.]*\] //; s/.*the script of seed ([0-9]+) .*/&\nagain: make fuzz SEED=\1 SECONDS=20/'
	ktap "fuzz-$i" >"$CACHE/run/fuzz-$i/tests"
	n=$(grep -c '^fail iomap_dio_fuzz/.*/from seed' "$CACHE/run/fuzz-$i/tests" || :)
	failed=$((failed + n))
	line=$(sed -n 's/.*:\([0-9]*\): the kernel complains:$/\1/p' "$CACHE/run/fuzz-$i/splat")
	cat "$CACHE/run/fuzz-$i/splat"
	if [ -n "$line" ] || [ "$(cat "$CACHE/run/fuzz-$i/guest-status")" != 0 ]; then
		failed=$((failed + 1))
		# It happened in the chunk after those with a result.
		n=$(head -n "${line:--0}" "$console" | grep -acE ' ok [0-9]+ from seed ' || :)
		echo "again: make fuzz SEED=$((seed + i * guest_seeds + n * 1000000)) SECONDS=20"
	elif [ "$n" -eq 0 ] && ! grep -qx 'pass iomap_dio_fuzz' "$CACHE/run/fuzz-$i/tests"; then
		failed=$((failed + 1))
		echo "the scripts were not played: see $console"
	fi
done
n=$(played scripts,)
# Nothing that was played is no success.
[ "$n" -gt 0 ] || failed=$((failed + 1))
echo "$n scripts, $failed failed, $(played 'states of C') states of C and $(played 'of Rust looked at') of Rust after power cuts"
[ $failed -eq 0 ]
exit
}
