#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Puts our files and patches into a kernel tree, and takes them out again.
#
#   overlay.sh apply TREE          once, into a user's tree; with COMMIT=1 as commits
#   overlay.sh unapply TREE        the tree as it was
#   overlay.sh sync TREE [DIR...]  make a tree of our own match the checkout, and each DIR with more patches
#                                  and files, touching only what changes, so that builds stay incremental
#   overlay.sh try TREE            would it apply, without fuzz? Changes nothing.
#
# TREE/.iomap-dio-rust remembers what was done: "new" and "patched" list files, "orig/" holds the
# patched ones as they were, "sums" what we made of them.
# All of the result is made beside the tree first; only then is the tree touched.
#
# With COMMIT=1 each patch becomes a commit, by git am, together with the files that its line "New files:"
# names. The commits before the first and at the last are the references "base" and "head" below
# refs/worktree/iomap-dio-rust/.
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

	for d in "$OVERLAY" "$@"; do
		(cd "$d" && find fs rust samples Documentation -type f \( ! -name '.*' -o -name .kunitconfig \) \
			! -name '*.o' ! -name '*~' ! -name '*.orig' ! -name '*.rej' 2>/dev/null) || :
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
	local f p d out

	mkdir -p "$work/want" "$work/orig"
	new_files "$@" >"$work/new"
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
		for d in "$OVERLAY" "$@"; do
			[ ! -e "$d/$f" ] || cp -p "$d/$f" "$work/want/$f"
		done
	done <"$work/new"
}

