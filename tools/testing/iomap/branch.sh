# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # those who source it use the names
# The patches as commits, for matrix.sh and series.sh. Source it after common.sh.

# make_base TREE CHECKOUT: a copy of the kernel source, which is a git tree of what CHECKOUT/patches change, at
# the tag "base" and the beginning of a branch. $git is git there. Its commits have the names in the environment.
make_base()
{
	git=(git -c core.hooksPath=/dev/null -c commit.gpgSign=false -c advice.detachedHead=false -C "$1")
	need_tool git git
	[ -e "$SRC/.stamp" ] || "$IOMAP_DIR/source.sh"
	rm -rf "$1"
	cp -al "$SRC" "$1"
	"${git[@]}" init -q
	"${git[@]}" symbolic-ref HEAD refs/heads/iomap-dio-rust
	# Only what the patches change.
	sed -n 's,^+++ b/,,p' "$2"/patches/*.patch | sort -u | xargs "${git[@]}" add -f Makefile
	"${git[@]}" commit -q -m base
	"${git[@]}" tag base
}
