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
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
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

# Builds $flavour with what it says in $log, and shows where it is.
build()
{
	local status=0

	rm -f "$BUILD/$flavour/build.log"
	"$IOMAP_DIR/build.sh" "$flavour" prepare rust/ fs/iomap/ >"$log" 2>&1 </dev/null &
	children=("$!")
	while kill -0 "${children[0]}" 2>/dev/null; do
		progress "$i/${#names[@]} $name: $(tail -qn 1 "$BUILD/$flavour/build.log" "$log" 2>/dev/null | head -n 1 | cut -c1-60)"
		sleep 1
	done
	wait "${children[0]}" || status=$?
	children=()
	progress_end
	return $status
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
	grep -q ' T iomap_dio_rw$' "$logs/symbols" || echo "there is no iomap_dio_rw() in fs/iomap/built-in.a"
}

passed=0 failed=0 skipped=0 i=0
for name in "${names[@]}"; do
	file=$IOMAP_DIR/configs/matrix/$name.config log=$logs/$name.log flavour=matrix-$name
	title=$(sed -n '2s/^# //p' "$file")
	refused=$(sed -n 's/^# refused: //p' "$file")
	i=$((i + 1)) began=$SECONDS why=

	if build; then
		why=$(wrong_objects | tee -a "$log" | head -n 1)
		[ -z "$refused" ] || why="it takes $refused"
	elif [ -z "$refused" ] || ! grep -qF "did not take $refused " "$log"; then
		why=$(grep -am 1 -E '(^|[^a-z_])error' "$log" || tail -n 1 "$log")
	fi

	if [ -z "$why" ]; then
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
