# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Running things in the toolchain root. common.sh sources this.
#
#   need_root "$@"       settle how we become root (may re-run the script under sudo)
#   in_root COMMAND...   run a command inside the toolchain root
#   need_packages NAME LOG WHAT PACKAGE...
#                        has these packages in there
#
# In the root the checkout is /project and the cache is /cache. With IN_ROOT_HOST=1 the files of this
# machine are below /host.

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

# Runs as process 1 of its own process namespace: when it goes, everything in there goes.
# /dev/shm holds the memory of User Mode Linux guests, hence its size.
IN_ROOT_SETUP='
	root=$1 project=$2 cache=$3; shift 3
	# Without a root, none is begun.
	for d in project cache host; do
		[ -d "$root/$d" ] || mkdir "$root/$d"
	done
	if [ -n "${IN_ROOT_HOST:-}" ]; then
		mount --rbind / "$root/host"
		for d in dev proc sys; do
			mount -t tmpfs tmpfs "$root/host/$d"
		done
	fi
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
	# Without it the mounts would be those of this machine.
	: "${NAMESPACE[0]:?need_root comes first}"
	IN_ROOT=("${NAMESPACE[@]}" bash -euc "$IN_ROOT_SETUP" in_root "${1:-$ROOT}" "$PROJECT" "$CACHE")
}

in_root()
{
	in_root_words
	"${IN_ROOT[@]}" "$@"
}

# For what few commands need. It is installed when first needed, and not with file "pins", so that nobody else waits
# for it. The packages are remembered by NAME.
need_packages()
{
	local stamp=$ROOT/.$1 log=$2 what=$3

	shift 3
	[ "$(cat "$stamp" 2>/dev/null)" != "$*" ] || return 0
	say "installing in the toolchain root what $what, log in $log"
	in_root sh -euc 'export DEBIAN_FRONTEND=noninteractive
		set -- -qq -y -o APT::Sandbox::User=root "$@"
		apt-get -qq -o APT::Sandbox::User=root update && apt-get install --no-install-recommends "$@"' \
		sh "$@" >"$log" 2>&1 </dev/null ||
		die "the packages could not be installed: $(grep -m 1 '^E: ' "$log"); see $log"
	"${NAMESPACE[@]}" sh -c 'echo "$2" >"$1"' sh "$stamp" "$*"
}
