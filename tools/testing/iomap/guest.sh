# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # those who source it use the names
# Boots a guest on the toolchain root, runs one command in it, and ends it. The guest is User Mode
# Linux, or a PC in QEMU, as the flavour of its kernel says. Source it, as common.sh, which it sources.
#
#   run_guest FLAVOUR RUN_DIR TIMEOUT COMMAND [ARG...]
#
# RUN_DIR lies in $CACHE/run and gets console.log and status. COMMAND runs in the toolchain root: the
# checkout is /project there, RUN_DIR is $RUN, the cache is /cache. Lines the guest prints as
# "@@ text" are progress and appear at once. Returns what COMMAND returned; 124 after TIMEOUT seconds
# or $GUEST_IDLE seconds without output, 125 if the guest ended by itself.
# GUEST_MEM, GUEST_CPUS and GUEST_APPEND (more kernel parameters) change the machine; GUEST_PREFIX is
# put in front of its command (chrt, taskset). For QEMU, GUEST_ACCEL is the accelerator and
# GUEST_QEMU are more of its options.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

guest_pid=
guests=() only=() only_args=()

# The words of $ONLY, in $only, and as arguments of report.py and others, in $only_args.
read_only()
{
	local p

	set -f
	# shellcheck disable=SC2206 # words on purpose
	only=(${ONLY:-})
	set +f
	only_args=()
	for p in "${only[@]}"; do
		only_args+=("--only=$p")
	done
}

# The processors that this may run on, a line each.
processors()
{
	taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' |
		awk -F- '{ for (i = $1; i <= (NF > 1 ? $2 : $1); i++) print i }'
}

# The tests in $CACHE/run/$1/console.log, a line each, as ktap.py prints them.
ktap()
{
	in_root python3 -B /project/tools/testing/iomap/ktap.py "/cache/${TREE##*/}/tools/testing/kunit" \
		"/cache/run/$1/console.log" </dev/null
}

# Ends the guests in $guests, which are processes of their own, and this.
# shellcheck disable=SC2317,SC2329 # by a trap
stop_guests()
{
	local g

	for g in "${guests[@]}"; do
		kill -TERM "$g" 2>/dev/null || :
	done
	exit 130
}

# As run_guest, in the background.
start_guest()
{
	trap stop_guests INT TERM HUP
	mkdir -p "$2"
	echo 130 >"$2/guest-status"
	(
		status=0
		run_guest "$@" || status=$?
		echo $status >"$2/guest-status"
	) &
	guests+=($!)
}

# Waits for all that were started. What each of them returned is in RUN_DIR/guest-status.
wait_guests()
{
	local g

	for g in "${guests[@]}"; do
		wait "$g" || :
	done
	guests=()
	trap - INT TERM HUP
}

guest_kill()
{
	[ -n "$guest_pid" ] || return 0
	# Waiting for it here keeps bash from announcing its end.
	{ kill -KILL "$guest_pid" && wait "$guest_pid"; } 2>/dev/null || :
	guest_pid=
}

# One line, the end of the console, and where the rest is.
guest_failed()
{
	local console=$1

	shift
	{
		printf 'error: %s; the last lines of %s:\n' "$*" "$console"
		tail -n 15 "$console" | tr -d '\r' | cut -c1-200 | sed 's/^/    /'
	} >&2
}

# Waits for the guest whose process is $guest_pid and whose console is in $1/console.log, shows its
# progress, and ends it after $2 seconds or $GUEST_IDLE seconds without output (124).
watch_guest()
{
	local run=$1 timeout=$2 console=$1/console.log pid=$guest_pid idle=${GUEST_IDLE:-300}
	local start now seen size last

	trap 'guest_kill; exit 130' INT TERM HUP
	tail -n +1 -f --pid="$pid" "$console" 2>/dev/null | sed -un 's/\r$//; s/^@@ //p' | while read -r line; do
		say "$line"
	done &

	start=$(date +%s) last=$start seen=0
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.5
		now=$(date +%s)
		size=$(stat -c %s "$console")
		[ "$size" = "$seen" ] || { seen=$size last=$now; }
		# The guest wrote its status and only fails to turn itself off.
		if [ -e "$run/status" ] && [ $((now - last)) -gt 20 ]; then
			guest_kill
		elif [ $((now - start)) -gt "$timeout" ]; then
			guest_kill
			guest_failed "$console" "the guest took more than $timeout s"
			return 124
		elif [ $((now - last)) -gt "$idle" ]; then
			guest_kill
			guest_failed "$console" "the guest hangs: it said nothing for $idle s"
			return 124
		fi
	done
	wait "$pid" 2>/dev/null || :
	guest_pid=
	trap - INT TERM HUP
	# Let the last lines of progress out.
	sleep 0.2
}

