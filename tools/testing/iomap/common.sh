# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # those who source it use the names
# What the scripts here share. Source it; it does nothing by itself but set names.
#
#   die MESSAGE          one line, exit status 1
#   say MESSAGE          one line of progress with the time since the start
# in-root.sh, which this sources, is about the toolchain root.

# Debian leaves chroot out of the reach of users.
PATH+=:/usr/sbin:/sbin
IOMAP_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PROJECT=$(cd "$IOMAP_DIR/../../.." && pwd)
CACHE=${IOMAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/iomap-dio-rust}
# "make IOMAP_CACHE=~/cache" leaves the tilde to us.
CACHE=$(realpath -m "${CACHE/#\~\//$HOME/}")
# shellcheck source=pins
. "$IOMAP_DIR/pins"

# A user's own kernel (KSRC=) has its own copy and its own objects, so that switching back and
# forth never mixes two sources.
SOURCE_KEY=
if [ -n "${KSRC:=}" ]; then
	# As above.
	KSRC=$(realpath -m "${KSRC/#\~\//$HOME/}")
	SOURCE_KEY=-$(printf %s "$KSRC" | sha256sum | cut -c1-8)
fi

# What is put into the kernel tree is the checkout, or a copy of it that a tool may change
# ($CACHE/$IOMAP_OVERLAY/overlay). That has a tree and a build of its own.
OVERLAY=$PROJECT
if [ -n "${IOMAP_OVERLAY:-}" ]; then
	OVERLAY=$CACHE/$IOMAP_OVERLAY/overlay
	SOURCE_KEY+=-$IOMAP_OVERLAY
fi

export IOMAP_CACHE=$CACHE KSRC
ROOT=$CACHE/root
SRC=$CACHE/src
TREE=$CACHE/tree$SOURCE_KEY
BUILD=$CACHE/build$SOURCE_KEY
export IOMAP_T0=${IOMAP_T0:-$(date +%s)}
. "$IOMAP_DIR/in-root.sh"

die()
{
	printf 'error: %s\n' "$*" >&2
	exit 1
}

elapsed()
{
	local t=$(($(date +%s) - IOMAP_T0))

	printf '[%2d:%02d]' $((t / 60)) $((t % 60))
}

say()
{
	printf '%s %s\n' "$(elapsed)" "$*" >&2
}

# A line that the next one overwrites on a terminal; in a log, one a minute is enough.
progress()
{
	if [ -t 2 ]; then
		printf '\r\033[K%s %s' "$(elapsed)" "$*" >&2
	elif [ $(($(date +%s) - ${PROGRESS_LAST:=$(date +%s)})) -ge 60 ]; then
		PROGRESS_LAST=$(date +%s)
		say "$*"
	fi
}

progress_end()
{
	[ ! -t 2 ] || printf '\r\033[K' >&2
}

# Is a variable like QUICK= set? These values mean no.
is_on()
{
	case $1 in '' | 0 | n) return 1 ;; esac
}

# The words of $ONLY, in $only, and as arguments of report.py and others, in $only_args.
read_only()
{
	set -f
	# shellcheck disable=SC2206 # words on purpose
	only=(${ONLY:-})
	set +f
	only_args=("${only[@]/#/--only=}")
}

# Whoever runs this twice at a time waits; the lock goes away with the process.
lock()
{
	local fd

	mkdir -p "$CACHE" 2>/dev/null || die "cannot write to $CACHE: set IOMAP_CACHE to a directory of yours"
	# That all of it is ours, to clean.sh.
	[ -n "$(ls -A "$CACHE")" ] || : >"$CACHE/.iomap-dio-rust"
	exec {fd}>"$CACHE/$1.lock"
	if ! flock -n "$fd"; then
		say "waiting for another $1 to finish"
		flock "$fd"
	fi
}

# Are $1 GiB left where the cache is? $2 takes them.
need_space()
{
	local free

	free=$(df --output=avail -BG "$CACHE" | tail -n 1 | tr -dc 0-9)
	[ "$free" -ge "$1" ] || die "$CACHE has $free GiB of free space, and $2 takes up to $1"
}

# apt-get install what is missing on this machine. $1: command to look for, $2: its package.
need_tool()
{
	local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq)

	command -v "$1" >/dev/null && return 0
	if [ "$EUID" -ne 0 ]; then
		sudo -n true 2>/dev/null || die "$1 is missing: apt-get install $2"
		apt=(sudo -n "${apt[@]}")
	fi
	say "installing $2 on this machine"
	"${apt[@]}" install -y --no-install-recommends "$2" >/dev/null 2>&1 </dev/null ||
		{ "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "$2"; } >/dev/null 2>&1 </dev/null ||
		die "$1 is missing and could not be installed: apt-get install $2"
}

# Runs a Python program of this folder here: a misspelt name is then known before there is a toolchain
# root.
run_python()
{
	need_tool python3 python3
	python3 -B "$IOMAP_DIR/$1" "${@:2}"
}
