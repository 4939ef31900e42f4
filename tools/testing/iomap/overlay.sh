#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Puts our files and patches into a kernel tree, and takes them out again.
#
#   overlay.sh apply TREE              once, into a user's tree
#   overlay.sh unapply TREE            the tree as it was
#   overlay.sh sync TREE [PATCHDIR...] make a tree of our own match the checkout (and more patches),
#                                      touching only what changes, so that builds stay incremental
#   overlay.sh try TREE                would it apply, without fuzz? Changes nothing.
#
# TREE/.iomap-dio-rust remembers what was done: "new" and "patched" list files, "orig/" holds the
# patched ones as they were, "sums" what we made of them.
# All of the result is made beside the tree first; only then is the tree touched.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cmd=${1:-} tree=${2:-}
[ -n "$tree" ] || die "which kernel tree? make ${cmd:-apply} KSRC=/path/to/linux"
tree=${tree/#\~\//$HOME/}
shift 2
[ -d "$tree" ] || die "$tree is no directory: make ${cmd:-apply} KSRC=/path/to/linux"
tree=$(realpath "$tree")
state=$tree/.iomap-dio-rust

# The files that we add, as paths in the tree.
new_files()
{
	local d

	cd "$OVERLAY"
	for d in fs rust samples include Documentation; do
		[ ! -d "$d" ] || find "$d" -type f ! -name '*.o' \( ! -name '.*' -o -name .kunitconfig \) ! -name '*~' ! -name '*.orig' ! -name '*.rej'
	done | sort
}

patches()
{
	local d

	for d in "$OVERLAY/patches" "$@"; do
		[ ! -d "$d" ] || find "$d" -maxdepth 1 -name '*.patch' | sort
	done
}

# The files of the tree that the patches named on stdin change.
touched_files()
{
	xargs -r -d '\n' sed -n 's,^+++ b/\([^	]*\).*,\1,p' | sort -u
}

# Make $work/want/ hold every file as it is to be. Says which patch and which file if it cannot.
make_want()
{
	local f p out

	mkdir -p "$work/want" "$work/orig"
	new_files >"$work/new"
	patches "$@" >"$work/patches"
	touched_files <"$work/patches" >"$work/patched"
	while read -r f; do
		mkdir -p "$work/want/$(dirname "$f")" "$work/orig/$(dirname "$f")"
		if [ -e "$state/orig/$f" ]; then
			cp -p "$state/orig/$f" "$work/orig/$f"
		elif [ -e "$tree/$f" ]; then
			cp -p "$tree/$f" "$work/orig/$f"
		else
			p=$(xargs -d '\n' grep -l -F "+++ b/$f" <"$work/patches" | head -n 1)
			die "${p#"$PROJECT/"} changes $tree/$f, which does not exist; nothing was changed"
		fi
		cp -p "$work/orig/$f" "$work/want/$f"
	done <"$work/patched"
	while read -r p; do
		out=$(patch -p1 -N --no-backup-if-mismatch ${fuzz:+"$fuzz"} -r - -d "$work/want" <"$p" 2>&1) ||
			die "${p#"$PROJECT/"} does not apply to $tree/$(sed -n '/^patching file/{s///;h};/FAILED\|ignored\|malformed/{x;p;q}' <<<"$out" | tr -d " '"); nothing was changed"
	done <"$work/patches"
	while read -r f; do
		[ ! -e "$work/want/$f" ] || die "$f is both a file of ours and the object of a patch"
		if [ -e "$tree/$f" ] && ! grep -qxF "$f" "$state/new" 2>/dev/null; then
			die "$tree/$f exists already, and we would overwrite it; nothing was changed"
		fi
		mkdir -p "$work/want/$(dirname "$f")"
		cp -p "$OVERLAY/$f" "$work/want/$f"
	done <"$work/new"
}

# Replace, never write into: the file may be a hard link into the pristine source.
put()
{
	mkdir -p "$(dirname "$2")"
	cp "$1" "$2.iomap-tmp"
	chmod --reference="$1" "$2.iomap-tmp"
	mv -f "$2.iomap-tmp" "$2"
}

# What a build leaves beside a source file.
remove_objects()
{
	local dir base

	dir=$(dirname "$1") base=$(basename "$1")
	base=${base%.*}
	(cd "$tree/$dir" 2>/dev/null && rm -f "$base".{o,ko,rsi,mod,mod.c,mod.o,i,s,ll} ".$base".*.cmd) || :
}

# Directories that only we need, deepest first, go with what a build left in them.
remove_empty_dirs()
{
	local d

	sed 's,/[^/]*$,,' | awk -F/ '{ p = $1; for (i = 2; i <= NF; i++) { p = p "/" $i; print p } }' |
		sort -ru | while read -r d; do
		[ -d "$tree/$d" ] || continue
		if [ -z "$(find "$tree/$d" -mindepth 1 ! -name '.*.cmd' ! -name built-in.a ! -name modules.order -print -quit)" ]; then
			rm -rf "${tree:?}/$d"
		fi
	done
}

# The patched files go back to what they were, with a new time so that make sees the change.
undo()
{
	local f

	while read -r f; do
		cmp -s "$state/orig/$f" "$tree/$f" || put "$state/orig/$f" "$tree/$f"
	done <"$state/patched"
	while read -r f; do
		rm -f "$tree/$f" "$tree/$f.iomap-tmp"
		remove_objects "$f"
	done <"$state/new"
	remove_empty_dirs <"$state/new"
	rm -rf "$state"
}

commit()
{
	local f

	cat "$work/new" "$work/patched" | while read -r f; do
		cmp -s "$work/want/$f" "$tree/$f" || put "$work/want/$f" "$tree/$f"
	done
}

save_state()
{
	mkdir -p "$work/state"
	mv "$work/orig" "$work/new" "$work/patched" "$work/state/"
	(cd "$work/want" && xargs -r -d '\n' sha256sum <"$work/state/patched") >"$work/state/sums"
	# Known to git, this is nothing of the user's.
	echo '*' >"$work/state/.gitignore"
	rm -rf "$state"
	cp -a "$work/state" "$state.tmp"
	mv "$state.tmp" "$state"
	ln "$work/state/new" "$work/state/patched" "$work/"
}

check_version "$tree"
need_tool patch patch
work=$(mktemp -d)
trap 'rm -rf "$work" "$state.tmp"' EXIT
trap 'exit 130' INT TERM

case $cmd in
apply)
	[ ! -e "$state" ] || die "$tree already has the patches in it: 'make unapply KSRC=$tree' takes them out"
	make_want
	save_state
	# From here on there is something to undo.
	trap '[ -e "$work/done" ] || undo; rm -rf "$work"' EXIT
	commit
	touch "$work/done"
	say "applied $(wc -l <"$work/patches") patches and $(wc -l <"$work/new") new files to $tree"
	;;
unapply)
	[ -e "$state" ] || die "$tree has no patches of ours in it: nothing to undo"
	if [ -z "${FORCE:-}" ] && ! (cd "$tree" && sha256sum --quiet -c "$state/sums") >"$work/out" 2>/dev/null; then
		die "$tree/$(head -n 1 "$work/out" | cut -d: -f1) was changed after the patches: save your change, then 'make unapply FORCE=1' restores the original"
	fi
	undo
	say "$tree is as it was"
	;;
sync)
	make_want "$@"
	# What is ours no longer goes first.
	if [ -e "$state" ]; then
		comm -23 "$state/new" "$work/new" | while read -r f; do rm -f "$tree/$f"; done
		comm -23 "$state/patched" "$work/patched" | while read -r f; do put "$state/orig/$f" "$tree/$f"; done
	fi
	save_state
	commit
	;;
try)
	fuzz=-F0
	make_want "$@"
	say "$(wc -l <"$work/patches") patches apply to $tree"
	;;
*)
	die "usage: $0 apply|unapply|sync|try TREE"
	;;
esac
