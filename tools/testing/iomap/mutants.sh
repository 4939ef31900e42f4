#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Does the test suite bite? Makes the wrong edits of mutants/list.toml, one at a time, in a copy of
# the checkout, builds the um-kunit kernel with each, boots it, and says what caught it: a KUnit
# case, a complaint of the kernel's own checkers, or that the kernel hung or died.
#
#   ONLY=name         only the mutants whose names match (a glob, or a part of the name); several
#                     with spaces in between
#   QUICK=1           every third of them
#   FUZZ_SCRIPTS=n    how many random scripts each kernel plays
#   KSRC=             your own kernel tree
#
# Results go to results/<time>-mutants/, and results/latest-mutants points there. The last line is
# "N caught, N survived, N equivalent"; it fails if one survives or does not compile.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
# A tree and a build of their own, made from the copy: see common.sh.
export IOMAP_OVERLAY=mutants
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
[ -z "$KSRC" ] || check_version "$KSRC"
need_root "$@"

# Seconds that a guest may take, and a test case in it.
timeout=100 case_timeout=30
export GUEST_MEM=${GUEST_MEM:-1G}
GUEST_APPEND="kunit.filter_glob=*iomap* kunit.timeout=$case_timeout iomap_dio_fuzz.scripts=${FUZZ_SCRIPTS:-200} ${GUEST_APPEND:-}"

read_only
quick=()
case ${QUICK:-} in
'' | 0 | n) ;;
*) quick=(--quick) ;;
esac

"$IOMAP_DIR/root.sh"
lock mutants
start=$(date +%s)
work=$CACHE/$IOMAP_OVERLAY run=$CACHE/run/mutants
# The same, as seen from inside.
in_work=/cache/$IOMAP_OVERLAY in_run=/cache/run/mutants

child=
# shellcheck disable=SC2317,SC2329 # by the trap
stop()
{
	trap - EXIT INT TERM HUP
	progress_end
	# Each of the children cleans up after itself.
	[ -z "$child" ] || { kill -TERM "$child" && wait "$child"; } 2>/dev/null || :
	exit 130
}
trap stop INT TERM HUP

mutants()
{
	in_root python3 -B "$in_work/mutants/mutants.py" "$@" </dev/null
}

# The copy, which may be edited at will, and one that is not. The list and what reads it are copied
# as well: what happens to the checkout from here on does not matter.
rm -rf "$work" "$run"
mkdir -p "$work/pristine" "$work/overlay" "$run"
for d in fs rust samples include Documentation patches; do
	[ ! -d "$PROJECT/$d" ] || cp -a "$PROJECT/$d" "$work/pristine/"
done
cp -a "$work/pristine/." "$work/overlay/"
cp -a "$IOMAP_DIR/mutants" "$IOMAP_DIR/splat.sh" "$IOMAP_DIR/only.py" "$work/"
list=$in_work/mutants/list.toml

mutants check "$list" "$in_work/pristine" >"$work/check" 2>&1 ||
	die "tools/testing/iomap/mutants/list.toml: $(cat "$work/check")"
mapfile -t names < <(mutants names "$list" "${quick[@]}" -- "${only[@]}")
[ ${#names[@]} -gt 0 ] || die "ONLY=${ONLY:-} matches no mutant"

# Its output is for the first time only.
build()
{
	local status=0

	if [ "$1" = loud ]; then
		"$IOMAP_DIR/build.sh" um-kunit </dev/null &
	else
		"$IOMAP_DIR/build.sh" um-kunit >"$work/build" 2>&1 </dev/null &
	fi
	child=$!
	wait "$child" || status=$?
	child=
	return $status
}

# What there is to see on the console: "fail", "splat" or nothing.
noticed()
{
	if grep -aqE '^(\[[^]]*\])* +not ok ' "$run/console.log" 2>/dev/null; then
		echo fail
	elif ! "$IOMAP_DIR/splat.sh" "$run/console.log" >/dev/null 2>&1; then
		echo splat
	fi
}

# Boots the kernel, until it is done or until it is known to be wrong. Returns what run_guest did.
boot()
{
	local status=0 since=

	rm -rf "$run"
	mkdir -p "$run"
	: >"$run/console.log"
	(
		status=0
		GUEST_IDLE=60 GUEST_APPEND=$GUEST_APPEND \
			run_guest um-kunit "$run" "$timeout" /project/tools/testing/iomap/fstest/guest.sh || status=$?
		exit $status
	) >"$work/guest" 2>&1 </dev/null &
	child=$!
	while kill -0 "$child" 2>/dev/null; do
		sleep 0.3
		case $(noticed) in
		'') continue ;;
		fail) ;;
		splat)
			# The test case that it happened in says its name when it ends.
			since=${since:-$SECONDS}
			[ $((SECONDS - since)) -ge 3 ] || continue
			;;
		esac
		kill -TERM "$child" 2>/dev/null || :
		break
	done
	wait "$child" 2>/dev/null || status=$?
	child=
	return $status
}

