#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# "make deb": Debian packages of a kernel that has both implementations, and begins with C.
#
#   CONFIG=cloud     the configuration of Debian's kernel for virtual machines (the default)
#   CONFIG=debian    that of Debian's kernel for any machine: builds for hours
#   CONFIG=machine   that of the running kernel, in /boot
#   CONFIG=local     of that, what is in use on this machine (localmodconfig)
#   CONFIG=path      any other
#
# The packages go to results/<time>-deb/, and results/latest-deb points there. Nothing is installed.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
need_root "$@"

CONFIG=${CONFIG:-cloud}
running=/boot/config-$(uname -r)
case $CONFIG in
cloud) debian=config.amd64_none_cloud-amd64.xz ;;
debian) debian=config.amd64_none_amd64.xz ;;
machine | local) debian='' config=$running ;;
# As KSRC in common.sh.
*) debian='' config=${CONFIG/#\~\//$HOME/} ;;
esac
if [ -z "$debian" ]; then
	[ -r "$config" ] || die "CONFIG=$CONFIG: there is no $config to read; cloud and debian need no file"
	grep -q '^CONFIG_X86_64=y$' "$config" || die "CONFIG=$CONFIG: $config is no configuration of an x86_64 kernel"
fi

"$IOMAP_DIR/root.sh"
lock deb
trap stop INT TERM HUP
out=$CACHE/deb log=$CACHE/deb.log
mkdir -p "$out"
need_space 8 "building packages"
# What bindeb-pkg calls, and what compresses a kernel.
need_packages deb "$log" "makes packages" debhelper dpkg-dev lz4 openssl rsync zstd
if [ -n "$debian" ]; then
	config=$out/$debian
	if [ ! -e "$config" ]; then
		say "fetching ${KERNEL_PACKAGE/source/config} from Debian"
		in_root sh -euc 'cd "$(mktemp -d)"
			apt-get -qq -o APT::Sandbox::User=root update
			apt-get -qq -o APT::Sandbox::User=root download "$1"
			dpkg-deb --fsys-tarfile ./*.deb | tar -x --strip-components=4 -C /cache/deb "./usr/src/$1"' \
			sh "${KERNEL_PACKAGE/source/config}" >"$log" 2>&1 </dev/null && [ -e "$config" ] ||
			die "${KERNEL_PACKAGE/source/config} could not be had from Debian: $(grep -m 1 '^E: ' "$log"); see $log, or give a file as CONFIG="
	fi
	xz -dc "$config" >"$out/config"
else
	cat "$config" >"$out/config"
fi
modules=
if [ "$CONFIG" = local ]; then
	modules=$out/modules
	lsmod >"$modules"
fi

rm -f "$BUILD"/*.{deb,buildinfo,changes}
IOMAP_BASE_CONFIG=$out/config IOMAP_LSMOD=$modules "$IOMAP_DIR/build.sh" x86-deb bindeb-pkg \
	KDEB_COMPRESS=zstd DPKG_FLAGS=-d KDEB_CHANGELOG_DIST="$DEBIAN_SUITE"
publish deb
mv "$BUILD"/linux-image-*.deb "$BUILD"/linux-headers-*.deb "$PROJECT/$results/"
rm -f "$BUILD"/*.{deb,buildinfo,changes}
cp "$BUILD/x86-deb/.config" "$PROJECT/$results/config"
published
du -h "$PROJECT/$results"/*.deb
exit 0
}
