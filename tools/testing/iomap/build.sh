#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Builds a kernel out of tree:  build.sh x86-bench|x86-kunit|um-test|um-kunit|um-cov [make targets]
# The result is $CACHE/build/<flavour>/linux (x86: arch/x86/boot/bzImage), the log beside it in build.log.
# NO_SYNC=1 leaves the tree as it is. For deb.sh: IOMAP_BASE_CONFIG is the configuration that is changed,
# IOMAP_LSMOD a list of the modules that are wanted of it.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# Rather now than after making a toolchain.
[ -z "$KSRC" ] || "$IOMAP_DIR/overlay.sh" check "$KSRC"
need_root "$@"

flavour=${1:-}
shift || :
case $flavour in
um-test) arch=um fragments=(machine init base base-um filesystems kunitconfig checkers test) ;;
# What QEMU counts the instructions of, see count.sh.
x86-bench) arch=x86_64 fragments=(machine init base x86 base-x86 bench) ;;
# The smallest with the KUnit suites, for mutants.sh.
um-kunit) arch=um fragments=(machine init base-um kunit-um kunitconfig checkers) ;;
# The same for QEMU, see qemu.sh.
x86-kunit) arch=x86_64 fragments=(machine x86 kunit-x86 kunitconfig checkers) ;;
# With a record of what the suites reach, for coverage.sh.
um-cov) arch=um fragments=(machine init base-um kunit-um kunitconfig checkers cov) ;;
# Packages, see deb.sh.
x86-deb) arch=x86_64 fragments=(deb) ;;
# These are only compiled, see check.sh: Rust alone, Rust without our option, no Rust.
check-rust) arch=um fragments=(check rust-dio) ;;
check-off) arch=um fragments=(check rust-off) ;;
check-none) arch=um fragments=(check rust-none) ;;
# And these, for other machines and with other options, see matrix.sh.
matrix-arm64 | matrix-arm | matrix-powerpc | matrix-s390)
	arch=${flavour#matrix-} fragments=(matrix "matrix/${flavour#matrix-}") ;;
matrix-*) arch=x86_64 fragments=(x86 matrix "matrix/${flavour#matrix-}") ;;
*) die "usage: $0 x86-bench|x86-kunit|um-test|um-kunit|um-cov [make targets]" ;;
esac

lock build
export IOMAP_BUILDING=1
"$IOMAP_DIR/root.sh"
[ -n "${NO_SYNC:-}" ] || "$IOMAP_DIR/source.sh"

out=$BUILD/$flavour
log=$out/build.log
[ -e "$out" ] || need_space 1 "building a kernel"
mkdir -p "$out" "$CACHE/ccache"