record()
{
	mutants record "$in_work/results.jsonl" "$@"
}

say "${#names[@]} mutants; first the kernel without any"
build loud || die "the kernel does not build as it is"
began=$SECONDS status=0
boot || status=$?
cp "$run/console.log" "$work/baseline.log"
n=$(mutants baseline "$in_work/baseline.log" "$status" "$in_work/baseline.json" 2>"$work/baseline") ||
	die "$(cat "$work/baseline"); its console is $work/baseline.log"
say "it passes $n test cases, booted and shut down in $((SECONDS - began)) s"

name=$(date -u -d "@$start" +%Y%m%dT%H%M%SZ)-mutants
mkdir -p "$work/logs"
: >"$work/results.jsonl"
caught=0 survived=0 i=0
for m in "${names[@]}"; do
	i=$((i + 1)) began=$SECONDS status=0
	progress "$i/${#names[@]} $m: building"
	mutants apply "$list" "$in_work/pristine" "$in_work/overlay" "$m"
	if ! build quiet; then
		cp "$BUILD/um-kunit/build.log" "$work/logs/$m-build.log"
		by=$(grep -am 1 -E '(^| )error' "$work/build" | cut -c1-200 || tail -n 1 "$work/build")
		record "$m" error $((SECONDS - began)) "it does not compile: $by"
		progress_end
		say "$i/${#names[@]} ERROR $m: it does not compile: $by"
		continue
	fi
	built=$((SECONDS - began))
	progress "$i/${#names[@]} $m: booting"
	boot || status=$?
	verdict=$(mutants judge "$in_run/console.log" "$status" "$in_work/baseline.json")
	outcome=${verdict%% *} by=${verdict#"$outcome"}
	by=${by# }
	record "$m" "$outcome" $((SECONDS - began)) "$by"
	progress_end
	if [ "$outcome" = caught ]; then
		caught=$((caught + 1))
		say "$i/${#names[@]} caught $m: $by ($built + $((SECONDS - began - built)) s, $caught so far)"
	else
		survived=$((survived + 1))
		cp "$run/console.log" "$work/logs/$m-console.log"
		say "$i/${#names[@]} SURVIVED $m ($survived so far)"
	fi
done

about="Linux $KERNEL_VERSION, $(date -u -d "@$start" +%Y-%m-%d)"
git=(git -c "safe.directory=$PROJECT" -C "$PROJECT")
if commit=$("${git[@]}" rev-parse --short HEAD 2>/dev/null); then
	about+=", commit $commit$([ -z "$("${git[@]}" status --porcelain 2>/dev/null)" ] || echo ' with changes')"
fi
about+=", ${#names[@]} mutants in $((($(date +%s) - start) / 60)) minutes."
status=0
mutants report "$list" "$in_work/results.jsonl" "$in_work/baseline.json" "$in_work/report" \
	"--about=$about" >"$work/report.txt" || status=$?
[ -s "$work/report/report.md" ] || die "there is no report; the results are in $work/results.jsonl"
dir=$PROJECT/results/$name
mkdir -p "$dir"
cp "$work/report/report.md" "$work/report/mutants.json" "$dir/"
cp "$work/baseline.log" "$dir/console.log"
[ -z "$(ls "$work/logs")" ] || cp -r "$work/logs" "$dir/logs"
ln -sfn "$name" "$PROJECT/results/latest-mutants"
give_back "$PROJECT/results" 2>/dev/null || :

say "results: results/$name/, also as results/latest-mutants/"
cat "$work/report.txt"
exit $status
}