# The words that start QEMU with the kernel of the flavour $1, in $QEMU: a PC with the accelerator $2,
# a console on its standard output, and nothing else. A reboot ends it.
qemu_words()
{
	local cpu=max

	# TCG counts each step of "rep movsb", with which a processor that has these copies at a stroke.
	[ "$2" = kvm ] || cpu=max,-erms,-fsrm
	QEMU=(qemu-system-x86_64 -accel "$2" -cpu "$cpu" -smp "${GUEST_CPUS:-2}" -m "${GUEST_MEM:-2G}"
		-nodefaults -no-user-config -display none -serial stdio -no-reboot
		-kernel "/cache/${BUILD##*/}/$1/arch/x86/boot/bzImage")
}

# A host may have /dev/kvm and still run no plain guest, so that only trying tells. Boots the kernel of
# the flavour $1, which ends when it finds no root file system. Sets $no_kvm to the reason if KVM does
# not work here.
probe_kvm()
{
	local run=$CACHE/run/probe

	no_kvm="no /dev/kvm"
	[ -e /dev/kvm ] || return 0
	no_kvm="a KVM guest does not boot here"
	mkdir -p "$run"
	: >"$run/console.log"
	in_root_words
	qemu_words "$1" kvm
	"${IN_ROOT[@]}" "${QEMU[@]}" -append "console=ttyS0 earlyprintk=serial panic=-1 kunit.enable=0" \
		>"$run/console.log" 2>&1 </dev/null &
	guest_pid=$!
	GUEST_IDLE=15 watch_guest "$run" 30 >/dev/null 2>&1 || return 0
	! grep -aq 'VFS: ' "$run/console.log" || no_kvm=
}

run_guest()
{
	local flavour=$1 run=$2 timeout=$3
	shift 3
	local console=$run/console.log dir=/cache/run/${run##*/} status vm kernel
	local params="rw init=/project/tools/testing/iomap/guest-init RUN=$dir panic=-1 null_blk.nr_devices=0"
	# Until somebody wants it (fstest/run.py), this disk takes no memory.
	params+=" scsi_debug.add_host=0 scsi_debug.fake_rw=1 scsi_debug.atomic_wr=1 scsi_debug.dev_size_mb=400"

	[ "$(dirname "$run")" = "$CACHE/run" ] || die "run_guest: $run is not in $CACHE/run"
	case $flavour in
	um-*)
		kernel=$BUILD/$flavour/linux
		# seccomp=auto is the faster way to run user space, and falls back to ptrace.
		# shellcheck disable=SC2206 # lists
		vm=("/cache/${BUILD##*/}/$flavour/linux" root=none rootfstype=hostfs rootflags=/ $params
			seccomp=auto "ncpus=${GUEST_CPUS:-2}" "mem=${GUEST_MEM:-4G}"
			uml_dir=/tmp/ con=null "con0=null,fd:1" ssl=null ${GUEST_APPEND:-})
		;;
	*)
		kernel=$BUILD/$flavour/arch/x86/boot/bzImage
		qemu_words "$flavour" "${GUEST_ACCEL:-tcg}"
		# shellcheck disable=SC2206 # GUEST_QEMU is a list
		vm=("${QEMU[@]}" -virtfs "local,path=/,mount_tag=rootfs,security_model=none,multidevs=remap"
			-append "console=ttyS0 root=rootfs rootfstype=9p rootflags=trans=virtio,version=9p2000.L,cache=loose $params ${GUEST_APPEND:-}"
			${GUEST_QEMU:-})
		;;
	esac
	[ -e "$kernel" ] || die "no $flavour kernel: tools/testing/iomap/build.sh $flavour"
	mkdir -p "$run"
	rm -f "$run/status" "$run/booted"
	printf '%q ' "$@" >"$run/command"
	: >"$console"

	in_root_words
	# shellcheck disable=SC2086 # GUEST_PREFIX is a list
	"${IN_ROOT[@]}" ${GUEST_PREFIX:-} "${vm[@]}" >"$console" 2>&1 </dev/null &
	guest_pid=$!
	watch_guest "$run" "$timeout" || return

	if [ ! -s "$run/status" ]; then
		if grep -aq 'Kernel panic' "$console"; then
			guest_failed "$console" "the guest panicked"
		elif grep -aq 'Out of memory' "$console"; then
			guest_failed "$console" "the guest ran out of memory"
		elif [ ! -e "$run/booted" ]; then
			guest_failed "$console" "the guest did not boot"
		else
			guest_failed "$console" "the guest ended before its command did"
		fi
		return 125
	fi
	status=$(cat "$run/status")
	return "$status"
}
