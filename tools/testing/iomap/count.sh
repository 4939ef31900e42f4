#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Counts the instructions of direct I/O, in C and in Rust, on x86_64: QEMU runs the kernel and a plugin
# of ours counts, by function. Counts are exact, so that what else runs on this machine does not matter.
#
#   count.sh bench FILTER...   "make bench": every row, and what it adds to the raw device; FILTER are
#                              arguments that pick rows, from bench.sh
#   count.sh profile           "make profile": a few rows by function (ROW="ext4 overwrite 4k registered");
#                              with CACHE=1 the misses of caches that the plugin simulates
#   count.sh budget            "make count": is Rust as good as bench/budget says? (WRITE=1) A row fails if it
#                              does in three boots
#   count.sh seeds             "make bench SEEDS=1": the experiments of bench/seeds.py
#   count.sh ablate VARIANT SIDES WORDS
#                              the rows of these WORDS, for ablate.sh, which has made the VARIANT
#   count.sh scale             "make bench SCALE=1": the cache lines that move between processors, with another
#                              plugin; two guests do the same, which shows how well it repeats
#   count.sh hog               "make bench HOG=1": how long writes take while a busy poller owns the processor on
#                              which their bios end
#
# Results go to results/<time>-bench/ (-profile, -count, -scale, -hog), and results/latest (latest-profile,
# latest-count, latest-scale, latest-hog) points there.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
what=${1:-bench}
bench=/project/tools/testing/iomap/bench
# What picks rows, how they are counted, and what makes a report of it.
select=(--machine=qemu) options=() shard=() kind=$what smp=1 load=count.py disk=786432 tries=1
# The plugin, its sources, and what it is told.
plugin=count sources=("$bench"/{plugin,cache,map}.c) told=''
case $what in
bench) select+=("${@:2}") program=(count_report.py) ;;
profile)
	select+=("--find=${ROW:-ext4 xfs read overwrite 4k registered}") program=(by_function.py)
	if is_on "${PROFILE_CACHE:-}"; then
		options=(--walks --window=0.05) program=(cache_report.py) told=,cache=RUN/misses
	fi
	;;
budget)
	select+=("--bs=512,4k,8k,16k") options=(--sides=rust --repeats=3 --window=0.03) kind=count
	program=(budget.py "--budget=$bench/budget" --again=/cache/run/again) tries=3
	! is_on "${WRITE:-}" || program+=(--write)
	;;
ablate) select+=("--find=$4") options=("--sides=$3") kind=bench program=(ablate_report.py "--variant=$2") ;;
seeds) select=(--machine=seeds) kind=bench program=(seeds.py) ;;
scale)
	smp=8 load=scale.py disk=524288 program=(scale_report.py)
	plugin=lines sources=("$bench"/{lines,map}.c) told=,turn=100
	;;
hog)
	# They share a core, and with it a cache: else the scheduler would not look for one that is idle.
	smp=2,threads=2 load=hog.py disk=4096 program=(hog_report.py)
	plugin=lines sources=("$bench"/{lines,map}.c) told=,turn=1000,only=turns
	;;
*) die "usage: $0 bench|profile|budget|ablate|seeds|scale|hog" ;;
esac
need_root "$@"
run_python bench/rows.py "${select[@]}" >/dev/null || exit 1
flavour=x86-bench

"$IOMAP_DIR/root.sh"
lock bench

log=$CACHE/plugin.log
in_root "clang-$LLVM_MAJOR" -O2 -Wall -Wextra -Wno-unused-parameter -Werror -shared -fPIC \
	-o /cache/libiomap_$plugin.so "${sources[@]}" >"$log" 2>&1 </dev/null ||
	die "the plugin of QEMU could not be built: $(grep -m 1 'error:' "$log"); see $log"
"$IOMAP_DIR/build.sh" "$flavour"

