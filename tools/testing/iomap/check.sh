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
checks=("${lint[@]}" patches catalogue flags build panicking variant attack exports c-free off none)
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

"$IOMAP_DIR/root.sh"
"$IOMAP_DIR/source.sh"
tree=/cache/${TREE##*/}
build=/cache/${BUILD##*/}

# Runs a linter on our scripts, which prints a line for each finding, and shows all of them.
look()
{
	if in_root sh -ec "cd /project/tools/testing/iomap; $1" >"$log" 2>&1 </dev/null; then
		ok
	else
		sed 's/^/    /' "$log" >&2
		fail "$(head -n 1 "$log")"
	fi
}

# Runs a program of ours, which prints what it checked or what is wrong.
judge()
{
	if in_root python3 -B "/project/tools/testing/iomap/$1" "${@:2}" >"$log" 2>&1 </dev/null; then
		ok "$(cat "$log")"
	else
		fail "$(paste -sd ' ' "$log")"
	fi
}

# Those checks of check.py that are wanted.
judge_all()
{
	local check

	for check; do
		! wants "$check" || judge check.py "$check" /project "$tree" "$build" "$LLVM_MAJOR"
	done
}

# Builds the kernel crate and fs/iomap/ of the flavour check-$1, with more words for make.
compile()
{
	NO_SYNC=1 "$IOMAP_DIR/build.sh" "check-$1" "${@:2}" prepare fs/iomap/ >"$log" 2>&1 ||
		{ fail "it does not compile, see $log" && return 1; }
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
	mapfile -t files < <(our_files '*.[ch]'; our_files '*.rs'; our_files Kconfig)
	: >"$log"
	(cd "$PROJECT" && find patches -name '*.patch' | sort) | while read -r p; do
		in_root perl "$tree/scripts/checkpatch.pl" "--root=$tree" --terse --show-types \
			--ignore FILE_PATH_CHANGES "/project/$p" </dev/null || :
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

judge_all unsafe flags
! wants catalogue || judge catalogue/catalogue.py /project

# One build with every warning on serves several checks.
if wants clippy || wants panicking || wants variant || wants attack || wants exports || wants c-free || wants build; then
	name=build log=$logs/build.log
	# A file that is not compiled warns of nothing, unless all were clean before.
	clean=$BUILD/check-rust/.clean
	[ -e "$clean" ] || rm -f "$BUILD"/check-rust/{rust/kernel.o,rust/helpers/helpers.o,fs/iomap/direct_io*.o}
	rm -f "$clean"
	if compile rust CLIPPY=1 W=1; then
		! wants build || ok "IOMAP_DIO_RUST=y IOMAP_DIO_COMPARE=n"
		if wants clippy; then
			# What compilers say of our files, which are at their place in the tree.
			(our_files '*.rs'; our_files '*.[ch]') | sed 's/$/:/' >"$log.files"
			grep -aF -f "$log.files" "$BUILD/check-rust/build.log" | grep -aE 'warning|error|-->' >"$log" || :
			if [ ! -s "$log" ]; then
				ok "CLIPPY=1 W=1"
				touch "$clean"
			else
				# rustc says what in the line before it says where.
				fail "$(grep -aF -B 1 -m 1 -- "$(head -n 1 "$log")" "$BUILD/check-rust/build.log" |
					sed 's/^ *//' | paste -sd ' '), see $BUILD/check-rust/build.log"
			fi
		fi
		judge_all panicking exports
		! wants variant || judge variant.py /project "$build/check-rust"
		! wants attack || judge attack.py /project "$build/check-rust"
	fi
fi

if wants c-free || wants off; then
	name=off log=$logs/off.log
	if compile off; then
		! wants off || ok "IOMAP_DIO_RUST=n"
		judge_all c-free
	fi
fi

if wants none && compile none; then
	ok "RUST=n"
fi
exit $failed
