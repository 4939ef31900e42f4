#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Plays scripts of direct I/O that are drawn at random on C and on Rust, in the um-kunit kernel, for
# SECONDS on each processor, compares what they leave, and cuts the power at each event. One that
# differs, or that breaks a rule then, is made smaller and printed as it would be written in
# fs/iomap/tests/scripts/.
#
# The last line is "N scripts, N failed, N states after power cuts"; the consoles are in
# $CACHE/run/fuzz-N.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
# In bash SECONDS is the time since the start.
seconds=${FUZZ_SECONDS:-60} seed=${SEED:-}
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "SECONDS=$seconds is not a number of seconds"
[ -z "$seed" ] || [[ $seed =~ ^[0-9]+$ ]] || die "SEED=$seed is not a number"
need_root "$@"
seed=${seed:-$(($(date +%s) % 1000000 * 1000000000))}

lock fuzz
"$IOMAP_DIR/build.sh" um-kunit
mapfile -t cpus < <(processors)
for i in "${!cpus[@]}"; do
	# A chunk of 20 s has a million seeds (fs/iomap/tests/suite.c), and no two guests have the same.
	first=$((seed + i * (seconds / 20 + 1) * 1000000))
	say "processor ${cpus[$i]}: scripts from seed $first on, for $seconds s"
	rm -rf "$CACHE/run/fuzz-$i"
	# The world of the scripts has one processor.
	GUEST_PREFIX="taskset -c ${cpus[$i]}" GUEST_MEM=${GUEST_MEM:-1G} GUEST_CPUS=${GUEST_CPUS:-1} \
		GUEST_APPEND="kunit.filter_glob=iomap_dio_fuzz kunit.timeout=600 iomap_dio_fuzz.seconds=$seconds iomap_dio_fuzz.seed=$first ${GUEST_APPEND:-}" \
		start_guest um-kunit "$CACHE/run/fuzz-$i" $((seconds + 300)) true
done

# The sum of the numbers before $1.
played()
{
	cat "$CACHE"/run/fuzz-*/console.log 2>/dev/null | grep -a '# fuzz: ' |
		grep -oE "[0-9]+ $1" | awk '{ n += $1 } END { printf "%.0f\n", n }'
}

while sleep 20 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
	say "$(played scripts,) scripts"
done &
progress=$!
wait_guests
kill "$progress" 2>/dev/null || :

failed=0
for i in "${!cpus[@]}"; do
	console=$CACHE/run/fuzz-$i/console.log
	tr -d '\r' <"$console" |
		sed -nE '/it is made smaller/,/ (differs|breaks a rule)$/p; /EXPECTATION FAILED/,/got stuck/p' |
		sed 's/^\[ *[0-9.]*\] //'
	n=$(ktap "fuzz-$i" | grep -c '^fail iomap_dio_fuzz/.*/from seed' || :)
	failed=$((failed + n))
	if [ "$(cat "$CACHE/run/fuzz-$i/guest-status")" != 0 ]; then
		failed=$((failed + 1))
	fi
	cat "$CACHE/run/fuzz-$i/splat"
	! grep -q 'the kernel complains:$' "$CACHE/run/fuzz-$i/splat" || failed=$((failed + 1))
done
n=$(played scripts,)
# Nothing that was played is no success.
[ "$n" -gt 0 ] || failed=$((failed + 1))
echo "$n scripts, $failed failed, $(played 'states looked at') states after power cuts"
[ $failed -eq 0 ]
exit
}
