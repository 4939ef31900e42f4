#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Does the test suite bite? Makes the wrong edits of mutants/*.toml, one at a time, in a copy of
# the checkout, and says what caught each. For most of them it builds and boots the um-kunit kernel,
# and what catches them is a KUnit case, a complaint of the kernel's own checkers, or that the kernel
# hung or died; for some it is a test in host/, which needs no kernel.
#
#   ONLY=name         only the mutants whose names match (a glob, or a part of the name); several
#                     with spaces in between; "history": those of Documentation/rust/iomap-history.rst
#   QUICK=1           every third of them
#   SECONDS=n         begins none after so long; those of the history come first, all in an order drawn by
#                     SEED= (another one each time)
#   GO_ON=1           goes on with the last run of the same sources, which was stopped: all of them take hours
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
# In bash SECONDS is the time since the start.
seconds=${FOR_SECONDS:-} seed=${SEED:-$(date +%s)} start=$SECONDS
[[ ${seconds:-1} =~ ^[1-9][0-9]*$ ]] || die "SECONDS=$seconds is not a number of seconds"
[[ $seed =~ ^[0-9]+$ ]] || die "SEED=$seed is not a number"
need_root "$@"
# To host/run.sh it is something else.
unset SEED

export GUEST_MEM=${GUEST_MEM:-1G} GUEST_IDLE=${GUEST_IDLE:-60}
GUEST_APPEND="kunit.timeout=30 iomap_dio_fuzz.scripts=${FUZZ_SCRIPTS:-200} ${GUEST_APPEND:-}"

read_only
options=()
! is_on "${QUICK:-}" || options=(--quick)
[ -z "$seconds" ] || options+=("--seed=$seed")
! is_on "${GO_ON:-}" || options+=(--left)

"$IOMAP_DIR/root.sh"
lock mutants
work=$CACHE/$IOMAP_OVERLAY run=$CACHE/run/mutants
trap stop INT TERM HUP

# An edit is of one function: rustc need not look at the rest of the kernel crate again.
incremental=RUSTFLAGS_kernel.o=-Cincremental=/cache/build/um-kunit/incremental

# Whether $work is a run of the sources, the tests and the edits that are here.
same_sources()
{
	local d

	for d in fs rust Documentation patches; do
		diff -rq "$PROJECT/$d" "$work/pristine/$d" || return
	done >/dev/null 2>&1
	diff -rq "$IOMAP_DIR/mutants" "$work/mutants" >/dev/null 2>&1 &&
		diff -rqx target "$IOMAP_DIR/host" "$work/overlay/tools/testing/iomap/host" >/dev/null 2>&1
}

mutants()
{
	in_root env -C "/cache/$IOMAP_OVERLAY" python3 -B mutants/mutants.py "$@" </dev/null
}

# The copy, which may be edited at will, and one that is not. The list and what reads it are copied
# as well: what happens to the checkout from here on does not matter.
if is_on "${GO_ON:-}"; then
	if [ ! -s "$work/results.jsonl" ] || ! same_sources; then
		die "GO_ON=1: there is no run of these sources to go on with"
	fi
	mv "$work/results.jsonl" "$CACHE/mutants.jsonl"
fi
rm -rf "$work" "$run"
mkdir -p "$work"/{pristine,overlay/tools/testing/iomap,logs} "$run"
cp -a "$PROJECT"/{fs,rust,Documentation,patches} "$work/pristine/"
cp -a "$work/pristine/." "$work/overlay/"
# With the times of now: cargo takes what is older than its last build for compiled.
cp -r "$IOMAP_DIR/host" "$work/overlay/tools/testing/iomap/"
cp -a "$IOMAP_DIR"/{catalogue,mutants,splat.sh,ktap.py,only.py} "$work/"
! is_on "${GO_ON:-}" || mv "$CACHE/mutants.jsonl" "$work/results.jsonl"

