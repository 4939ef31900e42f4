#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# "make vm": a root shell in a guest whose kernel has both implementations and the switch, with ext4 and XFS
# mounted, and fio. vm.py sets it up. It can read the files of this machine and change none of them.
#
#   CMD='command'    runs this instead of a shell, prints what it says, and returns what it returns
#   DISK=path        gives the guest this file or partition, as /dev/nvme0n1; a partition takes
#                    CONFIRM=path as well
#
# The console of the kernel is in $CACHE/run/vm/console.log.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
DISK=${DISK:-}
# As KSRC in common.sh.
export DISK="${DISK/#\~\//$HOME/}"
need_root "$@"

if [ -z "${CMD:-}" ]; then
	{ tty=$(tty) && [ -t 1 ]; } ||
		die "a shell needs a terminal; without one, make vm CMD='command' runs a command and leaves"
fi
disk=
[ -z "$DISK" ] || disk=$(run_python disk.py "$DISK" "${CONFIRM:-}") || exit 1

"$IOMAP_DIR/root.sh"
lock vm
"$IOMAP_DIR/build.sh" x86-bench
run=$CACHE/run/vm
rm -rf "$run"
mkdir -p "$PROJECT/results"
# What cannot be written to later is found by nobody.
{ mkdir -p "$run" && head -c 1M /dev/zero >"$run/room" && rm "$run/room"; } 2>/dev/null || die "no space left in $CACHE"
choose_accel x86-bench
export GUEST_MEM=${GUEST_MEM:-3G}
say "booting $pc; the console of the kernel is in $run/console.log"

guest=(/project/tools/testing/iomap/vm.py --kept "$run")
if [ -n "$disk" ]; then
	# A name that needs no quotes.
	ln -sfn "$([ -b "$disk" ] || echo /host)$disk" "$CACHE/run/vm.disk"
	GUEST_QEMU="-drive file=/cache/run/vm.disk,format=raw,if=none,id=disk -device nvme,drive=disk,serial=1 ${GUEST_QEMU:-}"
	guest+=(--disk "$DISK")
fi
status=0
if [ -n "${CMD:-}" ]; then
	# QEMU makes what it writes to not block, for all who have it open.
	exec {GUEST_TERMINAL}> >(exec cat)
	cat=$!
	export GUEST_IDLE=${GUEST_IDLE:-3600}
	run_guest x86-bench "$run" 86400 "${guest[@]}" -- "$CMD" </dev/null || status=$?
	exec {GUEST_TERMINAL}>&-
	wait "$cat"
else
	exec {GUEST_TERMINAL}<>"$tty"
	saved=$(stty -g)
	trap 'stty "$saved"; progress_end' EXIT
	export GUEST_IDLE=$((1 << 30))
	run_guest x86-bench "$run" $((1 << 30)) "${guest[@]}" --terminal "${TERM-dumb} $(stty size)" <&"$GUEST_TERMINAL" || status=$?
fi
[ $status -eq 125 ] || "$IOMAP_DIR/splat.sh" "$run/console.log" >&2 || [ $status -ne 0 ] || status=1
exit $status
}
