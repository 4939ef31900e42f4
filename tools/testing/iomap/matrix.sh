#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# "make matrix": do our parts compile for other machines and with other options? Compiles the kernel
# crate and fs/iomap/ in each configuration of configs/matrix/, every warning an error. Nothing is
# linked or booted.
#
#   ONLY=name         only the configurations whose names match (a glob, or a part of the name);
#                     several with spaces in between
#   KSRC=             your own kernel tree
#
# The second line of a file in configs/matrix/ says what it is. If it has a line "# refused:
# CONFIG_X=y", nothing is compiled: this is what must not come true.
# What the tools said is in $CACHE/matrix/NAME.log. The objects of a configuration, 200 MB, are
# deleted when it has passed. The last line is "N passed, N failed, N skipped".
#
# For "series", "make apply COMMIT=1" makes a branch, and what each commit touches is compiled, one after
# the other, with each option on as soon as there is one.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
. "$IOMAP_DIR/branch.sh"
need_root "$@"

read_only
mapfile -t names < <(basename -s .config "$IOMAP_DIR"/configs/matrix/*.config | run_python only.py "${only[@]}")
wait $!
[ ${#names[@]} -gt 0 ] || die "ONLY=${ONLY:-} matches no configuration of tools/testing/iomap/configs/matrix"

"$IOMAP_DIR/root.sh"
lock matrix
logs=$CACHE/matrix
mkdir -p "$logs"

trap stop INT TERM HUP

# Builds $flavour, or only the targets in the arguments, with what it says in $log, and shows where it is.
build()
{
	rm -f "$BUILD/$flavour/build.log"
	[ $# -gt 0 ] || set -- prepare rust/ fs/iomap/
	"$IOMAP_DIR/build.sh" "$flavour" "$@" >"$log" 2>&1 </dev/null &
	watch_child "$i/${#names[@]} $name" "$BUILD/$flavour/build.log" "$log"
}

# What only linking would tell of the objects of $flavour, if something is wrong with them.
wrong_objects()
{
	local f

	for f in fs/iomap/built-in.a rust/kernel.o; do
		in_root "llvm-nm-$LLVM_MAJOR" -A "/cache/${BUILD##*/}/$flavour/$f" 2>&1 </dev/null || :
	done >"$logs/symbols"
	# On 32 bits the kernel has no such functions, or only one that panics.
	sed -nE "s,.*/$flavour/(.*): +U (__aeabi_u?ldivmod|__u?(div|mod)di3)\$,\1 divides 64 bits (\2),p" "$logs/symbols"
	! grep -qx CONFIG_IOMAP_DIO_RUST=y "$BUILD/$flavour/.config" || grep -q ' T iomap_dio_rw$' "$logs/symbols" ||
		echo "there is no iomap_dio_rw() in fs/iomap/built-in.a"
}

# Builds each commit, in $title how many there are, or in $why what is wrong.
series()
{
	local tree=$CACHE/tree-series BUILD=$CACHE/build-series commit n=0 late=() files targets
	local -x GIT_COMMITTER_NAME=matrix GIT_COMMITTER_EMAIL=matrix@localhost
	local -x GIT_AUTHOR_NAME=matrix GIT_AUTHOR_EMAIL=matrix@localhost

	rm -rf "$BUILD"
	make_base "$tree" "$PROJECT"
	COMMIT=1 "$IOMAP_DIR/overlay.sh" apply "$tree" >"$log" 2>&1 || { why=$(first_error) && return; }
	mapfile -t commits < <("${git[@]}" rev-list --reverse base..) && wait $!
	[ ${#commits[@]} -gt 0 ] || { why="it has no commits" && return; }
	for commit in "${commits[@]}"; do
		n=$((n + 1))
		"${git[@]}" checkout -q "$commit"
		mapfile -t files < <("${git[@]}" diff --name-only "$commit~" "$commit") && wait $!
		mapfile -t targets < <(run_python series.py targets "${files[@]}") && wait $!
		[ ${#targets[@]} -gt 0 ] || continue
		# There is another option to switch on.
		[[ ${files[*]} != *Kconfig* ]] || rm -f "$BUILD/$flavour/.config"
		if ! IOMAP_OVERLAY=series NO_SYNC=1 build "${targets[@]}"; then
			why="commit $n of ${#commits[@]}, $("${git[@]}" log -1 --format='"%s"'): $(first_error)"
			return
		fi
		mapfile -t files < <("${git[@]}" diff --name-only --diff-filter=A "$commit~" "$commit") && wait $!
		mapfile -t -O ${#late[@]} late < <(run_python series.py waiting "$BUILD/$flavour" "${files[@]}") && wait $!
	done
	why=$(run_python series.py waiting "$BUILD/$flavour" "${late[@]}" | sed 's/$/ is compiled by no commit/; q')
	title="$title, ${#commits[@]} commits, ${#late[@]} files compiled by a later one"
	[ -n "$why" ] || rm -rf "$tree" "$BUILD"
}

first_error()
{
	grep -am 1 -E '(^|[^a-z_])error' "$log" || tail -n 1 "$log" | grep . || echo "it failed and said nothing"
}

passed=0 failed=0 skipped=0 i=0
for name in "${names[@]}"; do
	file=$IOMAP_DIR/configs/matrix/$name.config log=$logs/$name.log flavour=matrix-$name
	title=$(sed -n '2s/^# //p' "$file")
	refused=$(sed -n 's/^# refused: //p' "$file")
	i=$((i + 1)) began=$SECONDS why=

	if [ "$name" = series ]; then
		[ -n "$KSRC" ] || series
	elif build; then
		why=$(wrong_objects | tee -a "$log" | head -n 1)
		[ -z "$refused" ] || why="it takes $refused"
	elif [ -z "$refused" ] || ! grep -qF "did not take $refused " "$log"; then
		why=$(first_error)
	fi

	if [ "$name" = series ] && [ -n "$KSRC" ]; then
		echo "skipped $name ($title): it is made on the source from Debian"
		skipped=$((skipped + 1))
	elif [ -z "$why" ]; then
		echo "ok $name ($title; $((SECONDS - began)) s)"
		passed=$((passed + 1))
		rm -rf "${BUILD:?}/$flavour"
	elif [[ $why == *"did not take CONFIG_RUST=y "* && -d $TREE/arch/$name ]] &&
		! grep -q 'select HAVE_RUST' "$TREE/arch/$name/Kconfig"; then
		echo "skipped $name ($title): this kernel has no Rust there, arch/$name/Kconfig does not select HAVE_RUST"
		skipped=$((skipped + 1))
	else
		echo "failed $name ($title): $why: see $log"
		failed=$((failed + 1))
	fi
done

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
exit
}
