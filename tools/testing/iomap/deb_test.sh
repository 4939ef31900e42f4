#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# "make test DEB=1": the packages of "make deb" in a guest with Debian 13 on a disk, as README says it. Makes
# them first, with CONFIG=, or takes those in results/latest-deb.
#
# Results go to results/<time>-test/, and results/latest-test points there.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
need_root "$@"
debs=$PROJECT/results/latest-deb
compgen -G "$debs/linux-image-*.deb" >/dev/null || "$IOMAP_DIR/deb.sh"

"$IOMAP_DIR/root.sh"
lock debian
trap stop INT TERM HUP
need_tool mmdebstrap mmdebstrap
here=$CACHE/debian log=$CACHE/debian.log
# The firmware, and what makes a disk of a tree.
need_packages debian "$log" "makes a disk" dosfstools fdisk mtools ovmf
stamp=$(cat "$IOMAP_DIR"/pins "$IOMAP_DIR"/deb_{test,disk}.sh | sha256sum | cut -d' ' -f1)-$EUID
if [ "$(cat "$here/.stamp" 2>/dev/null)" != "$stamp" ]; then
	say "installing Debian $DEBIAN_SUITE in a tree: about 3 minutes, log in $log"
	"${NAMESPACE[@]}" rm -rf --one-file-system "$here"
	mkdir -p "$here"
	"${NAMESPACE[@]}" mmdebstrap --mode=root --variant=important --components=main --aptopt='Acquire::Retries "3"' \
		--include=linux-image-cloud-amd64,grub-efi-amd64,initramfs-tools,systemd-sysv,sudo,fio,python3,ca-certificates \
		"$DEBIAN_SUITE" "$here/tree" "$DEBIAN_MIRROR" >"$log" 2>&1 </dev/null ||
		die "mmdebstrap failed: $(grep -m 1 '^E: ' "$log"); see $log"
	in_root /project/tools/testing/iomap/deb_disk.sh /cache/debian >>"$log" 2>&1 </dev/null ||
		die "the disk could not be made: $(tail -n 1 "$log"); see $log"
	echo "$stamp" >"$here/.stamp"
fi

run=$CACHE/run/deb
rm -rf "$run"
mkdir -p "$run/files"
cp --sparse=always "$here/disk" "$run/disk"
cp "$debs"/linux-image-*.deb "$IOMAP_DIR/census" "$run/files/"
# A stock kernel knows no 9p.
in_root mke2fs -q -t ext4 -d /cache/run/deb/files /cache/run/deb/files.disk 1G
BUILD=$here choose_accel kernel
say "Debian $DEBIAN_SUITE, $pc; the console is in $run/console.log"
in_root_words
"${IN_ROOT[@]}" python3 -B /project/tools/testing/iomap/deb_guest.py --run /cache/run/deb --accel "$GUEST_ACCEL" \
	--readme /project/README.md >"$run/unit" 2>"$run/progress" </dev/null &
guest_pid=$!
# It may have ended without saying what failed.
watch_child "Debian" "$run/progress" || grep -q '^FAIL ' "$run/unit" ||
	echo "FAIL deb: deb_guest.py ended before it was done, at: $(tail -n 1 "$run/progress")" >>"$run/unit"
guest_pid=
rm -rf "$run"/{disk,files,files.disk}
report_tests deb "--machine=$pc"
}
