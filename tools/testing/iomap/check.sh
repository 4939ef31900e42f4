#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The checks that need no running kernel. Prints "ok NAME" or "FAIL NAME: why" for each, on stdout,
# and fails if one failed. What the tools said is in $CACHE/check/NAME.log.
#
#   check.sh [NAME...]      these, or all
#   check.sh lint           those of "make lint"
#   check.sh list           says what there is
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The fastest first.
lint=(shellcheck ruff mypy rustfmt unsafe checkpatch clippy)
checks=(shellcheck ruff mypy patches rustfmt unsafe flags catalogue checkpatch
	clippy build panicking attack exports c-free off none)
# The builds that a check looks at: Rust alone, Rust without our option, no Rust (see build.sh).
declare -A needs=([clippy]=rust [build]=rust [panicking]=rust [attack]=rust [exports]=rust
	[c-free]="rust off" [off]="rust off" [none]=none)
case ${1:-} in
list)
	printf '%s\n' "${checks[@]}"
	exit 0
	;;
lint) only=("${lint[@]}") ;;
'') only=("${checks[@]}") ;;
*)
	only=("$@")
	for name; do
		[[ " ${checks[*]} " == *" $name "* ]] || die "there is no check $name, only ${checks[*]}"
	done
	;;
esac
need_root "$@"
# Another one would compile, and take the warnings for its own.
lock check

logs=$CACHE/check
mkdir -p "$logs"
failed=0

ok()
{
	echo "ok $name${1:+ ($1)}"
}

fail()
{
	echo "FAIL $name: $1"
	failed=1
}

# Runs a program in the root, in the folder of this script. The first line that it prints says what it
# has checked, or what is wrong. All of that is shown if there is more.
judge()
{
	if in_root env -C /project/tools/testing/iomap "$@" >"$log" 2>&1 </dev/null; then
		ok "$(head -n 1 "$log")"
	else
		[ "$(wc -l <"$log")" -le 1 ] || sed 's/^/    /' "$log" >&2
		fail "$(head -n 1 "$log")"
	fi
}

# Builds the kernel crate and fs/iomap/ of the flavour check-$1, for all checks that need them.
declare -A built=()
compile()
{
	local name=${1/rust/build} more=() clean=$BUILD/check-rust/.clean

	[ -z "${built[$1]:-}" ] || return "${built[$1]}"
	if [ "$1" = rust ]; then
		more=(CLIPPY=1 W=1)
		# A file that is not compiled warns of nothing, unless all were clean before.
		[ -e "$clean" ] || rm -f "$BUILD"/check-rust/{rust/kernel.o,rust/helpers/helpers.o,fs/iomap/direct_io*.o}
		rm -f "$clean"
	fi
	built[$1]=0
	NO_SYNC=1 "$IOMAP_DIR/build.sh" "check-$1" "${more[@]}" prepare fs/iomap/ >"$logs/$name.log" 2>&1 ||
		{ built[$1]=1 && fail "it does not compile, see $logs/$name.log"; }
	return "${built[$1]}"
}

"$IOMAP_DIR/root.sh"
"$IOMAP_DIR/source.sh"

for name in "${checks[@]}"; do
	[[ " ${only[*]} " == *" $name "* ]] || continue
	log=$logs/$name.log
	for flavour in ${needs[$name]:-}; do
		compile "$flavour" || continue 2
	done
	case $name in
	shellcheck) judge sh -c 'shellcheck -x -f gcc $(grep -rlE "^#!/bin/(ba)?sh|^# shellcheck shell=" . ../../../.ci)' ;;
	ruff) judge ruff check --quiet --no-cache . ;;
	mypy)
		# A folder at a time, since two of them have a report.py.
		judge sh -c 'for d in $(find . -name "*.py" -printf "%h\n" | sort -u); do
			mypy --no-error-summary --cache-dir=/cache/check/mypy $d/*.py || failed=1
		done; mypy --no-error-summary --cache-dir=/cache/check/mypy census || failed=1; [ -z "$failed" ]'
		;;
	patches)
		if "$IOMAP_DIR/overlay.sh" try "${KSRC:-$SRC}" >"$log" 2>&1; then
			ok "$(find "$PROJECT/patches" -name '*.patch' | wc -l) in order, without fuzz"
		else
			fail "$(tail -n 1 "$log")"
		fi
		;;
	build) ok "IOMAP_DIO_RUST=y IOMAP_DIO_COMPARE=n" ;;
	none) ok "RUST=n" ;;
	catalogue) judge python3 -B catalogue/catalogue.py /project ;;
	*) judge python3 -B check.py "$name" /project "/cache/${TREE##*/}" "/cache/${BUILD##*/}" "$LLVM_MAJOR" ;;
	esac
done
exit $failed