# $work/with says with which patch each new file is committed: the one that names it, or the deepest
# directory above it.
assign_new()
{
	local patches out

	mapfile -t patches <"$work/patches"
	awk -v new="$work/new" '
		FILENAME != new {
			if (/^New files: /)
				for (i = 3; i <= NF; i++)
					patch[$i] = FILENAME
			next
		}
		{
			longest = ""
			for (name in patch)
				if (($0 == name || (name ~ /\/$/ && index($0, name) == 1)) && length(name) > length(longest))
					longest = name
			print patch[longest] "\t" $0
		}' "${patches[@]}" "$work/new" >"$work/with"
	! out=$(grep -m 1 $'^\t' "$work/with") ||
		die "${out#$'\t'} is a new file that no patch names in its line 'New files:'; nothing was changed"
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

in_git()
{
	git -C "$tree" -c core.hooksPath=/dev/null -c core.autocrlf=false -c commit.gpgSign=false \
		-c am.threeWay=true -c apply.whitespace=nowarn "$@"
}

# Is the tree one that commits can be made in, and taken back?
check_git()
{
	local out top dir f

	need_tool git git
	top=$(in_git rev-parse --show-toplevel 2>"$work/out") ||
		die "COMMIT=1 needs a git tree, and git says of $tree: $(head -n 1 "$work/out")"
	[ "$(realpath "$top")" = "$tree" ] || die "$tree is not the top of its git tree: make apply COMMIT=1 KSRC=$top"
	in_git rev-parse -q --verify HEAD >/dev/null || die "$tree has no commit yet, and COMMIT=1 needs one to start from"
	dir=$(in_git rev-parse --absolute-git-dir)
	for f in index.lock rebase-apply rebase-merge MERGE_HEAD; do
		[ ! -e "$dir/$f" ] || die "$dir/$f says that git is busy in $tree: finish that first; nothing was changed"
	done
	out=$(in_git status --porcelain --untracked-files=no | head -n 1)
	[ -z "$out" ] || die "$tree/${out:3} has a change that is not committed: commit or stash it first; nothing was changed"
	in_git -c user.useConfigOnly=true var GIT_COMMITTER_IDENT >/dev/null 2>&1 ||
		die "git does not know who you are: set user.name and user.email with 'git config --global'; nothing was changed"
}

# Before "base" is set there is nothing to take back.
roll_back()
{
	local f

	[ -n "${base:-}" ] || return 0
	in_git am --abort >/dev/null 2>&1 || :
	in_git reset -q --hard "$base" || say "could not go back: 'git reset --hard $base' in $tree does"
	while read -r f; do rm -f "$tree/$f" "$tree/$f.iomap-tmp"; done <"$work/new"
	remove_empty_dirs <"$work/new"
}

make_commits()
{
	local p f files

	while read -r p; do
		in_git am -q "$p" >"$work/out" 2>&1 </dev/null ||
			die "git am does not take ${p#"$PROJECT/"} ($(grep -m 1 '^error: ' "$work/out" || head -n 1 "$work/out")); $tree is as it was"
		mapfile -t files < <(awk -F '\t' -v patch="$p" '$1 == patch { print $2 }' "$work/with")
		[ ${#files[@]} -gt 0 ] || continue
		for f in "${files[@]}"; do put "$work/want/$f" "$tree/$f"; done
		in_git add -f -- "${files[@]}"
		in_git commit -q --amend --no-edit
	done <"$work/patches"
	cat "$work/new" "$work/patched" | while read -r f; do
		cmp -s "$work/want/$f" "$tree/$f" || die "git made something else of $tree/$f than patch does; $tree is as it was"
	done
	in_git update-ref refs/worktree/iomap-dio-rust/base "$base"
	in_git update-ref refs/worktree/iomap-dio-rust/head HEAD
}

# The commits that "apply" made last, in $base and $head, if there are any and HEAD still has them.
find_commits()
{
	base=$(in_git rev-parse -q --verify refs/worktree/iomap-dio-rust/base 2>/dev/null) &&
		head=$(in_git rev-parse -q --verify refs/worktree/iomap-dio-rust/head 2>/dev/null) &&
		in_git merge-base --is-ancestor "$head" HEAD
}

undo_commits()
{
	local f

	[ "$(in_git rev-parse HEAD)" = "$head" ] ||
		die "$tree has commits on top of ours: 'git rebase --onto ${base::12} ${head::12}' takes ours from under them; nothing was changed"
	check_git
	in_git diff --name-only --diff-filter=A "$base" "$head" >"$work/new"
	in_git reset -q --hard "$base"
	while read -r f; do remove_objects "$f"; done <"$work/new"
	remove_empty_dirs <"$work/new"
	in_git update-ref -d refs/worktree/iomap-dio-rust/base
	in_git update-ref -d refs/worktree/iomap-dio-rust/head
}

check_version "$tree"
need_tool patch patch
work=$(mktemp -d)
trap 'rm -rf "$work" "$state.tmp"' EXIT
trap 'exit 130' INT TERM

case $cmd in
apply)
	! is_applied "$tree" || die "$tree already has the patches in it: 'make unapply KSRC=$tree' takes them out"
	case ${COMMIT:-} in
	'' | 0 | n) commits= ;;
	*) commits=1 ;;
	esac
	[ -z "$commits" ] || check_git
	make_want
	if [ -n "$commits" ]; then
		assign_new
		trap '[ -e "$work/done" ] || roll_back; rm -rf "$work"' EXIT
		base=$(in_git rev-parse HEAD)
		make_commits
		touch "$work/done"
		say "made $(wc -l <"$work/patches") commits with $(wc -l <"$work/new") new files in $tree, on top of ${base::12}"
		exit
	fi
	save_state
	# From here on there is something to undo.
	trap '[ -e "$work/done" ] || undo; rm -rf "$work"' EXIT
	commit
	touch "$work/done"
	say "applied $(wc -l <"$work/patches") patches and $(wc -l <"$work/new") new files to $tree"
	;;
unapply)
	if [ ! -e "$state" ]; then
		find_commits || die "$tree has no patches of ours in it: nothing to undo"
		undo_commits
		say "$tree is as it was, at ${base::12}"
		exit
	fi
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
	assign_new
	said="$(wc -l <"$work/patches") patches apply to $tree"
	# And as commits, to a tree of no more files than they change.
	if command -v git >/dev/null; then
		tree=$work/tree
		cp -a "$work/orig" "$tree"
		export GIT_{AUTHOR,COMMITTER}_NAME=try GIT_{AUTHOR,COMMITTER}_EMAIL=try@localhost
		in_git init -q
		in_git add -f -A
		in_git commit -q -m try
		base=$(in_git rev-parse HEAD)
		make_commits
	fi
	say "$said"
	;;
*)
	die "usage: $0 apply|unapply|sync|try TREE"
	;;
esac
