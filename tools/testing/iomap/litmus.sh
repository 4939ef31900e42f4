#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Does what is ordered by hand hold in the memory model of the kernel? Runs herd7 on each of
# litmus/*.litmus, and on its mutants: a line "(* mutant: EDIT *)" there is an edit for sed -z, after
# which the test must fail. One that still passes could not fail at all.
#
#   HERD7=   herd7, if it is not in PATH; its folder "libdir" is used if there is one beside it
#   KSRC=    your own kernel tree, for the model
#
# A test passes if its outcome never happens and herd7 flags nothing, such as a data race of plain
# accesses. The last line is "N passed, N failed".
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

HERD7=${HERD7:-herd7}
# As in common.sh.
binary=$(command -v "${HERD7/#\~\//$HOME/}") ||
	die "there is no $HERD7: install it (opam install herdtools7), or say where it is with HERD7="
binary=$(realpath "$binary")
herd7=("$binary" -conf linux-kernel.cfg)
[ ! -d "${binary%/*}/libdir" ] || herd7+=(-set-libdir "${binary%/*}/libdir")

# We change nothing of the model, so it needs no tree with our files.
[ -n "$KSRC" ] || [ -e "$SRC/.stamp" ] || "$IOMAP_DIR/source.sh"
model=${KSRC:-$SRC}/tools/memory-model
[ -e "$model/linux-kernel.cfg" ] || die "there is no $model/linux-kernel.cfg"
cd "$model"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Says "Never" if the test $1 passes, else what happens.
judge()
{
	local said

	said=$("${herd7[@]}" "$1" 2>&1) || :
	grep -q '^Observation ' <<<"$said" || die "herd7 cannot run ${1##*/}: $(head -n 1 <<<"$said")"
	awk '/^Flag / { print $2 } /^Observation / { print $3 }' <<<"$said" | paste -sd ' '
}

passed=0 failed=0
for test in "$IOMAP_DIR"/litmus/*.litmus; do
	name=$(basename "$test" .litmus) n=0 why=
	sed '/^(\* mutant: /d' "$test" >"$work/$name"
	verdict=$(judge "$test")
	[ "$verdict" = Never ] || why=$verdict
	while IFS= read -r edit; do
		n=$((n + 1))
		sed -z "$edit" "$work/$name" >"$work/$name-$n"
		verdict=$(judge "$work/$name-$n")
		[ "$verdict" != Never ] || why+="${why:+; }it does not notice $edit"
	done < <(sed -n 's/^(\* mutant: \(.*\) \*)$/\1/p' "$test")
	[ $n -gt 0 ] || why+="${why:+; }it has no mutant"
	if [ -z "$why" ]; then
		echo "ok $name ($n mutants fail)"
		passed=$((passed + 1))
	else
		echo "FAIL $name: $why"
		failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