out=/cache/${BUILD##*/}/$flavour
mapfile -t cpus < <(processors)
n=${#cpus[@]}
[ "$n" -le 2 ] || n=2
[ "$what" != scale ] || n=2
if [ "$what" = hog ]; then
	n=1
	in_root "clang-$LLVM_MAJOR" -O2 -Wall -Wextra -Werror -static -o /cache/hog "$bench/hog.c" -laio >"$log" 2>&1 \
		</dev/null || die "bench/hog.c could not be built; see $log"
fi

# Counts the rows that $select picks, in guests from number $1 on, and sets $runs to their folders and $status.
count_rows()
{
	local i run s

	runs=() status=0
	for ((i = 0; i < n; i++)); do
		run=$CACHE/run/count-$(($1 + i))
		mkdir -p "$run"
		rm -f "$run/run.json" "$run/counts" "$run/misses"
		[ "$load" != count.py ] || shard=(--shard "$i/$n" "${select[@]}" "${options[@]}")
		GUEST_CPUS=$smp GUEST_MEM=${GUEST_MEM:-3G} \
			GUEST_ACCEL=tcg,thread=single \
			GUEST_APPEND="brd.rd_nr=1 brd.rd_size=$disk ${GUEST_APPEND:-}" \
			GUEST_QEMU="-icount shift=0,sleep=off -plugin /cache/libiomap_$plugin.so,map=$out/System.map,out=/cache/run/${run##*/}/counts${told//RUN//cache/run/${run##*/}}" \
			start_guest "$flavour" "$run" 3600 python3 -B "$bench/$load" --out "/cache/run/${run##*/}/run.json" \
			"${shard[@]}"
	done
	wait_guests
	for ((i = 0; i < n; i++)); do
		run=$CACHE/run/count-$(($1 + i))
		s=$(cat "$run/guest-status")
		[ "$s" -le "$status" ] || status=$s
		if [ ! -s "$run/run.json" ]; then
			# 124 and 125 have already said why
			[ "$s" -ge 124 ] || guest_failed "$run/console.log" "the counting ended without a result"
			exit 1
		fi
		if grep -q 'the kernel complains:$' "$run/splat"; then
			cat "$run/splat" >&2
			die "the kernel of guest $(($1 + i)) complains: its console is in $run/console.log"
		fi
		runs+=("/cache/run/${run##*/}")
	done
}

rm -f "$CACHE/run/again"
about_run
about+=("--build=$out" "--llvm=$LLVM_MAJOR"
	"--qemu=$(in_root qemu-system-x86_64 --version </dev/null | sed -n 's/.* version \([^ (]*\).*/\1/p')")
for ((try = 0; try < tries; try++)); do
	if [ "$try" -gt 0 ]; then
		[ -s "$CACHE/run/again" ] || break
		say "counting the rows that failed again, in a fresh boot ($((try + 1)) of $tries)"
		select=(--machine=qemu "--ids=$(cat "$CACHE/run/again")")
	fi
	count_rows $((try * n))
	# A row without a budget may fail.
	[ "$what" != budget ] || status=0
	[ "$try" -gt 0 ] || publish "$kind"
	echo
	in_root python3 -B "$bench/${program[0]}" "${runs[@]}" "--out=/project/$results" "${about[@]}" "${program[@]:1}" \
		</dev/null || status=$?
	compgen -G "$PROJECT/$results/*.json" >/dev/null ||
		die "the report could not be made; what was counted is in $CACHE/run/count-*"
	for run in "${runs[@]}"; do
		cp "$CACHE/run/${run##*/}/console.log" "$PROJECT/$results/console-${run##*-}.log"
	done
done
echo
# Of the variants of an ablation the last one makes the report.
[ "$what" = ablate ] && [ ! -e "$PROJECT/$results/report.md" ] || published
[ "$status" -eq 0 ] || [ "$what" = budget ] || die "some rows failed; they are named above and in $results/report.md"
exit "$status"
}
