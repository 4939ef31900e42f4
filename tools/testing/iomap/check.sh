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
checks=("${lint[@]}" patches flags build panicking variant attack exports c-free off none)
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

our_files()
{
	(cd "$PROJECT" && find fs rust samples -type f -name "$1" 2>/dev/null | sort)
}

wants()
{
	name=$1 log=$logs/$1.log
	[[ " ${only[*]} " == *" $1 "* ]]
}

nm()
{
	in_root "llvm-nm-$LLVM_MAJOR" "$@" 2>/dev/null </dev/null
}

# Messages of compilers about our files, which are at their place in the tree.
about_ours()
{
	local f

	for f in $(our_files '*.rs') $(our_files '*.[ch]'); do
		grep -anF "$f:" "$1" || :
	done | grep -aE 'warning|error|-->' || :
}

"$IOMAP_DIR/root.sh"
"$IOMAP_DIR/source.sh"
tree=/cache/${TREE##*/}
build=/cache/${BUILD##*/}

# A tool that says a line for each thing it finds in our scripts, all of which are shown.
look()
{
	if in_root sh -ec "cd /project/tools/testing/iomap; $1" >"$log" 2>&1 </dev/null; then
		ok
	else
		sed 's/^/    /' "$log" >&2
		fail "$(head -n 1 "$log")"
	fi
}

if wants shellcheck; then
	look 'shellcheck -x -f gcc $(grep -rlE "^#!/bin/(ba)?sh|^# shellcheck shell=" . ../../../.ci)'
fi

if wants ruff; then
	look 'ruff check --quiet --no-cache .'
fi

# A folder at a time, since two of them have a report.py.
if wants mypy; then
	look 'for d in $(find . -name "*.py" -printf "%h\n" | sort -u); do
		mypy --no-error-summary --cache-dir=/cache/check/mypy $d/*.py || failed=1
	done; [ -z "$failed" ]'
fi

if wants patches; then
	if "$IOMAP_DIR/overlay.sh" try "${KSRC:-$SRC}" >"$log" 2>&1; then
		ok "$(find "$PROJECT/patches" -name '*.patch' | wc -l) in order, without fuzz"
	else
		fail "$(tail -n 1 "$log")"
	fi
fi

if wants rustfmt; then
	mapfile -t files < <(our_files '*.rs'; cd "$PROJECT" && find tools -name '*.rs')
	if in_root rustfmt --check --edition 2021 --config-path "$tree/.rustfmt.toml" "${files[@]/#//project/}" >"$log" 2>&1 </dev/null; then
		ok "${#files[@]} files"
	else
		fail "$(grep -c '^Diff in' "$log") places differ, see $log"
	fi
fi

if wants checkpatch; then
	# Author and sign-off are added when a series is sent.
	mapfile -t files < <(our_files '*.[ch]'; our_files '*.rs'; our_files Kconfig)
	: >"$log"
	(cd "$PROJECT" && find patches -name '*.patch' | sort) | while read -r p; do
		in_root perl "$tree/scripts/checkpatch.pl" "--root=$tree" --no-signoff --terse --show-types \
			--ignore FILE_PATH_CHANGES,NOT_UNIFIED_DIFF,EMAIL_SUBJECT "/project/$p" </dev/null || :
	done >>"$log" 2>&1
	in_root perl "$tree/scripts/checkpatch.pl" "--root=$tree" --terse --show-types --ignore FILE_PATH_CHANGES \
		-f "${files[@]/#//project/}" >>"$log" 2>&1 </dev/null || :
	errors=$(grep -c ' ERROR:' "$log" || :)
	if [ "$errors" -eq 0 ] && grep -q '^total:' "$log"; then
		ok "$(grep -c ' WARNING:' "$log" || :) warnings"
	else
		fail "$errors errors, the first: $(grep -m 1 ' ERROR:' "$log" || tail -n 1 "$log")"
	fi
fi

if wants unsafe; then
	# Comments do not count.
	count()
	{
		local code

		code=$(cat "$@" | sed 's,//.*,,')
		echo "$(grep -cE '\bunsafe *\{' <<<"$code") blocks + $(grep -cE '\bunsafe +[a-z]' <<<"$code") fn/impl"
	}
	mapfile -t inner < <(find "$PROJECT/fs/iomap/direct_io" "$PROJECT/fs/iomap/tests" -name '*.rs' 2>/dev/null)
	mapfile -t outer < <(find "$PROJECT/rust" -name '*.rs')
	bad=$(grep -nE '\bunsafe\b' "${inner[@]}" | grep -vE ':[0-9]+:\s*//' | head -n 1 || :)
	if [ -z "$bad" ]; then
		ok "fs/iomap/direct_io.rs $(count "$PROJECT/fs/iomap/direct_io.rs"), fs/iomap/direct_io/ none, rust/kernel/ $(count "${outer[@]}")"
	else
		fail "${bad#"$PROJECT/"}"
	fi
fi

if wants flags; then
	sed -nE 's/^#define[[:space:]]+(IOMAP_[A-Z_]+|IOCB_[A-Z_]+)[[:space:]].*/\1/p' \
		"$TREE/include/linux/iomap.h" "$TREE/include/linux/fs.h" | sort -u >"$log.tree"
	grep -oE '^IO[A-Z_]+' "$IOMAP_DIR/known-flags" | sort -u >"$log.known"
	new=$(comm -23 "$log.tree" "$log.known" | head -n 1)
	gone=$(comm -13 "$log.tree" "$log.known" | head -n 1)
	if [ ! -s "$log.tree" ]; then
		fail "include/linux/iomap.h has no flags"
	elif [ -n "$new" ]; then
		fail "$new is new in $(cd "$TREE" && grep -lwE "define[[:space:]]+$new" include/linux/iomap.h include/linux/fs.h | head -n 1): decide what rust/kernel/iomap/flags.rs and fs/iomap/direct_io/ do with it, then add it to tools/testing/iomap/known-flags"
	elif [ -n "$gone" ]; then
		fail "$gone is in tools/testing/iomap/known-flags, but no longer in include/linux/iomap.h or fs.h"
	else
		ok "$(wc -l <"$log.tree") names"
	fi
fi

# One build with every warning on serves several checks.
if wants clippy || wants build || wants panicking || wants variant || wants attack || wants exports || wants c-free; then
	name=build log=$logs/build.log
	# A file that is not compiled warns of nothing.
	rm -f "$BUILD"/check-rust/{rust/kernel.o,rust/helpers/helpers.o,fs/iomap/direct_io*.o}
	if NO_SYNC=1 "$IOMAP_DIR/build.sh" check-rust CLIPPY=1 W=1 prepare fs/iomap/ >"$log" 2>&1; then
		! wants build || ok "IOMAP_DIO_RUST=y IOMAP_DIO_COMPARE=n"
		cp "$BUILD/check-rust/build.log" "$logs/clippy.log"
	else
		fail "the kernel crate or fs/iomap/ does not build, see $log"
	fi
	dir=$build/check-rust/fs/iomap
	if wants clippy; then
		warnings=$(about_ours "$logs/clippy.log")
		if [ -z "$warnings" ]; then ok "CLIPPY=1 W=1"; else fail "$(head -n 1 <<<"$warnings"), see $log"; fi
	fi
	if wants panicking; then
		nm --demangle "$dir/direct_io.o" >"$log" || :
		bad=$(grep -E '^ +U .*panic' "$log" | sed 's/.* U //' | sort -u | head -n 1 || :)
		# Of the kernel crate only what is ours: its functions, by what their code refers to.
		in_root "llvm-objdump-$LLVM_MAJOR" -dr --demangle "$build/check-rust/rust/kernel.o" 2>/dev/null </dev/null |
			awk '/^[0-9a-f]+ <.*>:$/ { ours = /kernel::(iomap|block::(bdev|bio|buffer|plug)|fs::inode|iov::iter|task::may_sleep)::/; f = $0 } ours { n++ } ours && /R_.*panic/ { print f, $NF }
				END { print n + 0, "lines" }' >"$log.kernel" || :
		: "${bad:=$(grep -v ' lines$' "$log.kernel" | head -n 1 | sed 's/^[0-9a-f]* //')}"
		if [ -z "$bad" ] && grep -q 'T .*iomap_dio' "$log" && grep -qE '^[1-9][0-9]+ lines$' "$log.kernel"; then
			ok "neither direct_io.o nor our parts of the kernel crate refer to core::panicking"
		else
			fail "direct_io.o or our part of the kernel crate refers to ${bad:-nothing at all}"
		fi
	fi
	for check in variant attack; do
		wants $check || continue
		if said=$(in_root python3 -B "/project/tools/testing/iomap/$check.py" /project "$build/check-rust" 2>&1 </dev/null); then
			ok "$said"
		else
			fail "$said"
		fi
	done
	if wants exports; then
		bad=
		nm -a "$dir/built-in.a" >"$log" || :
		# shellcheck disable=SC2013 # one word a line
		for s in $(sed -n 's/^EXPORT_SYMBOL_GPL(\(.*\));/\1/p' "$TREE/fs/iomap/direct-io.c"); do
			grep -qw "__export_symbol_$s" "$log" || bad+=" $s is not exported;"
			# #[export] makes rustc compare the signature with the one in the C header.
			grep -B 3 -E "fn (rust_)?$s\b" "$PROJECT/fs/iomap/direct_io.rs" | grep -cE '#\[(cfg_attr\(not\(CONFIG_IOMAP_DIO_COMPARE\), )?export\)?\]' >/dev/null || bad+=" $s has no #[export];"
		done
		if [ -z "$bad" ]; then ok; else fail "$bad"; fi
	fi
fi

if wants off || wants c-free; then
	name=off log=$logs/off.log
	if NO_SYNC=1 "$IOMAP_DIR/build.sh" check-off prepare fs/iomap/ >"$log" 2>&1; then
		! wants off || ok "IOMAP_DIO_RUST=n"
	else
		fail "IOMAP_DIO_RUST=n does not build, see $log"
	fi
	if wants c-free; then
		# The functions of the C file, save for those that the Rust one has as well.
		nm "$build/check-off/fs/iomap/direct-io.o" | sed -n 's/.* [tT] //p' | sort -u >"$log.c"
		nm "$build/check-rust/fs/iomap/built-in.a" | sed -n 's/.* [tT] //p' | sort -u >"$log.rust"
		grep -E '^(iomap_|__iomap)' "$log.c" | comm -12 - "$log.rust" >"$log" || :
		bad=$(grep -vE '^(iomap_dio_rw|__iomap_dio_rw|iomap_dio_complete|iomap_dio_bio_end_io|iomap_finish_ioend_direct|__iomap_dio_read_simple)$' "$log" | head -n 1 || :)
		if [ -s "$log.c" ] && [ -s "$log.rust" ] && [ -z "$bad" ] && ! grep -q '^c_' "$log.rust"; then
			ok "without IOMAP_DIO_COMPARE nothing of direct-io.c is built"
		else
			fail "${bad:-a c_ symbol} of direct-io.c is in the build without IOMAP_DIO_COMPARE"
		fi
	fi
fi

if wants none; then
	if NO_SYNC=1 "$IOMAP_DIR/build.sh" check-none prepare fs/iomap/ >"$log" 2>&1; then
		ok "RUST=n"
	else
		fail "RUST=n does not build, see $log"
	fi
fi
exit $failed
