#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Makes $CACHE/tree: a kernel source tree with our overlay in it, ready to build.
# The source is Debian's, or the user's own: KSRC=/path/to/linux.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ -z "$KSRC" ] || "$IOMAP_DIR/overlay.sh" check "$KSRC"
need_root "$@"
mkdir -p "$CACHE"
# The tree must not change under a build, so this is part of building.
[ -n "${IOMAP_BUILDING:-}" ] || lock build
trap 'progress_end; rm -rf "$TREE.tmp" "$SRC.tmp" "$CACHE/apt.tmp"' EXIT
trap 'exit 130' INT TERM

# What was unpacked from Debian, e.g. "linux-source-7.3 7.3.4-1~bpo13+1"
fetch_debian()
{
	[ ! -e "$SRC/.stamp" ] || return 0
	"$IOMAP_DIR/root.sh"
	rm -rf "$SRC.tmp" "$CACHE/apt.tmp"
	mkdir -p "$CACHE/apt.tmp/lists/partial" "$CACHE/apt.tmp/parts"

	local suite apt deb found=
	apt=(apt-get -qq -o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false
		-o Acquire::Retries=3 -o Acquire::Languages=none
		-o Dir::Etc::sourcelist=/cache/apt.tmp/sources -o Dir::Etc::sourceparts=/cache/apt.tmp/parts
		-o Dir::Etc::preferencesparts=/cache/apt.tmp/parts
		-o Dir::State::lists=/cache/apt.tmp/lists -o Dir::Cache::archives=/cache/apt.tmp)
	# Its own lists: the packages of the root must not come from these suites.
	for suite in $KERNEL_SUITES; do
		say "looking for $KERNEL_PACKAGE in Debian $suite"
		echo "deb $DEBIAN_MIRROR $suite main" >"$CACHE/apt.tmp/sources"
		if in_root sh -c 'cd /cache/apt.tmp && "$@"' sh "${apt[@]}" update </dev/null >/dev/null 2>&1 &&
			in_root sh -c 'cd /cache/apt.tmp && "$@"' sh "${apt[@]}" download "$KERNEL_PACKAGE" </dev/null >/dev/null 2>&1; then
			found=$suite
			break
		fi
	done
	[ -n "$found" ] ||
		die "no $KERNEL_PACKAGE in $KERNEL_SUITES at $DEBIAN_MIRROR: adjust KERNEL_SUITES in $IOMAP_DIR/pins, or use KSRC=/path/to/linux"
	deb=$(basename "$CACHE"/apt.tmp/"$KERNEL_PACKAGE"_*.deb .deb)
	say "unpacking $deb from $found"
	mkdir "$SRC.tmp"
	in_root bash -euo pipefail -c 'dpkg-deb --fsys-tarfile /cache/apt.tmp/*.deb |
		tar -xO "./usr/src/$1.tar.xz" | xz -dc -T0 |
		tar -x --no-same-owner --strip-components=1 -C "$2"' \
		bash "$KERNEL_PACKAGE" "/cache/${SRC##*/}.tmp" </dev/null
	"$IOMAP_DIR/overlay.sh" check "$SRC.tmp"
	echo "$deb" >"$SRC.tmp/.stamp"
	rm -rf "$CACHE/apt.tmp" "$SRC"
	mv "$SRC.tmp" "$SRC"
}

# A fingerprint of the user's tree that changes when a source file does.
ksrc_files()
{
	cd "$KSRC"
	if git rev-parse --is-inside-work-tree >/dev/null 2>&1 && [ -e .git ]; then
		git ls-files -z --cached --others --exclude-standard
	else
		find . \( -name .git -o -name '*.o' -o -name '*.cmd' -o -name '*.ko' -o -name '*.a' \
			-o -name .iomap-dio-rust -o -path ./include/config -o -path ./include/generated \
			-o -path './arch/*/include/generated' -o -name .config \) -prune -o ! -type d -print0
	fi
}

if [ -n "$KSRC" ]; then
	stamp="$KSRC $(cd "$KSRC" && ksrc_files | { xargs -0 stat -c '%n %s %Y' 2>/dev/null || :; } | sha256sum)"
else
	fetch_debian
	stamp=$(cat "$SRC/.stamp")
fi

if [ "$(cat "$TREE/.iomap-dio-rust-stamp" 2>/dev/null)" != "$stamp" ]; then
	say "copying the kernel source"
	rm -rf "$TREE.tmp"
	if [ -n "$KSRC" ]; then
		# Modification times are kept: what was built from it stays built.
		mkdir "$TREE.tmp"
		ksrc_files | (cd "$KSRC" && xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh |
			tar -c --null --no-recursion -T - -f -) | tar -x -C "$TREE.tmp"
	else
		# Hard links: whatever writes to the tree must replace files, not change them.
		cp -al "$SRC" "$TREE.tmp"
		rm -rf "$BUILD"
	fi
	echo "$stamp" >"$TREE.tmp/.iomap-dio-rust-stamp"
	rm -rf "$TREE"
	mv "$TREE.tmp" "$TREE"
fi
"$IOMAP_DIR/overlay.sh" sync "$TREE" "$IOMAP_DIR/test-patches"
