#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The tests, from nothing: static checks, unit tests of the tools, tests on the host of what needs
# no kernel, the test kernel, its KUnit suites, and the file system suite with both implementations
# in User Mode Linux guests.
#
# Results go to results/<time>-test/, and results/latest-test points there. What failed is listed
# by name; the last line is "N passed, N failed".
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
! is_on "${CENSUS:-}" || exec "$IOMAP_DIR/census.sh"
! is_on "${DEB:-}" || exec "$IOMAP_DIR/deb_test.sh"
case ${MACHINE:-uml} in
uml) ;;
qemu) exec "$IOMAP_DIR/qemu.sh" ;;
*) die "MACHINE=$MACHINE: there is uml, which is the default, and qemu" ;;
esac
need_root "$@"
fstest=/project/tools/testing/iomap/fstest
kunit=/cache/${TREE##*/}/tools/testing/kunit

read_only
# The checks and unit tests that ONLY= selects. KUnit cases have no names before they have run.
mapfile -t wanted < <({
	"$IOMAP_DIR/check.sh" list | sed 's,^,check/,'
	find "$IOMAP_DIR" -name 'test_*.py' -printf 'unit/%P\n' | sed 's,/[^/]*$,,; s,^unit$,unit/tools,' | sort -u
	printf 'unit/%s\n' host-loom host-proptest host-shuttle
} | run_python only.py "${only[@]}")
wait $!

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

if [ ${#want_unit[@]} -gt 0 ]; then
	for t in "${want_unit[@]}"; do
		# What they need is in the root: one that skips has failed.
		if in_root env "KUNIT=$kunit" python3 -B -m unittest discover -s "/project/tools/testing/iomap/${t#tools}" >"$out/this.log" 2>&1 </dev/null &&
			! grep -qa '^OK (skipped' "$out/this.log"; then
			echo "ok $t"
		else
			echo "FAIL $t: $(grep -aE '^(FAIL|ERROR|OK|[A-Za-z]*Error)' "$out/this.log" | head -n 3 | tr '\n' ' ')"
		fi
		cat "$out/this.log" >>"$out/unit.log"
	done >"$out/unit"
	rm "$out/this.log"
fi
if [ ${#want_host[@]} -gt 0 ]; then
	say "host tests: ${want_host[*]}"
	status=0
	HOST_LOG=$out/host.log "$IOMAP_DIR/host/run.sh" "${want_host[@]}" >>"$out/unit" || status=$?
	# It failed without saying what.
	[ $status -eq 0 ] || grep -q '^FAIL host-' "$out/unit" ||
		echo "FAIL host: host/run.sh ended with status $status" >>"$out/unit"
fi
if [ ${#want_checks[@]} -gt 0 ]; then
	say "static checks"
	status=0
	"$IOMAP_DIR/check.sh" "${want_checks[@]}" >"$out/check" || status=$?
	# As above.
	[ $status -eq 0 ] || grep -q '^FAIL ' "$out/check" ||
		echo "FAIL ran: check.sh ended with status $status" >>"$out/check"
	sed -n 's/^FAIL /failed: check\//p' "$out/check" | while read -r line; do say "$line"; done
fi

report=() n=0
if [ -n "$want_kunit$want_fs" ]; then
	"$IOMAP_DIR/build.sh" um-test

	# A guest to a processor: User Mode Linux changes between its kernel and its processes all
	# the time, which is several times slower across two.
	mapfile -t cpus < <(processors)
	n=1
	[ -z "$want_fs" ] || [ ${#cpus[@]} -lt 2 ] || n=2
fi
for ((i = 0; i < n; i++)); do
	# KUnit runs by itself at boot.
	args=(true) parts=checkers
	if [ -n "$want_fs" ]; then
		args=(python3 -B "$fstest/run.py" --bin /cache/fstest/dio_test "--kunit=$kunit" "--shard=$i/$n" \
			"--scale=${FSTEST_SCALE:-100}" "--seed=${FSTEST_SEED:-1}" "${only_args[@]}")
		parts+=,fstest
	fi
	# KUnit once is enough.
	[ $i -gt 0 ] || [ -z "$want_kunit" ] || parts+=,kunit
	say "booting the um-test kernel on processor ${cpus[$i]}; its console is in $out-$i/console.log"
	GUEST_PREFIX="taskset -c ${cpus[$i]}" GUEST_MEM=${GUEST_MEM:-4G} \
		GUEST_APPEND="$([ $i -eq 0 ] || echo kunit.enable=0) ${GUEST_APPEND:-}" \
		start_guest um-test "$out-$i" 3600 "${args[@]}"
	report+=("--guest=$i:$parts")
done
wait_guests
report_tests test "${report[@]}"
