#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# "make test CENSUS=1": census on stock kernels, those of Debian's packages of the release and of its
# backports, in QEMU, under fio, PostgreSQL and MariaDB. The packages are unpacked in a root of their own.
#
# Results go to results/<time>-test/, and results/latest-test points there.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
need_root "$@"
read_only
suites=("$DEBIAN_SUITE" "$DEBIAN_BACKPORTS")
packages=qemu-system-x86,fio,e2fsprogs,xfsprogs,python3,kmod,busybox-static,cpio,xz-utils,mount,procps
packages+=,util-linux,iproute2,postgresql,mariadb-server
lock stock
need_tool mmdebstrap mmdebstrap

# guest.sh takes its root and its kernels from here.
ROOT=$CACHE/stock/root BUILD=$CACHE/stock
log=$CACHE/stock.log
stamp=$(cat "$IOMAP_DIR/pins" "$IOMAP_DIR"/census{,_kernel}.sh | sha256sum | cut -d' ' -f1)-$EUID
if [ "$(cat "$BUILD/.stamp" 2>/dev/null)" != "$stamp" ]; then
	say "unpacking the kernels of Debian and what runs on them: about 5 minutes, log in $log"
	"${NAMESPACE[@]}" rm -rf --one-file-system "$BUILD"
	mkdir -p "$BUILD"
	"${NAMESPACE[@]}" mmdebstrap --mode=root --variant=apt --components=main --aptopt='Acquire::Retries "3"' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--include=$packages "$DEBIAN_SUITE" "$ROOT" \
		"deb $DEBIAN_MIRROR $DEBIAN_SUITE main" "deb $DEBIAN_MIRROR $DEBIAN_BACKPORTS main" \
		>"$log" 2>&1 </dev/null || die "mmdebstrap failed: $(grep -m 1 '^E: ' "$log"); see $log"
	for suite in "${suites[@]}"; do
		in_root /project/tools/testing/iomap/census_kernel.sh "$suite" "/cache/stock/$suite" >>"$log" 2>&1 </dev/null ||
			die "the kernel of $suite could not be unpacked: $(tail -n 1 "$log"); see $log"
	done
	echo "$stamp" >"$BUILD/.stamp"
fi

out=$CACHE/run/census
rm -rf "$out" "$out"-*
mkdir -p "$out"
choose_accel "${suites[0]}"
report=("--machine=$pc")
for suite in "${suites[@]}"; do
	run=$out-$suite
	mkdir -p "$run"
	truncate -s 2G "$run"/disk{0,1}
	say "$(cat "$BUILD/$suite/version") of $suite, $pc; the console is in $run/console.log"
	# The one has FUA, the other has not.
	disks=''
	for i in 0 1; do
		disks+=" -drive file=/cache/run/census-$suite/disk$i,format=raw,if=none,id=disk$i,cache=unsafe"
	done
	GUEST_MEM=${GUEST_MEM:-3G} \
		GUEST_QEMU="-initrd /cache/stock/$suite/initrd$disks -device nvme,drive=disk0,serial=1 -device virtio-blk-pci,drive=disk1" \
		start_guest "$suite" "$run" 3000 /project/tools/testing/iomap/census_guest.py --out "/cache/run/census-$suite" \
		"${only_args[@]}"
	wait_guests
	rm -f "$run"/disk{0,1}
	report+=("--guest=$suite:unit")
done
report_tests census "${report[@]}"
}