mutants check >"$work/check" 2>&1 || die "tools/testing/iomap/mutants/: $(cat "$work/check")"
mapfile -t names < <(mutants names "${options[@]}" -- "${only[@]}")
[ ${#names[@]} -gt 0 ] || die "ONLY=${ONLY:-} matches no mutant${GO_ON:+ that is left}"

# Boots the kernel, until it is done or until it is known to be wrong, and has mutants.py say what is
# to be said of it. $1: "baseline", "judge" or "cuts".
boot()
{
	local since='' suites='*iomap*'

	[ "$1" != cuts ] || suites=iomap_dio_cuts

	rm -rf "$run"
	mkdir -p "$run"
	: >"$run/console.log"
	GUEST_APPEND="kunit.filter_glob=$suites $GUEST_APPEND" \
		start_guest um-kunit "$run" 100 true >"$work/guest" 2>&1 </dev/null
	while kill -0 "${children[0]}" 2>/dev/null; do
		sleep 0.3
		if grep -aqE '^(\[[^]]*\])* +not ok ' "$run/console.log"; then
			kill -TERM "${children[0]}" 2>/dev/null || :
		elif ! "$IOMAP_DIR/splat.sh" "$run/console.log" >/dev/null 2>&1; then
			# The test case that it happened in says its name when it ends.
			since=${since:-$SECONDS}
			[ $((SECONDS - since)) -lt 3 ] || kill -TERM "${children[0]}" 2>/dev/null || :
		fi
	done
	wait_guests
	mutants "$1" /cache/run/mutants/console.log "$(cat "$run/guest-status")" "/cache/${TREE##*/}/tools/testing/kunit"
}

# Builds the kernel of the copy as it is. Says in $verdict if it does not build, and what there is to read
# about that in $log.
build_kernel()
{
	verdict='' log=$BUILD/um-kunit/build.log
	progress "$1: building"
	"$IOMAP_DIR/build.sh" um-kunit "$incremental" >"$work/build" 2>&1 </dev/null &
	# As wait_child, beside the kernel that runs.
	children=("$!" ${booting:+"$booting"})
	wait "$!" ||
		verdict="error it does not compile: $(grep -am 1 -E '(^| )error' "$work/build" | cut -c1-200 || tail -n 1 "$work/build")"
	children=(${booting:+"$booting"})
}

# Boots it in the background. $1: "judge" or "cuts".
start_kernel()
{
	rm -f "$run/console.log"
	boot "$1" >"$work/verdict" &
	booting=$! children=("$!")
	# From then on the next kernel may take the place of this one.
	until [ -s "$run/console.log" ] || ! kill -0 "$booting" 2>/dev/null; do sleep 0.1; done
}

# Says what the copy is like as it is, likewise.
try_host()
{
	log=$work/host.log
	progress "$1: testing on the host"
	HOST_PROJECT=/cache/$IOMAP_OVERLAY/overlay HOST_LOG=$log "$IOMAP_DIR/host/run.sh" "$2" >"$work/said" 2>&1 </dev/null & wait_child || :
	verdict=$(sed 's/^FAIL //' "$work/said")
	case $(cat "$work/said") in
	"ok "*) verdict=survived ;;
	"FAIL "*": it does not compile"* | "FAIL "*"cannot be fetched"*) verdict="error $verdict" ;;
	"FAIL "*) verdict="caught $verdict" ;;
	*) die "host/run.sh $2: $(tail -n 1 "$work/said")" ;;
	esac
}

say "${#names[@]} mutants${seconds:+, drawn by SEED=$seed}; first the code without any"
if [[ " ${names[*]}" == *" kernel "* || " ${names[*]}" == *" cuts "* ]]; then
	"$IOMAP_DIR/build.sh" um-kunit "$incremental" </dev/null & wait_child || die "the kernel does not build as it is"
	began=$SECONDS
	boot baseline >"$work/cases" 2>"$work/baseline" || die "$(cat "$work/baseline"); its console is $run/console.log"
	cp "$run/console.log" "$work/baseline.log"
	say "it passes $(cat "$work/cases") test cases, booted and shut down in $((SECONDS - began)) s"
fi
for t in loom proptest shuttle; do
	[[ " ${names[*]}" == *" $t "* ]] || continue
	try_host "as it is" $t
	progress_end
	[ "$verdict" = survived ] || die "the $t tests fail as they are: ${verdict#* }"
done

# Ends the turn of a mutant. $1: its number and name, $2: when it began.
finish()
{
	mutants record "${1#* }" $((SECONDS - $2)) "$verdict"
	progress_end
	say "$1: $verdict ($((SECONDS - $2)) s)"
	[[ $verdict == caught* ]] || cp "$log" "$work/logs/${1#* }-${log##*/}"
}

# As finish, of the mutant whose kernel runs, if there is one.
finish_kernel()
{
	[ -n "$booting" ] || return 0
	wait "$booting" || die "mutants.py cannot judge what is in $run"
	booting='' children=() log=$run/console.log
	verdict=$(cat "$work/verdict")
	finish "${running[@]}"
}

# While the kernel of a mutant runs the next one is built.
i=0 first=$SECONDS booting='' running=()
for m in "${names[@]}"; do
	[ $i -eq 0 ] || [ -z "$seconds" ] || [ $((SECONDS - first)) -lt "$seconds" ] || break
	i=$((i + 1)) tests=${m% *} this=("$i/${#names[@]} ${m#* }" "$SECONDS")
	mutants apply "${m#* }"
	case $tests in
	kernel | cuts) build_kernel "${this[0]}" ;;
	*)
		finish_kernel
		try_host "${this[0]}" "$tests"
		;;
	esac
	built=$verdict built_log=$log
	finish_kernel
	verdict=$built log=$built_log
	if [ -n "$verdict" ]; then
		finish "${this[@]}"
	else
		running=("${this[@]}")
		start_kernel "${tests/kernel/judge}"
	fi
done
finish_kernel

about_run
publish mutants
status=0
mutants report "/project/$results" \
	"Linux $KERNEL_VERSION, $about_text, $i of ${#names[@]} mutants in $(((SECONDS - start) / 60)) minutes." \
	>"$work/report.txt" || status=$?
[ -s "$PROJECT/$results/report.md" ] || die "there is no report; the results are in $work/results.jsonl"
[ ! -e "$work/baseline.log" ] || cp "$work/baseline.log" "$PROJECT/$results/console.log"
[ -z "$(ls "$work/logs")" ] || cp -r "$work/logs" "$PROJECT/$results/logs"
published
cat "$work/report.txt"
exit $status
}
