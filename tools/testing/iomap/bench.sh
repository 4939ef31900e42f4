#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Measures C and Rust direct I/O side by side, from nothing: toolchain root, kernel source, kernel,
# guest, fio, table, report, plots.
#
#   MACHINE=qemu  counts instructions on x86_64 (count.sh), and with KVM measures time there as well;
#                 by default, time is measured in a User Mode Linux guest
#   DEVICE=/dev/X measures on this machine and this device instead, in no guest (device.py);
#                 overwrites it, so that it wants CONFIRM=/dev/X
#   SEEDS=1       the experiments of the papers and mails that began this, counted (seeds.py)
#   SCALE=1       with MACHINE=qemu, the cache lines that move between processors (scale.py)
#   QUICK=1       the small sizes only, about two minutes once the kernel is built
#   FS= IO= BS=   comma lists that pick rows; bench/rows.py lists what there is
#   KSRC=         your own kernel tree
#
# Results go to results/<time>-bench/, and results/latest points there.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"

machine=${MACHINE:-uml}
case $machine in
uml | qemu) ;;
*) die "MACHINE=$machine: there is uml, which is the default, and qemu" ;;
esac
[ -z "${DEVICE:-}" ] || machine=device
filter=("--machine=$machine" "--fs=${FS:-}" "--io=${IO:-}" "--bs=${BS:-}")
limit=1200
! is_on "${QUICK:-}" || filter+=(--quick) limit=600

if [ "$machine" = device ]; then
	command -v python3 >/dev/null || die "python3 is missing: apt-get install python3"
	about_run
	exec python3 -B "$IOMAP_DIR/bench/device.py" --device "$DEVICE" --confirm "${CONFIRM:-}" \
		--out "$PROJECT/results/$(date -u -d "@$IOMAP_T0" +%Y%m%dT%H%M%SZ)-bench" "${filter[@]}" "${about[@]}"
fi

need_root "$@"
bench=/project/tools/testing/iomap/bench
run_python bench/rows.py "${filter[@]}" >/dev/null || exit 1
[ -z "${SEEDS:-}" ] || exec "$IOMAP_DIR/count.sh" seeds
if is_on "${SCALE:-}"; then
	[ "$machine" = qemu ] || die "SCALE=1 counts in QEMU: make bench MACHINE=qemu SCALE=1"
	exec "$IOMAP_DIR/count.sh" scale
fi

# timed FLAVOUR KIND: measures time in a guest with that kernel, and publishes a report.
timed()
{
	local flavour=$1 run=$CACHE/run/bench status=0

	lock bench
	mkdir -p "$run"
	rm -f "$run/run.json"
	say "booting the $flavour kernel; its console is in $run/console.log"
	# shellcheck disable=SC2086 # BENCH_ARGS is a list, for trying things: --budget SECONDS
	GUEST_APPEND="brd.rd_nr=1 brd.rd_size=1048576 ${GUEST_APPEND:-}" \
		GUEST_CPUS=${GUEST_CPUS:-1} GUEST_MEM=${GUEST_MEM:-4G} \
		run_guest "$flavour" "$run" $limit python3 -B $bench/run.py --out /cache/run/bench/run.json "${filter[@]}" \
		${BENCH_ARGS:-} || status=$?
	if [ ! -s "$run/run.json" ]; then
		# 124 and 125 have already said why
		[ $status -ge 124 ] || guest_failed "$run/console.log" "the benchmark ended without a result"
		exit 1
	fi

	about_run
	publish "$2"
	in_root python3 -B $bench/report.py /cache/run/bench/run.json --out "/project/$results" \
		--config="/cache/${BUILD##*/}/$flavour/.config" "${about[@]}" ||
		die "the report could not be made; the samples are in $run/run.json"
	cp "$run/console.log" "$PROJECT/$results/console.log"
	echo
	published
	[ $status -eq 0 ] || die "some rows failed; they are named above and in $results/report.md"
}

if [ "$machine" = qemu ]; then
	"$IOMAP_DIR/count.sh" bench "${filter[@]}"
	probe_kvm x86-bench
	if [ -n "$no_kvm" ]; then
		say "instructions only, no times: $no_kvm"
		exit 0
	fi
	export GUEST_ACCEL=kvm
	timed x86-bench bench-kvm
	exit 0
fi

"$IOMAP_DIR/build.sh" um-bench
# One processor of the guest on one processor of ours, before everything else that wants to run there.
# A UML guest hands over to its user space and back for every system call: across two processors
# that is four times slower, and both neighbours and migrations show as noise, of tens of percent
# where this leaves one.
cpu=$(processors | tail -n 1)
GUEST_PREFIX="taskset -c $cpu"
if [ "$(nproc)" -gt 1 ] && in_root chrt -f 1 true 2>/dev/null; then
	GUEST_PREFIX="chrt -f 1 $GUEST_PREFIX"
else
	say "no real-time priority here: what else runs on this machine will show as noise"
fi
timed um-bench bench
exit 0
}
