#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Measures C and Rust direct I/O side by side in one User Mode Linux guest, from nothing:
# toolchain root, kernel source, kernel, guest, fio, table, report, plots.
#
#   QUICK=1       the small sizes only, about two minutes once the kernel is built
#   FS= IO= BS=   comma lists that pick rows; bench/rows.py lists what there is
#   KSRC=         your own kernel tree
#
# Results go to results/<time>-bench/, and results/latest points there.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"

for v in FS IO BS; do
	[[ ${!v:-} =~ ^[A-Za-z0-9_,\ -]*$ ]] || die "$v=${!v}: a list of names separated by commas is wanted"
done
filter=("--fs=${FS:-}" "--io=${IO:-}" "--bs=${BS:-}")
case ${QUICK:-} in
'' | 0 | n) limit=1200 ;;
*) filter+=(--quick) limit=600 ;;
esac

# Better to hear of a misspelt name now than after the build; without Python here, the root has one.
checked=
if command -v python3 >/dev/null; then
	python3 -B "$IOMAP_DIR/bench/rows.py" "${filter[@]}" >/dev/null || exit 1
	checked=1
fi
need_root "$@"
bench=/project/tools/testing/iomap/bench
if [ -z "$checked" ]; then
	"$IOMAP_DIR/root.sh"
	in_root python3 -B $bench/rows.py "${filter[@]}" >/dev/null || exit 1
fi

"$IOMAP_DIR/build.sh" um-bench

lock bench
run=$CACHE/run/bench
mkdir -p "$run"
rm -f "$run/run.json"
# One processor of the guest on one processor of ours, before everything else that wants to run there.
# A UML guest hands over to its user space and back for every system call: across two processors
# that is four times slower, and both neighbours and migrations show as noise, of tens of percent
# where this leaves one.
cpu=$(taskset -pc $$ | sed 's/.*[ ,-]//')
prefix="taskset -c $cpu"
if [ "$(nproc)" -gt 1 ] && in_root chrt -f 1 true 2>/dev/null; then
	prefix="chrt -f 1 $prefix"
else
	say "no real-time priority here: what else runs on this machine will show as noise"
fi

say "booting the um-bench kernel on processor $cpu; its console is in $run/console.log"
status=0
# shellcheck disable=SC2086 # BENCH_ARGS is a list, for trying things: --budget SECONDS, --against-itself
GUEST_APPEND="brd.rd_nr=1 brd.rd_size=1048576 ${GUEST_APPEND:-}" GUEST_PREFIX=$prefix \
	GUEST_CPUS=${GUEST_CPUS:-1} GUEST_MEM=${GUEST_MEM:-4G} \
	run_guest um-bench "$run" $limit python3 -B $bench/run.py --out /cache/run/bench/run.json "${filter[@]}" \
	${BENCH_ARGS:-} || status=$?
if [ ! -s "$run/run.json" ]; then
	# 124 and 125 have already said why
	[ $status -ge 124 ] || guest_failed "$run/console.log" "the benchmark ended without a result"
	exit 1
fi

date=$(date -u +%Y-%m-%dT%H:%M:%SZ)
name=$(date -u -d "$date" +%Y%m%dT%H%M%SZ)-bench
about=("--date=$date" "--config=/cache/${BUILD##*/}/um-bench/.config")
git=(git -c "safe.directory=$PROJECT" -C "$PROJECT")
if commit=$("${git[@]}" rev-parse HEAD 2>/dev/null); then
	about+=("--commit=$commit")
	[ -z "$("${git[@]}" status --porcelain 2>/dev/null)" ] || about+=(--dirty)
fi
mkdir -p "$PROJECT/results"
in_root python3 -B $bench/report.py /cache/run/bench/run.json --out "/project/results/$name" "${about[@]}" ||
	die "the report could not be made; the samples are in $run/run.json"
cp "$run/console.log" "$PROJECT/results/$name/console.log"
ln -sfn "$name" "$PROJECT/results/latest"
give_back "$PROJECT/results" 2>/dev/null || :

echo
say "results: results/$name/ (report.md, bench.json, *.svg, *.png), also as results/latest/"
[ $status -eq 0 ] || die "some rows failed; they are named above and in results/$name/report.md"
