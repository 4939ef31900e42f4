#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# "make series": the mails of the series, a cover letter and what patches/ and the new files make together, from
# whom git says you are. Nothing is sent.
#
#   SERIES=c      only the patches that are good without Rust, as a series of their own
#   SIGNOFF=1     with your Signed-off-by
#   OUT=dir       there, instead of results/<time>-series/, to which results/latest-series points
#
# cover.txt is the cover letter as a branch description, which git and b4 take; checkpatch.txt is what
# checkpatch says. Fails if that has errors. "make matrix ONLY=series" builds each of the patches.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$IOMAP_DIR/results.sh"
. "$IOMAP_DIR/branch.sh"

series=${SERIES:-all}
need_tool git git
# Under sudo, git would know root.
if [ -z "${IOMAP_SENDER:-}" ]; then
	IOMAP_SENDER=$(git -c user.useConfigOnly=true var GIT_COMMITTER_IDENT 2>/dev/null) ||
		die "git does not know who you are: set user.name and user.email with 'git config --global'"
	export IOMAP_SENDER=${IOMAP_SENDER%>*}\>
fi
if [ -n "${OUT:=}" ]; then
	OUT=$(realpath -m "${OUT/#\~\//$HOME/}")
	[ -z "$(ls -A "$OUT" 2>/dev/null)" ] || die "OUT=$OUT is not empty: take another directory"
	export OUT
fi
need_root "$@"
mapfile -t chosen < <(run_python cover.py patches "$series")
wait $! || exit 1

"$IOMAP_DIR/root.sh"
lock series
work=$CACHE/series tree=$CACHE/series/tree mails=$CACHE/series/mails
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
rm -rf "$work"
mkdir -p "$mails"
checkout=$PROJECT
if [ "$series" != all ]; then
	checkout=$work/checkout
	mkdir -p "$checkout/patches"
	cp "${chosen[@]}" "$checkout/patches"
fi
say "making commits of ${#chosen[@]} patches"
export GIT_COMMITTER_NAME=${IOMAP_SENDER% <*} GIT_COMMITTER_EMAIL=${IOMAP_SENDER##*<}
GIT_COMMITTER_EMAIL=${GIT_COMMITTER_EMAIL%>}
export GIT_AUTHOR_NAME=$GIT_COMMITTER_NAME GIT_AUTHOR_EMAIL=$GIT_COMMITTER_EMAIL
make_base "$tree" "$checkout"
COMMIT=1 "$IOMAP_DIR/overlay.sh" --from "$checkout" apply "$tree" >"$work/log" 2>&1 || die "$(sed -n '$s/^error: //p' "$work/log")"

run_python cover.py text "$series" >"$mails/cover.txt"
"${git[@]}" config branch.iomap-dio-rust.description "$(cat "$mails/cover.txt")"
signoff=()
! is_on "${SIGNOFF:-}" || signoff=(--signoff)
"${git[@]}" format-patch -q -o "$mails" "--from=$IOMAP_SENDER" --zero-commit --cover-letter \
	--cover-from-description=subject "${signoff[@]}" base..iomap-dio-rust

# Who maintains a new file is said by the last mails.
in_root sh -c 'cd /cache/series/mails && perl ../tree/scripts/checkpatch.pl --root=../tree --terse --show-types \
	--ignore FILE_PATH_CHANGES $(ls | grep "^[0-9]*-.*patch" | grep -v ^0000)' >"$mails/checkpatch.txt" 2>&1 </dev/null ||
	grep -q '^total:' "$mails/checkpatch.txt" || die "checkpatch did not run: $(head -n 1 "$mails/checkpatch.txt")"
errors=$(grep -c ' ERROR:' "$mails/checkpatch.txt" || :)
warnings=$(sed -nE 's/.* WARNING:([A-Z_]+):.*/\1/p' "$mails/checkpatch.txt" | sort | uniq -c | sort -rn | xargs)
unsigned=$(grep -LF "Signed-off-by: $IOMAP_SENDER" "$mails"/*-*.patch | grep -v /0000- || :)

if [ -n "$OUT" ]; then
	{ mkdir -p "$OUT" && cp "$mails"/* "$OUT"/; } 2>/dev/null || die "cannot write to $OUT"
	give_back "$OUT"
	say "results: $OUT/"
else
	publish series
	cp "$mails"/* "$PROJECT/$results/"
	published
fi
echo "${#chosen[@]} patches and a cover letter from $IOMAP_SENDER; checkpatch: $errors errors, warnings: ${warnings:-none}"
[ -z "$unsigned" ] || echo "They lack your Signed-off-by: SIGNOFF=1 adds it."
echo "make matrix ONLY=series builds each of them."
[ "$errors" -eq 0 ]
exit
}
