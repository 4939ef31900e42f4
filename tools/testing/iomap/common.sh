# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # those who source it use the names
# What the scripts here share. Source it; it does nothing by itself but set names.
#
#   die MESSAGE          one line, exit status 1
#   say MESSAGE          one line of progress with the time since the start
#   need_root "$@"       settle how we become root (may re-run the script under sudo)
#   in_root COMMAND...   run a command inside the toolchain root
#
# In the root the checkout is /project and the cache is /cache.

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
KSRC=${KSRC:-}
if [ -n "$KSRC" ]; then
	# As above.
	KSRC=$(realpath -m "${KSRC/#\~\//$HOME/}")
	SOURCE_KEY=-$(printf %s "$KSRC" | sha256sum | cut -c1-8)
else
	SOURCE_KEY=
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
	exec {fd}>"$CACHE/$1.lock"
	if ! flock -n "$fd"; then
		say "waiting for another $1 to finish"
		flock "$fd"
	fi
}

userns_works()
{
	command -v newuidmap >/dev/null &&
		unshare --user --map-root-user --map-auto --mount --pid --fork true 2>/dev/null
}

# Those that README lists.
variables()
{
	grep -oE '^  ([A-Z0-9_]+=1? *)+' "$IOMAP_DIR/README" | grep -oE '[A-Z_][A-Z0-9_]*'
}

# Root is needed to make the toolchain root and to enter it. Being root, or root in a user
# namespace, is enough; failing both, the whole script runs again under sudo.
need_root()
{
	NAMESPACE=(unshare --mount --propagation private --pid --fork --kill-child)
	[ "$EUID" -ne 0 ] || return 0
	if userns_works; then
		NAMESPACE+=(--user --map-root-user --map-auto)
		return 0
	fi
	if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		local v keep=()

		# Or ~/.cache might become root's.
		mkdir -p "$CACHE" 2>/dev/null || :
		for v in $(variables); do
			[ -z "${!v:-}" ] || keep+=("$v=${!v}")
		done
		exec sudo -n env "${keep[@]}" bash "$0" "$@"
	fi
	die "root is needed: run as root, or allow 'sudo' without a password, or 'apt-get install uidmap' and allow unprivileged user namespaces"
}

# After a run under sudo, what the user is to keep is the user's.
give_back()
{
	[ -z "${SUDO_UID:-}" ] || chown -R "$SUDO_UID:${SUDO_GID:-}" "$@"
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

# Runs as process 1 of its own process namespace: when it goes, everything in there goes.
# /dev/shm holds the memory of User Mode Linux guests, hence its size.
IN_ROOT_SETUP='
	root=$1 project=$2 cache=$3; shift 3
	# Without a root, none is begun.
	for d in project cache; do
		[ -d "$root/$d" ] || mkdir "$root/$d"
	done
	mount --rbind /dev "$root/dev"
	mount -t tmpfs -o mode=1777,size=95% tmpfs "$root/dev/shm"
	mount -t tmpfs -o mode=1777,size=95% tmpfs "$root/tmp"
	mount -t proc proc "$root/proc" 2>/dev/null || mount --rbind /proc "$root/proc"
	mount --bind "$project" "$root/project"
	mount --bind "$cache" "$root/cache"
	# Name resolution and trusted certificates (a proxy may have its own) are those of the host.
	for f in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt; do
		[ ! -e $f ] || [ ! -e "$root$f" ] || mount --bind "$(realpath $f)" "$root$f"
	done
	chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root LANG=C.UTF-8 TERM=dumb CCACHE_DIR=/cache/ccache \
		CARGO_HTTP_CAINFO=/etc/ssl/certs/ca-certificates.crt "$@" <&0 &
	child=$!
	trap "exit 130" INT TERM HUP
	wait $child
'

# The words in front of a command that is to run in the root, in $IN_ROOT.
in_root_words()
{
	IN_ROOT=("${NAMESPACE[@]}" bash -euc "$IN_ROOT_SETUP" in_root "${1:-$ROOT}" "$PROJECT" "$CACHE")
}

in_root()
{
	in_root_words
	"${IN_ROOT[@]}" "$@"
}

# Runs a Python program of this folder, here if possible: a misspelt name is then known before there
# is a toolchain root.
run_python()
{
	if command -v python3 >/dev/null; then
		python3 -B "$IOMAP_DIR/$1" "${@:2}"
	else
		"$IOMAP_DIR/root.sh" </dev/null
		in_root python3 -B "/project/tools/testing/iomap/$1" "${@:2}"
	fi
}

# Has "make apply" been here, or somebody's commits of it?
is_applied()
{
	[ -e "$1/.iomap-dio-rust" ] || [ -e "$1/fs/iomap/direct_io_glue.c" ]
}

source_version()
{
	# VERSION.PATCHLEVEL of the kernel tree $1
	sed -n 's/^VERSION = //p' "$1/Makefile" 2>/dev/null | tr '\n' .
	sed -n 's/^PATCHLEVEL = //p' "$1/Makefile" 2>/dev/null
}

check_version()
{
	[ -f "$1/Makefile" ] || die "$1/Makefile is missing: $1 is no kernel source tree"
	[ "$(source_version "$1")" = "$KERNEL_VERSION" ] ||
		die "$1/Makefile says Linux $(source_version "$1"), but the patches are for $KERNEL_VERSION; nothing was changed"
}
