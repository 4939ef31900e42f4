#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Runs in the root that census.sh has made: unpacks the kernel package of the Debian suite $1, its image into
# $2 and its modules here, and makes an initramfs that mounts this root over 9p, which a stock kernel has as
# modules. $2 gets the name of the version as well.
set -euo pipefail
suite=$1 out=$2
work=$(mktemp -d)
cd "$work"

apt-get clean
apt-get -qq update
apt-get -qq -y -t "$suite" --no-install-recommends --download-only install linux-image-amd64
mkdir -p stock "$out/arch/x86/boot" /lib/modules
# A newer one is divided into packages.
for deb in /var/cache/apt/archives/linux-{base,binary,image,modules}-[0-9]*.deb; do
	[ -e "$deb" ] || continue
	dpkg-deb -x "$deb" stock
done
apt-get clean
modules=$(dirname "$(find stock -path '*/modules/*/kernel' -prune)")
version=$(basename "$modules")
cp "$(find stock -name vmlinuz -o -name "vmlinuz-$version")" "$out/arch/x86/boot/bzImage"
cp -a "$modules" /lib/modules/
depmod "$version"

mkdir -p initramfs/{proc,root}
cd initramfs
cp /bin/busybox .
for module in virtio_pci 9pnet_virtio 9p; do
	modprobe -S "$version" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
	name=$(basename "$file" .xz)
	if [ "$name" = "$(basename "$file")" ]; then cp "$file" .; else xz -dc "$file" >"$name"; fi
	echo "/$name"
done >modules
cat >init <<'END'
#!/busybox sh
/busybox mount -t proc proc /proc
while read -r module; do /busybox insmod "$module"; done </modules
/busybox mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose rootfs /root
for word in $(/busybox cat /proc/cmdline); do
	case $word in init=*) init=${word#init=} ;; esac
done
/busybox umount /proc
exec /busybox switch_root /root "$init"
END
chmod +x init
find . | cpio -o -H newc --quiet >"$out/initrd"
echo "Linux $version" >"$out/version"
rm -rf "$work"
