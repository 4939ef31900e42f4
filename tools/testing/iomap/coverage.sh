#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What do the scripts of fs/iomap/tests/ reach? Builds the um-cov kernel, in which the compilers count how
# often each region of the C file and of the Rust code is entered, boots it once to play the scripts that
# have a name and once for those drawn at random, and says what was reached.
#
# Results go to results/<time>-coverage/, and results/latest-coverage points there. The last line is
# "C: N of M regions, Rust: N of M regions"; it fails if a script fails, if a region of the C file is not
# reached that the file "unreachable" does not name, or if that names one that is.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
scripts=${SCRIPTS:-20000}
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
[[ $scripts =~ ^[1-9][0-9]*$ ]] || die "SCRIPTS=$scripts is not a number of scripts"
need_root "$@"

"$IOMAP_DIR/root.sh"
lock coverage
"$IOMAP_DIR/build.sh" um-cov

# Plays one suite; more parameters of the kernel may follow. What it reached is in $CACHE/run/cov-$1.
failed=0
play()
{
	local name=$1 suite=$2 timeout=$3 run=$CACHE/run/cov-$1 status=0 began=$SECONDS n
	shift 3

	rm -rf "$run"
	GUEST_MEM=${GUEST_MEM:-1G} GUEST_APPEND="kunit.filter_glob=$suite kunit.timeout=300 $* ${GUEST_APPEND:-}" \
		run_guest um-cov "$run" "$timeout" sh -c 'cat /sys/kernel/debug/iomap_dio_coverage >"$RUN/counters"' || status=$?
	[ "$status" -eq 0 ] ||
		die "the guest with the $name scripts ended with status $status: see $run/console.log"
	ktap "cov-$name" >"$run/tests"
	grep -qx "pass $suite" "$run/tests" || {
		failed=1
		n=$(grep -cv '^\(pass\|skip\) ' "$run/tests" || :)
		say "not all $name scripts passed ($n failed): see $run/tests"
	}
	say "$name scripts: played in $((SECONDS - began)) s"
}

play named iomap_dio_scripts 600
say "now $scripts scripts drawn at random"
play random iomap_dio_fuzz $((600 + scripts / 10)) "iomap_dio_fuzz.scripts=$scripts"

about_run
out=$CACHE/run/cov-report
rm -rf "$out"
mkdir -p "$out"
status=0
in_root python3 -B /project/tools/testing/iomap/coverage/coverage.py "--llvm=$LLVM_MAJOR" \
	"--tree=/cache/${TREE##*/}" "--build=/cache/${BUILD##*/}/um-cov" \
	--named=/cache/run/cov-named --random=/cache/run/cov-random \
	--unreachable=/project/tools/testing/iomap/unreachable --out=/cache/run/cov-report \
	"--about=Linux $KERNEL_VERSION, $about_text, $scripts scripts drawn at random." \
	>"$out/report.txt" </dev/null || status=$?
[ -s "$out/report.md" ] || die "there is no report; what was reached is in $CACHE/run/cov-named and cov-random"

publish coverage
dir=$PROJECT/$results
cp "$out/report.md" "$out/coverage.json" "$dir/"
for n in named random; do
	cp "$CACHE/run/cov-$n/console.log" "$dir/console-$n.log"
done
published
cat "$out/report.txt"
[ "$failed" -eq 0 ] || exit 1
exit $status
}
