#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Tests on the host what needs no kernel. Prints "ok host-NAME (detail)" or "FAIL host-NAME: why" for
# each, on stdout, and fails if one failed. What cargo said is in $HOST_LOG.
#
#   run.sh [loom] [proptest] [shuttle]
#
#   SCHEDULES=n  how many schedules shuttle tries (100000), by seeds from $SEED on (1)
#   SEED=n       that schedule alone, and what happens in it if it fails; proptest draws its cases by it
#
# mutants.sh has it test another checkout, $HOST_PROJECT (a path in the root), with smaller models: they
# show all of its mistakes in a small part of the time.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
. "$IOMAP_DIR/watch.sh"
need_root "$@"
[ $# -gt 0 ] || set -- loom proptest shuttle

"$IOMAP_DIR/root.sh"
# To cargo all checkouts are the same, but for that of mutants.sh, which has a lock of its own.
[ -n "${HOST_PROJECT:-}" ] || lock host
mkdir -p "$CACHE/run" "$CACHE/host-target"
log=${HOST_LOG:-$CACHE/run/host.log}
[[ ${SEED:-0}${SCHEDULES:-0} =~ ^[0-9]+$ ]] || die "SEED=${SEED:-} and SCHEDULES=${SCHEDULES:-} are numbers"
failed=0 minutes=$((15 + ${SCHEDULES:-0} / 50000)) words=("SEED=${SEED:-}" "SCHEDULES=${SCHEDULES:-}") options=()
if [ -n "${HOST_PROJECT:-}" ]; then
	minutes=5 words=(IOMAP_HOST_FEW=1) options=(--config profile.release.package.iomap-host.opt-level=1)
fi
# Cargo only looks at the times of files: those of another checkout may be older than what it built last.
code=${HOST_PROJECT:-$PROJECT} built=$CACHE/host-target/built
code="$code $(cd "${code/#\/cache/$CACHE}" && find fs rust tools/testing/iomap/host -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)"
# What is compiled for each, and what its tests begin with.
declare -A targets=([loom]=--lib [proptest]=--lib [shuttle]=--test=world)
declare -A prefix=([loom]=models:: [proptest]=properties:: [shuttle]=scenario::)
for t; do
	[ -n "${targets[$t]:-}" ] || die "there are tests with ${!targets[*]}, but none with $t"
done

# Nothing is written to the checkout. Who ends this ends cargo as well.
trap stop INT TERM HUP
cargo()
{
	local command=$1

	shift
	in_root_words
	"${IN_ROOT[@]}" env CARGO_HOME=/cache/cargo CARGO_TARGET_DIR=/cache/host-target CARGO_TERM_COLOR=never "${words[@]}" \
		timeout ${minutes}m cargo "$command" --locked "${options[@]}" \
		--manifest-path "${HOST_PROJECT:-/project}/tools/testing/iomap/host/Cargo.toml" "$@" </dev/null &
	guest_pid=$!
	wait "$guest_pid"
}

# The first error in the log, in one line with what follows it.
error()
{
	grep -aA 2 -m 1 '^error' "$log" | sed 's/^ *//' | grep . | paste -sd ' ' || :
}

: >"$log"
trouble=
if ! cargo fetch >>"$log" 2>&1; then
	# The cause is at the end.
	trouble="the crates of Cargo.lock cannot be fetched: $(tail -n 1 "$log" | sed 's/^ *//'), $(error)"
elif [ "$(cat "$built" 2>/dev/null)" != "$code" ] && ! cargo clean --release -p iomap-host >>"$log" 2>&1; then
	trouble="it cannot be built anew: $(error)"
else
	echo "$code" >"$built"
fi

for t; do
	tests=${prefix[$t]}
	if [ -z "$trouble" ] && ! cargo test --release "${targets[$t]}" --no-run >>"$log" 2>&1; then
		trouble="it does not compile: $(error)"
	fi
	if [ -n "$trouble" ]; then
		echo "FAIL host-$t: $trouble"
		failed=1
		continue
	fi
	# One at a time, so that the last line tells which test took the rest with it.
	status=0
	cargo test --release "${targets[$t]}" -- --test-threads=1 --show-output "$tests" >"$log.$t" 2>&1 || status=$?
	cat "$log.$t" >>"$log"
	n=$(grep -ac "^test $tests.* ok$" "$log.$t" || :)
	if [ $status -eq 0 ] && [ "$n" -gt 0 ]; then
		executions=$(awk '/^executions: / { n += $2 } END { if (n) print ", " n " executions" }' "$log.$t")
		echo "ok host-$t ($n tests$executions)"
	else
		failed=1
		names=$(sed -n "s/^test $tests\(.*\) \.\.\. FAILED.*/\1/p" "$log.$t" | paste -sd ' ')
		[ -n "$names" ] || names=$(sed -n "s/^test $tests\([a-z_0-9]*\) .*/\1/p" "$log.$t" | tail -n 1)
		# Tests that are meant to panic are among the successes, which come first.
		said=$(sed -n '/^failures:$/,$p' "$log.$t" | grep -aA 1 -m 1 'panicked at' | tail -n 1 || :)
		[ -n "$said" ] || said=$(grep -aA 1 -m 1 'panicked at' "$log.$t" | tail -n 1 || :)
		[ $status -ne 124 ] || said="no end after $minutes minutes"
		[ -z "${SEED:-}" ] || cat "$log.$t" >&2
		echo "FAIL host-$t: ${names:-no test ran}: ${said:-cargo ended with status $status}"
	fi
	rm -f "$log.$t"
done
exit $failed
