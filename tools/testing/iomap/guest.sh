# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # those who source it use the names
# Boots a guest on the toolchain root, runs one command in it, and ends it. The guest is User Mode
# Linux, or a PC in QEMU, as the flavour of its kernel says. Source it; it sources common.sh.
#
#   run_guest FLAVOUR RUN_DIR TIMEOUT [COMMAND [ARG...]]
#
# RUN_DIR lies in $CACHE/run and gets console.log and status. COMMAND runs in the toolchain root: the
# checkout is /project there, RUN_DIR is $RUN, the cache is /cache. Lines the guest prints as
# "@@ text" are progress and appear at once. Returns what COMMAND returned; 124 after TIMEOUT seconds
# or $GUEST_IDLE seconds without output, 125 if the guest ended by itself.
# Without COMMAND there is no user space, in QEMU only: the kernel runs its tests and reboots.
# GUEST_MEM, GUEST_CPUS and GUEST_APPEND (more kernel parameters) change the machine; GUEST_PREFIX is
# put in front of its command (chrt, taskset). For QEMU, GUEST_ACCEL is the accelerator and
# GUEST_QEMU are more of its options. If GUEST_TERMINAL is a file descriptor, what COMMAND writes to
# /dev/ttyS1 goes there, and it reads the standard input of run_guest from it. Such a guest can read
# the root, and below /host the files of this machine, and can write to RUN_DIR alone.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$IOMAP_DIR/watch.sh"
. "$IOMAP_DIR/results.sh"
[ -z "$KSRC" ] || "$IOMAP_DIR/overlay.sh" check "$KSRC"

# As run_guest, in the background. RUN_DIR gets guest-status, which is what run_guest returned, and
# splat, which is what splat.sh says of the console.
start_guest()
{
	trap stop INT TERM HUP
	mkdir -p "$2"
	echo 130 >"$2/guest-status"
	: >"$2/splat"
	# shellcheck disable=SC2030 # it has no children
	(
		children=() status=0
		run_guest "$@" || status=$?
		"$IOMAP_DIR/splat.sh" "$2/console.log" >"$2/splat" 2>&1 || :
		echo $status >"$2/guest-status"
	) &
	# shellcheck disable=SC2031
	children+=("$!")
}

wait_guests()
{
	wait "${children[@]}" || :
	children=()
}

# The processors that this may run on, a line each.
processors()
{
	taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' |
		awk -F- '{ for (i = $1; i <= (NF > 1 ? $2 : $1); i++) print i }'
}

