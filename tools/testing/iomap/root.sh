#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Makes the toolchain root: a Debian tree with the compilers of file "pins", and what guests run.
# Does nothing when the one in the cache was made from the same pins.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_root "$@"

# Whose root it is matters: seen by another user, its set-uid programs are not root's.
stamp=$(cat "$IOMAP_DIR/pins" "$IOMAP_DIR/root.sh" | sha256sum | cut -d' ' -f1)-$EUID
[ "$(cat "$ROOT/.stamp" 2>/dev/null)" != "$stamp" ] || exit 0

lock root
[ "$(cat "$ROOT/.stamp" 2>/dev/null)" != "$stamp" ] || exit 0
need_space 6 "making the toolchain root, with a kernel"
need_tool mmdebstrap mmdebstrap
log=$CACHE/root.log new=$CACHE/root.tmp old=$CACHE/root.old

# Files in the root belong to several users, so that it takes root (of the namespace) to remove it.
remove()
{
	"${NAMESPACE[@]}" rm -rf --one-file-system "$@"
}
child=
trap 'progress_end; { [ -z "$child" ] || kill -KILL "$child" && wait "$child"; } 2>/dev/null || :; remove "$new" "$old"' EXIT
trap 'exit 130' INT TERM
remove "$new" "$old"

# Show the last thing the log says while the last background command runs.
watch()
{
	local what=$1

	child=$!
	while kill -0 "$child" 2>/dev/null; do
		progress "$what: $(tail -c 300 "$log" | tr '\r' '\n' | grep -v '^[[:space:]]*$' | tail -n 1 | cut -c1-60)"
		sleep 1
	done
	progress_end
	wait "$child" || return 1
	child=
}

: >"$log"
say "making the toolchain root (Debian $DEBIAN_SUITE, LLVM $LLVM_MAJOR): about 3 minutes, log in $log"

# Backports rank as high as the release, so that the newest of the two wins. The next release ranks
# below, but for what is wanted from it.
pin='mkdir -p "$1/etc/apt/preferences.d"
printf "Package: %s\nPin: release n=%s\nPin-Priority: %s\n\n" "*" '$DEBIAN_BACKPORTS' 500 "*" '$DEBIAN_NEXT' 100 \
	"'$ROOT_NEXT_PACKAGES'" '$DEBIAN_NEXT' 900 >"$1/etc/apt/preferences.d/suites"'
# shellcheck disable=SC2086 # the lists are lists
packages=$(printf '%s,' $ROOT_BUILD_PACKAGES $ROOT_LINT_PACKAGES $ROOT_GUEST_PACKAGES $ROOT_NEXT_PACKAGES)
"${NAMESPACE[@]}" mmdebstrap --mode=root --variant=apt --components=main \
	--aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "3"' \
	--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--setup-hook="$pin" --include="${packages%,}" "$DEBIAN_SUITE" "$new" \
	"deb $DEBIAN_MIRROR $DEBIAN_SUITE main" "deb $DEBIAN_MIRROR $DEBIAN_BACKPORTS main" \
	"deb $DEBIAN_MIRROR $DEBIAN_NEXT main" \
	>>"$log" 2>&1 </dev/null &
watch "packages" || die "mmdebstrap failed: $(grep -E '^E: ' "$log" | head -n 1); see $log"

in_root_words "$new"
"${NAMESPACE[@]}" touch "$new/etc/resolv.conf"
"${IN_ROOT[@]}" cargo install bindgen-cli --version "$BINDGEN_VERSION" --locked --root /usr/local \
	>>"$log" 2>&1 </dev/null &
watch "bindgen" || die "bindgen $BINDGEN_VERSION could not be built: $(grep -m 1 '^error' "$log"); see $log"
"${NAMESPACE[@]}" rm -rf "$new/root/.cargo"
"${IN_ROOT[@]}" pip install --break-system-packages --root-user-action=ignore --no-cache-dir --no-deps \
	--cert=/etc/ssl/certs/ca-certificates.crt "ruff==$RUFF_VERSION" >>"$log" 2>&1 </dev/null ||
	die "ruff $RUFF_VERSION could not be installed: $(grep -m 1 '^ERROR' "$log"); see $log"

case $("${IN_ROOT[@]}" rustc --version) in
"rustc $RUSTC_VERSION".*) ;;
*) say "the root has $("${IN_ROOT[@]}" rustc --version); the budget was checked with $RUSTC_VERSION (file pins)" ;;
esac
[ "$("${IN_ROOT[@]}" rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')" = "$LLVM_MAJOR" ] ||
	die "rustc and clang-$LLVM_MAJOR in the root use different LLVMs: adjust LLVM_MAJOR in $IOMAP_DIR/pins"

"${NAMESPACE[@]}" sh -c 'echo "$2" >"$1/.stamp"' sh "$new" "$stamp"
# Something may still run in the old one.
[ ! -e "$ROOT" ] || "${NAMESPACE[@]}" mv "$ROOT" "$old"
"${NAMESPACE[@]}" mv -T "$new" "$ROOT"
say "toolchain root ready"
