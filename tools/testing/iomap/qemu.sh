#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# "make test MACHINE=qemu": the KUnit suites on x86_64, in QEMU, and "make bench DEVICE=" on an NVMe
# disk that QEMU makes up. On x86_64, static branches are patched into the code and the C helpers of
# the Rust code are inlined, which User Mode Linux cannot do. KVM is used when it works; without, QEMU
# translates the code (TCG), which takes some times as long.
#
#   ONLY=name         of the tests, as in test.sh: kunit, iomap_dio_scripts, ..., or device
#   FUZZ_SCRIPTS=n    how many random scripts the kernel plays (3000)
#   KSRC=             your own kernel tree
#   GUEST_MEM, GUEST_CPUS, GUEST_APPEND: as in guest.sh
#
# Results go to results/<time>-test/, and results/latest-test points there. What failed is listed
# by name; the last line is "N passed, N failed".
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
[ -z "$KSRC" ] || check_version "$KSRC"
need_root "$@"
start=$(date +%s)
flavour=x86-kunit

read_only
# The names of single cases are known only when they have run.
want_kunit='' want_device=''
[ ${#only[@]} -gt 0 ] && [[ ! " ${only[*]}" =~ \ (kunit|rust_iomap|iomap_dio) ]] || want_kunit=1
[ ${#only[@]} -gt 0 ] && [[ ! " ${only[*]}" =~ device ]] || want_device=1
[ -n "$want_kunit$want_device" ] ||
	die "ONLY=$ONLY matches no test: MACHINE=qemu runs the KUnit suites and the tests of DEVICE="

"$IOMAP_DIR/root.sh"
lock test
out=$CACHE/run/test-qemu run=$CACHE/run/test-qemu-0
rm -rf "$out" "$out"-0 "$out-device"
mkdir -p "$out"

# run_qemu RUN_DIR TIMEOUT ACCELERATOR [KERNEL PARAMETER...]: boots the kernel, which ends by itself.
# There is no user space: it runs its tests and reboots, which ends QEMU. That takes less of a PC than
# to turn itself off.
#
# Without no5lvl, KASAN complains of an interrupt that arrives while identify_cpu() has forgotten for a
# moment that there are five levels of page tables.
run_qemu()
{
	local run=$1 timeout=$2 accel=$3 console=$1/console.log
	shift 3

	mkdir -p "$run"
	: >"$console"
	in_root_words
	qemu_words "$flavour" "$accel"
	"${IN_ROOT[@]}" "${QEMU[@]}" \
		-append "console=ttyS0 earlyprintk=serial panic=-1 no5lvl kunit_shutdown=reboot $* ${GUEST_APPEND:-}" \
		>"$console" 2>&1 </dev/null &
	guest_pid=$!
	while kill -0 "$guest_pid" 2>/dev/null; do
		progress "$flavour: $(tail -n 1 "$console" | tr -d '\r' | cut -c1-100)"
		sleep 1
	done &
	watch_guest "$run" "$timeout" || return
	wait
	progress_end

	if grep -aq 'reboot: Restarting system' "$console"; then
		return 0
	elif grep -aq 'Kernel panic' "$console"; then
		guest_failed "$console" "the guest panicked"
	elif grep -aq 'Linux version' "$console"; then
		guest_failed "$console" "the guest ended before its tests did"
	else
		guest_failed "$console" "the guest did not boot"
	fi
	return 125
}

run_kunit()
{
	local scripts=${FUZZ_SCRIPTS:+iomap_dio_fuzz.scripts=$FUZZ_SCRIPTS} console=$run/console.log status=0

	say "$pc; the console is in $console"
	run_qemu "$run" 1200 "$accel" 'kunit.filter_glob=*iomap*' "$scripts" || status=$?
	report+=("--console=/cache/run/test-qemu-0/console.log" "--kunit-parser=/cache/${TREE##*/}/tools/testing/kunit")
	if [ $status -ne 0 ]; then
		report+=("--verdict=guest-0/finished=fail:status $status, see console-0.log")
	else
		report+=("--verdict=guest-0/finished=pass")
	fi
	"$IOMAP_DIR/splat.sh" "$console" >"$run/splat" 2>&1 || :
	report+=("--splat=/cache/run/test-qemu-0/splat")
	# A checker that is off finds nothing. Nobody is there to read /proc/lockdep_stats; when lockdep turns
	# itself off, it says so, which is a splat.
	if grep -aq 'KernelAddressSanitizer initialized' "$console"; then
		report+=("--verdict=checker-0/kasan=pass")
	else
		report+=("--verdict=checker-0/kasan=fail:KASAN did not start")
	fi
	if grep -aq 'Lock dependency validator' "$console" && ! grep -aq 'Disabling lock debugging' "$console"; then
		report+=("--verdict=checker-0/lockdep=pass")
	else
		report+=("--verdict=checker-0/lockdep=fail:lockdep did not start, or turned itself off")
	fi
}

run_device()
{
	local run=$CACHE/run/test-qemu-device status=0

	"$IOMAP_DIR/build.sh" x86-bench
	rm -rf "$run"
	mkdir -p "$run"
	truncate -s 2G "$run/disk"
	say "make bench DEVICE= on an NVMe disk; the console is in $run/console.log"
	GUEST_ACCEL=$accel GUEST_QEMU="-drive file=/cache/run/test-qemu-device/disk,format=raw,if=none,id=disk -device nvme,drive=disk,serial=1" \
		run_guest x86-bench "$run" 900 /project/tools/testing/iomap/bench/device_guest.py \
		--out /cache/run/test-qemu-device/tests || status=$?
	rm -f "$run/disk"
	[ ! -s "$run/tests" ] || report+=("--unit=/cache/run/test-qemu-device/tests")
	# 1 is a failed test, which is reported by its name
	if [ $status -gt 1 ] || [ ! -s "$run/tests" ]; then
		report+=("--verdict=guest-device/finished=fail:status $status, see console-device.log")
	else
		report+=("--verdict=guest-device/finished=pass")
	fi
	if ! "$IOMAP_DIR/splat.sh" "$run/console.log" >"$run/splat" 2>&1; then
		report+=("--verdict=guest-device/splat=fail:$(head -n 1 "$run/splat")")
	fi
}

flavours=()
[ -z "$want_kunit" ] || flavours+=("$flavour")
[ -z "$want_device" ] || flavours+=(x86-bench)
"$IOMAP_DIR/build.sh" "${flavours[0]}"
probe_kvm "${flavours[0]}"
accel=kvm pc="x86_64 in QEMU with KVM"
[ -z "$no_kvm" ] || accel=tcg,thread=multi pc="x86_64 in QEMU without KVM ($no_kvm)"
report=("--out=/cache/run/test-qemu" "--machine=$pc" "${only_args[@]}")
[ -z "$want_kunit" ] || run_kunit
[ -z "$want_device" ] || run_device

publish "$start" test latest-test
dir=$PROJECT/$results
status=0
in_root python3 -B /project/tools/testing/iomap/report.py "${report[@]}" --seconds=$(($(date +%s) - start)) \
	>"$out/report.txt" </dev/null || status=$?
for f in summary.json report.txt; do
	[ ! -e "$out/$f" ] || cp "$out/$f" "$dir/"
done
for f in 0 device; do
	[ ! -e "$CACHE/run/test-qemu-$f/console.log" ] || cp "$CACHE/run/test-qemu-$f/console.log" "$dir/console-$f.log"
done
[ ! -s "$run/splat" ] || cp "$run/splat" "$dir/splat-0"
published
cat "$out/report.txt"
# A report that could not be made has no last line.
[ -s "$out/report.txt" ] || die "there is no report"
exit $status
}
