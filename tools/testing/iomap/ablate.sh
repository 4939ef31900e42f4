#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Where does the saving come from? Counts the instructions of C and Rust, and of Rust without each of
# the measures of bench/ablations.py, in copies of the checkout.
#
# Results go to results/<time>-bench/, and results/latest points there.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
# A tree and a build of their own, made from the copy: see common.sh.
export IOMAP_OVERLAY=ablate
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
rows="${FS:-ext4 xfs} ${IO:-registered read overwrite fallocated log-unwritten} ${BS:-4k 16k}"
need_root "$@"
run_python bench/rows.py --machine=qemu "--find=$rows" >/dev/null || exit 1
need_tool patch patch
lock ablate

work=$CACHE/$IOMAP_OVERLAY
rm -rf "$work"
mapfile -t names < <(run_python bench/ablations.py names)
wait $!
# All now: what does not apply is known before anything is built.
for name in "${names[@]}"; do
	mkdir -p "$work/$name"
	cp -a "$PROJECT"/{fs,rust,Documentation,patches} "$work/$name/"
	run_python bench/ablations.py apply "$name" "$work/$name"
done
i=0 sides=c,rust raw="raw "
for name in "${names[@]}"; do
	i=$((i + 1))
	say "$i/${#names[@]} $name"
	rm -rf "$work/overlay"
	mv "$work/$name" "$work/overlay"
	"$IOMAP_DIR/count.sh" ablate "$name" "$sides" "$raw$rows"
	# The other variants are compared with these.
	sides=rust raw=
done
exit 0
}