run_guest()
{
	local flavour=$1 run=$2 timeout=$3 console=$2/console.log kernel=${BUILD##*/}/$1/linux cpu=max show='' vm why
	local terminal=${GUEST_TERMINAL:-} shared=local,path=/
	local params="panic=-1 rw init=/project/tools/testing/iomap/guest-init RUN=/cache/run/${run##*/}"
	# Until somebody wants them (fstest/run.py), these disks take no memory.
	params+=" null_blk.nr_devices=0"
	params+=" scsi_debug.add_host=0 scsi_debug.fake_rw=1 scsi_debug.atomic_wr=1 scsi_debug.dev_size_mb=400"
	shift 3

	[ "$(dirname "$run")" = "$CACHE/run" ] || die "run_guest: $run is not in $CACHE/run"
	case $flavour in
	um-*)
		# seccomp=auto is the faster way to run user space, and falls back to ptrace.
		# shellcheck disable=SC2206 # lists
		vm=("/cache/$kernel" root=none rootfstype=hostfs rootflags=/ $params
			seccomp=auto "ncpus=${GUEST_CPUS:-2}" "mem=${GUEST_MEM:-4G}"
			uml_dir=/tmp/ con=null "con0=null,fd:1" ssl=null ${GUEST_APPEND:-})
		;;
	*)
		kernel=${kernel%linux}arch/x86/boot/bzImage
		# TCG counts each step of "rep movsb" and "rep stosb", with which the kernel of a processor that has
		# one of these copies and clears. No processor pays for each byte.
		[ "${GUEST_ACCEL:-tcg}" = kvm ] || cpu=max,-erms,-fsrm,-fsrs,-fzrm,-fsrc
		# A console on its standard output, or a terminal there and the console beside it, and nothing else. A
		# reboot ends it.
		vm=(qemu-system-x86_64 -accel "${GUEST_ACCEL:-tcg}" -cpu "$cpu" -smp "${GUEST_CPUS:-2}" -m "${GUEST_MEM:-2G}"
			-nodefaults -no-user-config -display none -no-reboot -kernel "/cache/$kernel")
		if [ -n "$terminal" ]; then
			params=${params/ rw / ro } shared=local,readonly=on,path=/
			vm+=(-chardev "file,id=log,append=on,path=/cache/run/${run##*/}/console.log" -serial chardev:log -serial mon:stdio
				-virtfs "${shared}host,mount_tag=host,security_model=none,multidevs=remap"
				-virtfs "local,path=/cache/run/${run##*/},mount_tag=run,security_model=mapped-file")
		else
			vm+=(-serial stdio)
		fi
		if [ $# -gt 0 ]; then
			params+=" root=rootfs rootfstype=9p rootflags=trans=virtio,version=9p2000.L,cache=loose"
			vm+=(-virtfs "$shared,mount_tag=rootfs,security_model=none,multidevs=remap")
		else
			params="earlyprintk=serial panic=-1" show=$flavour
		fi
		# shellcheck disable=SC2206 # GUEST_QEMU is a list
		vm+=(-append "console=ttyS0 $params ${GUEST_APPEND:-}" ${GUEST_QEMU:-})
		;;
	esac
	[ -e "$CACHE/$kernel" ] || die "no $flavour kernel: tools/testing/iomap/build.sh $flavour"
	mkdir -p "$run"
	rm -f "$run/status" "$run/booted"
	printf '%q ' "$@" >"$run/command"
	: >"$console"

	trap stop INT TERM HUP
	[ -z "$terminal" ] || local -x IN_ROOT_HOST=1
	in_root_words
	# shellcheck disable=SC2206 # GUEST_PREFIX is a list
	vm=("${IN_ROOT[@]}" ${GUEST_PREFIX:-} "${vm[@]}")
	if [ -n "$terminal" ]; then
		"${vm[@]}" <&0 >&"$terminal" 2>>"$console" &
	else
		"${vm[@]}" >"$console" 2>&1 </dev/null &
	fi
	guest_pid=$!
	watch_guest "$run" "$timeout" "$show" || return

	if [ -s "$run/status" ]; then
		return "$(cat "$run/status")"
	elif [ $# -eq 0 ] && grep -aq 'reboot: Restarting system' "$console"; then
		return 0
	elif grep -aq 'Kernel panic' "$console"; then
		why="panicked"
	elif grep -aq 'Out of memory' "$console"; then
		why="ran out of memory"
	elif [ -e "$run/booted" ] || { [ $# -eq 0 ] && grep -aq 'Linux version' "$console"; }; then
		why="ended before it was done"
	else
		why="did not boot"
	fi
	guest_failed "$console" "the guest $why"
	return 125
}

# A host may have /dev/kvm and still run no plain guest, so that only trying tells. Boots the kernel of
# the flavour $1, which ends when it finds no root file system. Sets GUEST_ACCEL to what works, and $pc to
# words on it.
choose_accel()
{
	local run=$CACHE/run/probe status=0 trouble="no /dev/kvm"

	export GUEST_ACCEL=kvm
	pc="x86_64 in QEMU with KVM"
	if [ -e /dev/kvm ]; then
		GUEST_IDLE=15 GUEST_APPEND=kunit.enable=0 run_guest "$1" "$run" 30 >/dev/null 2>&1 || status=$?
		[ $status -eq 124 ] || ! grep -aq 'VFS: ' "$run/console.log" || return 0
		trouble="a KVM guest does not boot here"
	fi
	GUEST_ACCEL=tcg,thread=multi pc="x86_64 in QEMU without KVM ($trouble)"
}
