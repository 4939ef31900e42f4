#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Every test, from nothing: static checks, unit tests of the tools, tests on the host of what needs
# no kernel, the test kernel, its KUnit suites, and the file system suite with both implementations
# in User Mode Linux guests.
#
#   ONLY=name     only the tests whose names match (a glob, or a part of the name), such as
#                 check, kunit, 'ext4-4k/rust/mix*', diff/xfs; several with spaces in between
#   MACHINE=qemu  the KUnit suites alone, on x86_64: see qemu.sh
#   KSRC=         your own kernel tree
#   FSTEST_SCALE= percent of the usual work in the random mixes; FSTEST_SEED= another sequence
#
# Results go to results/<time>-test/, and results/latest-test points there. What failed is listed
# by name; the last line is "N passed, N failed".
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
case ${MACHINE:-uml} in
uml) ;;
qemu) exec "$IOMAP_DIR/qemu.sh" ;;
*) die "MACHINE=$MACHINE: there is uml, which is the default, and qemu" ;;
esac
need_root "$@"
start=$(date +%s)
fstest=/project/tools/testing/iomap/fstest
kunit=/cache/${TREE##*/}/tools/testing/kunit

read_only
# The checks and unit tests that ONLY= selects. KUnit cases have no names before they have run.
mapfile -t wanted < <({
	"$IOMAP_DIR/check.sh" list | sed 's,^,check/,'
	find "$IOMAP_DIR" -name 'test_*.py' -printf 'unit/%P\n' | sed 's,/[^/]*$,,; s,^unit$,unit/tools,' | sort -u
	printf 'unit/%s\n' host-loom host-proptest
} | run_python only.py "${only[@]}")

# The names in $wanted that begin with $1, without it.
wanted()
{
	printf '%s\n' "${wanted[@]}" | sed -n "s,^$1,,p"
}
mapfile -t want_checks < <(wanted check/)
mapfile -t want_host < <(wanted unit/host-)
mapfile -t want_unit < <(wanted unit/ | grep -v '^host-')

"$IOMAP_DIR/root.sh"
lock test
out=$CACHE/run/test
rm -rf "$out" "$out"-[0-9]
mkdir -p "$out" "$CACHE/fstest"

# The cases are needed to know the names, so they are compiled first, with the harness of the kernel.
"$IOMAP_DIR/source.sh"
in_root sh -c "clang-$LLVM_MAJOR -std=gnu2x -O1 -g -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare \
	-Wno-gnu -Werror -isystem ${kunit%/*}/selftests -o /cache/fstest/dio_test $fstest/*.c -luring -laio -lpthread" </dev/null ||
	die "tools/testing/iomap/fstest does not compile"

in_root python3 -B $fstest/run.py --bin /cache/fstest/dio_test --list "${only_args[@]}" >"$out/planned" </dev/null
want_kunit='' want_fs=''
[ ! -s "$out/planned" ] || want_fs=1
if [ ${#only[@]} -eq 0 ] || [[ " ${only[*]}" =~ \ (kunit|rust_iomap|iomap_dio) ]]; then
	want_kunit=1
fi
[ -n "${wanted[*]}$want_kunit$want_fs" ] || die "ONLY=$ONLY matches no test"

report=("--out=/cache/run/test" "${only_args[@]}")

if [ ${#want_unit[@]} -gt 0 ]; then
	for t in "${want_unit[@]}"; do
		if in_root env "KUNIT=$kunit" python3 -B -m unittest discover -s "/project/tools/testing/iomap/${t#tools}" >"$out/unit.log" 2>&1 </dev/null; then
			echo "ok $t"
		else
			echo "FAIL $t: $(grep -aE '^(FAIL|ERROR|[A-Za-z]*Error)' "$out/unit.log" | head -n 3 | tr '\n' ' ')"
		fi
	done >"$out/unit"
fi
if [ ${#want_host[@]} -gt 0 ]; then
	say "host tests: ${want_host[*]}"
	status=0
	HOST_LOG=$out/host.log "$IOMAP_DIR/host/run.sh" "${want_host[@]}" >>"$out/unit" || status=$?
	# It failed without saying what.
	if [ $status -ne 0 ] && ! grep -q '^FAIL host-' "$out/unit"; then
		report+=("--verdict=unit/host=fail:host/run.sh ended with status $status")
	fi
fi
[ ! -e "$out/unit" ] || report+=("--unit=/cache/run/test/unit")

if [ ${#want_checks[@]} -gt 0 ]; then
	say "static checks"
	status=0
	"$IOMAP_DIR/check.sh" "${want_checks[@]}" >"$out/check" || status=$?
	sed -n 's/^FAIL /failed: check\//p' "$out/check" | while read -r line; do say "$line"; done
	report+=("--check=/cache/run/test/check")
	# It failed without saying what.
	if [ $status -ne 0 ] && ! grep -q '^FAIL ' "$out/check"; then
		report+=("--verdict=check/ran=fail:check.sh ended with status $status")
	fi
fi

if [ -n "$want_kunit$want_fs" ]; then
	"$IOMAP_DIR/build.sh" um-test

	# A guest to a processor: User Mode Linux changes between its kernel and its processes all
	# the time, which is several times slower across two.
	mapfile -t cpus < <(processors)
	n=1
	[ -z "$want_fs" ] || [ ${#cpus[@]} -lt 2 ] || n=2
	for ((i = 0; i < n; i++)); do
		args=()
		[ -z "$want_fs" ] || args=(--bin /cache/fstest/dio_test "--kunit=$kunit" --require-switch "--shard=$i/$n" \
			"--scale=${FSTEST_SCALE:-100}" "--seed=${FSTEST_SEED:-1}" "${only_args[@]}")
		say "booting the um-test kernel on processor ${cpus[$i]}; its console is in $out-$i/console.log"
		# KUnit once is enough.
		GUEST_PREFIX="taskset -c ${cpus[$i]}" GUEST_MEM=${GUEST_MEM:-4G} \
			GUEST_APPEND="$([ $i -eq 0 ] || echo kunit.enable=0) ${GUEST_APPEND:-}" \
			start_guest um-test "$out-$i" 1500 $fstest/guest.sh "${args[@]}"
	done
	wait_guests

	for ((i = 0; i < n; i++)); do
		status=$(cat "$out-$i/guest-status")
		# 1 is a failed test, which is reported by its name
		if [ "$status" -gt 1 ]; then
			report+=("--verdict=guest-$i/finished=fail:status $status, see console-$i.log")
		else
			report+=("--verdict=guest-$i/finished=pass")
		fi
		"$IOMAP_DIR/splat.sh" "$out-$i/console.log" >"$out-$i/splat" 2>&1 || :
		report+=("--splat=/cache/run/test-$i/splat" "--lockdep=/cache/run/test-$i/lockdep_stats")
		if grep -aq 'KernelAddressSanitizer initialized' "$out-$i/console.log"; then
			report+=("--verdict=checker-$i/kasan=pass")
		elif grep -q '^CONFIG_KASAN=y' "$BUILD/um-test/.config"; then
			report+=("--verdict=checker-$i/kasan=fail:KASAN did not start")
		else
			report+=("--verdict=checker-$i/kasan=skip:this kernel is built without")
		fi
		[ -z "$want_fs" ] || report+=("--fstest=/cache/run/test-$i/fstest/results.jsonl")
	done
	[ -z "$want_kunit" ] ||
		report+=("--console=/cache/run/test-0/console.log" "--kunit-parser=$kunit")
fi

publish "$start" test latest-test
dir=$PROJECT/$results
status=0
in_root python3 -B /project/tools/testing/iomap/report.py "${report[@]}" --seconds=$(($(date +%s) - start)) \
	>"$out/report.txt" </dev/null || status=$?
for f in summary.json report.txt check unit unit.log host.log; do
	[ ! -e "$out/$f" ] || cp "$out/$f" "$dir/"
done
for i in 0 1; do
	[ ! -e "$out-$i/console.log" ] || cp "$out-$i/console.log" "$dir/console-$i.log"
	for f in splat fstest/results.jsonl fstest/dio_test.log; do
		[ ! -s "$out-$i/$f" ] || cp "$out-$i/$f" "$dir/$(basename "${f%.*}")-$i.${f##*.}"
	done
done
published
cat "$out/report.txt"
# A report that could not be made has no last line.
[ -s "$out/report.txt" ] || die "there is no report"
exit $status