# HOSTCC is the linker of host programs in Rust too, which takes one word: no ccache there.
# What is not in the objects must not be in the key: the same source is a hit, whoever builds it.
in_root_words
tree=/cache/${TREE##*/} build=/cache/${BUILD##*/} view=()
if [ -n "${IOMAP_OVERLAY:-}" ]; then
	# For the compiler, the tree and the build of a copy lie where those of the checkout do. Paths are in
	# the key as well, and everything would be compiled anew.
	mkdir -p "$CACHE/tree" "$CACHE/build"
	view=(sh -euc 'mount --bind "$1" /cache/tree; mount --bind "$2" /cache/build; shift 2; exec "$@"' sh
		"$tree" "$build")
	tree=/cache/tree build=/cache/build
fi
kmake=("${IN_ROOT[@]}" "${view[@]}" env CCACHE_BASEDIR=/cache CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=5G
	CCACHE_COMPILERCHECK=content "CCACHE_SLOPPINESS=time_macros,include_file_mtime,include_file_ctime"
	KBUILD_BUILD_TIMESTAMP='Thu Jan  1 00:00:00 UTC 2026' KBUILD_BUILD_VERSION=1
	KBUILD_BUILD_USER=iomap KBUILD_BUILD_HOST=dio
	make -C "$tree" O="$build/$flavour" -j"$(nproc)" "ARCH=$arch"
	LLVM=-"$LLVM_MAJOR" CC="ccache clang-$LLVM_MAJOR"
	BINDGEN=/usr/local/bin/bindgen LIBCLANG_PATH="/usr/lib/llvm-$LLVM_MAJOR/lib")

# The lines of all fragments. What a later one says counts.
wanted()
{
	local f

	for f in "${fragments[@]}"; do
		sed -nE 's/^(# )?CONFIG_([A-Z0-9_]*).*/\2 &/p' "$IOMAP_DIR/configs/$f.config"
	done | tac | awk '!seen[$1]++' | tac | cut -d' ' -f2-
	# What it changes is a part of it as well.
	[ -z "${IOMAP_BASE_CONFIG:-}" ] || echo "# changes: $(cat "$IOMAP_BASE_CONFIG" ${IOMAP_LSMOD:+"$IOMAP_LSMOD"} | sha256sum)"
}

fail()
{
	progress_end
	# The first error is the one that matters; the rest follows from it.
	grep -a -m 5 -A 4 -E '(^|[^a-z_])(error(\[E[0-9]+\])?:|fatal error|undefined (symbol|reference))|ld\.lld.*error|No rule to make' "$log" |
		head -n 30 >&2 || tail -n 15 "$log" >&2
	die "building $flavour failed: see $log"
}

# A commit of the series may be too early for an option of ours.
too_early()
{
	[ "$flavour" = matrix-series ] && ! grep -rqx --include='Kconfig*' "config $1" "$TREE/fs" "$TREE/rust"
}

# Fails unless the kernel has the options that $1 says.
took()
{
	local line

	while read -r line; do
		case $line in
		CONFIG_*) grep -qxF "$line" "$out/.config" || too_early "$(sed 's/CONFIG_//; s/=.*//' <<<"$line")" ||
			die "the $flavour kernel did not take $line (a dependency is missing?): see tools/testing/iomap/configs" ;;
		'# '*) ! grep -q "^$(cut -d' ' -f2 <<<"$line")=" "$out/.config" ||
			die "the $flavour kernel did not take '$line': see tools/testing/iomap/configs" ;;
		esac
	done <"$1"
}

wanted >"$out/.wanted.new"
if ! cmp -s "$out/.wanted.new" "$out/.wanted" || [ ! -e "$out/.config" ]; then
	say "configuring $flavour"
	rm -f "$out/.wanted"
	if [ -z "${IOMAP_BASE_CONFIG:-}" ]; then
		"${kmake[@]}" KCONFIG_ALLCONFIG="$build/$flavour/.wanted.new" allnoconfig
	else
		cp "$IOMAP_BASE_CONFIG" "$out/.config" && "${kmake[@]}" olddefconfig &&
			{ [ -z "${IOMAP_LSMOD:-}" ] || "${kmake[@]}" LSMOD="/cache/${IOMAP_LSMOD#"$CACHE"/}" localmodconfig; } &&
			cat "$out/.wanted.new" >>"$out/.config" && "${kmake[@]}" olddefconfig
	fi >"$log" 2>&1 </dev/null || fail
	took "$out/.wanted.new"
	mv "$out/.wanted.new" "$out/.wanted"
fi
rm -f "$out/.wanted.new"

# Counts what the log tells of, against the last full build.
steps()
{
	local n

	n=$(grep -cE '^  [A-Z]+ ' "$log" || :)
	[ -s "$out/.steps" ] && [ "$n" -le "$(cat "$out/.steps")" ] && n="$n of at most $(cat "$out/.steps")"
	echo "$n"
}

say "building $flavour ($(nproc) jobs), log in $log"
start=$(date +%s)
"${kmake[@]}" "$@" >"$log" 2>&1 </dev/null &
pid=$!
trap 'progress_end; { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || :' EXIT
trap 'exit 130' INT TERM
while kill -0 "$pid" 2>/dev/null; do
	progress "$flavour: $(steps) steps, $(tail -n 1 "$log" | cut -c1-60)"
	sleep 1
done
wait "$pid" || fail
trap - EXIT
progress_end
# make asks again after a change of a Kconfig file, and drops what can no longer be.
mv "$out/.wanted" "$out/.wanted.new"
took "$out/.wanted.new"
mv "$out/.wanted.new" "$out/.wanted"
n=$(grep -cE '^  [A-Z]+ ' "$log" || :)
[ "$n" -le "$(cat "$out/.steps" 2>/dev/null || echo 0)" ] || echo "$n" >"$out/.steps"
say "$flavour built in $(($(date +%s) - start)) s"
exit 0
}
