# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What runs in the background: it is waited for, watched, and ended with the script that started it.
# guest.sh and host/run.sh source this.

# Processes in the background, which clean up after themselves, and the guest of this process, or what
# else runs in the toolchain root, which does not.
children=() guest_pid=

# Ends all of them, and this.
# shellcheck disable=SC2317,SC2329 # by a trap
stop()
{
	trap '' INT TERM HUP
	progress_end
	guest_kill
	{ kill -TERM "${children[@]}" && wait "${children[@]}"; } 2>/dev/null || :
	exit 130
}

# Waits for the child that was just started, and returns what it does.
wait_child()
{
	local status=0

	children=("$!")
	wait "$!" || status=$?
	children=()
	return $status
}

# As wait_child, and shows $1 with the last line of the first of the logs after it that has one.
watch_child()
{
	local child=$!

	children=("$child")
	while kill -0 "$child" 2>/dev/null; do
		progress "$1: $(tail -qn 1 "${@:2}" 2>/dev/null | head -n 1 | cut -c1-60)"
		sleep 1
	done
	progress_end
	children=()
	wait "$child"
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
	{
		printf 'error: %s; the last lines of %s:\n' "$2" "$1"
		tail -n 15 "$1" | tr -d '\r' | cut -c1-200 | sed 's/^/    /'
	} >&2
}

# Waits for the guest, whose console is in $1/console.log, and ends it after $2 seconds or $GUEST_IDLE
# seconds without output (124). Shows the progress that it tells of, or else $3 and its last line.
watch_guest()
{
	local run=$1 timeout=$2 console=$1/console.log pid=$guest_pid
	local began=$SECONDS last=$SECONDS seen=0 size why=''

	tail -n +1 -f --pid="$pid" "$console" 2>/dev/null | sed -un 's/\r$//; s/^@@ //p' | while read -r line; do
		say "$line"
	done &
	while [ -z "$why" ] && kill -0 "$pid" 2>/dev/null; do
		[ -z "$3" ] || progress "$3: $(tail -n 1 "$console" | tr -d '\r' | cut -c1-100)"
		sleep 0.5
		size=$(stat -c %s "$console")
		[ "$size" = "$seen" ] || seen=$size last=$SECONDS
		# The guest wrote its status and only fails to turn itself off.
		if [ -e "$run/status" ] && [ $((SECONDS - last)) -gt 20 ]; then
			guest_kill
		elif [ $((SECONDS - began)) -gt "$timeout" ]; then
			why="the guest took more than $timeout s"
		elif [ $((SECONDS - last)) -gt "${GUEST_IDLE:-300}" ]; then
			why="the guest hangs: it said nothing for ${GUEST_IDLE:-300} s"
		fi
	done
	[ -z "$3" ] || progress_end
	if [ -n "$why" ]; then
		guest_kill
		guest_failed "$console" "$why"
		return 124
	fi
	wait "$pid" 2>/dev/null || :
	guest_pid=
	# Let the last lines of progress out.
	sleep 0.2
}
