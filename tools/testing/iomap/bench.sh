#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Measures C and Rust direct I/O side by side, from nothing: toolchain root, kernel source, kernel,
# guest, fio, table, report, plots. Counts instructions on x86_64 in QEMU (count.sh), and with KVM
# measures time there as well.
#
# Results go to results/<time>-bench/, and results/latest points there.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"

case ${MACHINE:-qemu} in
qemu) ;;
*) die "MACHINE=$MACHINE: there is qemu, which is the default" ;;
esac
filter=("--fs=${FS:-}" "--io=${IO:-}" "--bs=${BS:-}")
! is_on "${QUICK:-}" || filter+=(--quick)

if [ -n "${DEVICE:-}" ]; then
	command -v python3 >/dev/null || die "python3 is missing: apt-get install python3"
	about_run
	exec python3 -B "$IOMAP_DIR/bench/device.py" --device "$DEVICE" --confirm "${CONFIRM:-}" --machine=device \
		--out "$PROJECT/results/$(date -u -d "@$IOMAP_T0" +%Y%m%dT%H%M%SZ)-bench" "${filter[@]}" "${about[@]}"
fi

need_root "$@"
bench=/project/tools/testing/iomap/bench
run_python bench/rows.py "${filter[@]}" >/dev/null || exit 1
! is_on "${ABLATE:-}" || exec "$IOMAP_DIR/ablate.sh"
! is_on "${SEEDS:-}" || exec "$IOMAP_DIR/count.sh" seeds
! is_on "${SCALE:-}" || exec "$IOMAP_DIR/count.sh" scale

"$IOMAP_DIR/count.sh" bench "${filter[@]}"
probe_kvm x86-bench
if [ -n "$no_kvm" ]; then
	say "instructions only, no times: $no_kvm"
	exit 0
fi
if ! run_python bench/rows.py --machine=device "${filter[@]}" >/dev/null 2>&1; then
	say "instructions only, no times: none of these rows is measured by time"
	exit 0
fi
run=$CACHE/run/bench status=0
lock bench
mkdir -p "$run"
rm -f "$run/run.json"
say "booting with KVM; the console is in $run/console.log"
# shellcheck disable=SC2086 # BENCH_ARGS is a list, for trying things: --budget SECONDS
GUEST_APPEND="brd.rd_nr=1 brd.rd_size=1048576 ${GUEST_APPEND:-}" \
	GUEST_ACCEL=kvm GUEST_CPUS=${GUEST_CPUS:-1} GUEST_MEM=${GUEST_MEM:-4G} \
	run_guest x86-bench "$run" 1200 python3 -B $bench/run.py --out /cache/run/bench/run.json --machine=device \
	"${filter[@]}" ${BENCH_ARGS:-} || status=$?
if [ ! -s "$run/run.json" ]; then
	# 124 and 125 have already said why
	[ $status -ge 124 ] || guest_failed "$run/console.log" "the benchmark ended without a result"
	exit 1
fi
about_run
publish bench-kvm
in_root python3 -B $bench/report.py /cache/run/bench/run.json --out "/project/$results" \
	--config="/cache/${BUILD##*/}/x86-bench/.config" "${about[@]}" ||
	die "the report could not be made; the samples are in $run/run.json"
cp "$run/console.log" "$PROJECT/$results/console.log"
echo
published
[ $status -eq 0 ] || die "some rows failed; they are named above and in $results/report.md"
exit 0
}
