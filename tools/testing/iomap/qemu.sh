#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# "make test MACHINE=qemu": the KUnit suites on x86_64, in QEMU, and "make bench DEVICE=" on an NVMe
# disk that QEMU makes up. On x86_64, static branches are patched into the code and the C helpers of
# the Rust code are inlined, which User Mode Linux cannot do. KVM is used when it works; without, QEMU
# translates the code (TCG), which takes some times as long.
#
# Results go to results/<time>-test/, and results/latest-test points there. What failed is listed
# by name; the last line is "N passed, N failed".
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
need_root "$@"

read_only
# The names of single cases are known only when they have run.
flavours=()
[ ${#only[@]} -gt 0 ] && [[ ! " ${only[*]}" =~ \ (kunit|rust_iomap|iomap_dio) ]] || flavours+=(x86-kunit)
[ ${#only[@]} -gt 0 ] && [[ ! " ${only[*]}" =~ device ]] || flavours+=(x86-bench)
[ ${#flavours[@]} -gt 0 ] ||
	die "ONLY=$ONLY matches no test: MACHINE=qemu runs the KUnit suites and the tests of DEVICE="

"$IOMAP_DIR/root.sh"
lock test
out=$CACHE/run/test-qemu
rm -rf "$out" "$out-0" "$out-device"
mkdir -p "$out" "$out-device"
for flavour in "${flavours[@]}"; do
	"$IOMAP_DIR/build.sh" "$flavour"
done
choose_accel "${flavours[0]}"

report=("--machine=$pc")
if [[ " ${flavours[*]} " == *" x86-kunit "* ]]; then
	say "$pc; the console is in $out-0/console.log"
	# To reboot takes less of a PC than to turn itself off.
	#
	# Without no5lvl, KASAN complains of an interrupt that arrives while identify_cpu() has forgotten for a
	# moment that there are five levels of page tables.
	GUEST_APPEND="no5lvl kunit_shutdown=reboot kunit.filter_glob=*iomap* ${FUZZ_SCRIPTS:+iomap_dio_fuzz.scripts=$FUZZ_SCRIPTS} ${GUEST_APPEND:-}" \
		start_guest x86-kunit "$out-0" 1200
	wait_guests
	report+=("--guest=0:kunit,checkers")
fi
if [[ " ${flavours[*]} " == *" x86-bench "* ]]; then
	truncate -s 2G "$out-device/disk"
	say "make bench DEVICE= on an NVMe disk; the console is in $out-device/console.log"
	GUEST_QEMU="-drive file=/cache/run/test-qemu-device/disk,format=raw,if=none,id=disk -device nvme,drive=disk,serial=1" \
		start_guest x86-bench "$out-device" 900 /project/tools/testing/iomap/bench/device_guest.py \
		--out /cache/run/test-qemu-device/tests
	wait_guests
	rm -f "$out-device/disk"
	report+=("--guest=device:unit")
fi
report_tests test-qemu "${report[@]}"
}
