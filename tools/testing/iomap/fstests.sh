#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# "make fstests XFSTESTS=dir": the tests of fstests for direct I/O, AIO, reads and writes, then the quick ones
# and all others, on ext4, XFS, btrfs and f2fs, with C and with Rust, in guests. Compares the two.
#
#   XFSTESTS=dir   fstests, as its authors publish it; a copy is built
#   MINUTES=n      for how long (180), and the time to build; what has no turn then is said
#   GO_ON=1        goes on where the last run has ended, and says what both have found
#   AGAIN=         with GO_ON=1: tests that have another turn, named as in ONLY; what was found of them is forgotten
#   ONLY=          only tests that these globs, or parts of CONFIGURATION/TEST, match
#   WRITE=1        makes the result the page Documentation/rust/iomap-fstests.rst
#
# Results go to results/<time>-fstests/, and results/latest-fstests points there. It fails if a test ends one way
# with C and another with Rust, each time.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
# What it is built with, and what its tests call.
packages=(acl attr autoconf automake bc dbench gawk hostname keyutils libacl1-dev libattr1-dev libaio-dev
	libblkid-dev libcap-dev libcap2-bin libgdbm-compat-dev libgdbm-dev libtool libtool-bin liburing-dev lvm2
	pkgconf psmisc quota sqlite3 uuid-dev uuid-runtime xfsdump "xfslibs-dev/$DEBIAN_NEXT")
here=/project/tools/testing/iomap/fstests

minutes=${MINUTES:-180}
[[ $minutes =~ ^[1-9][0-9]{0,4}$ ]] || die "MINUTES=$minutes is not a number of minutes"
[ -n "${XFSTESTS:-}" ] || die "fstests is missing: git clone" \
	"https://git.kernel.org/pub/scm/fs/xfs/xfstests-dev.git ~/xfstests; make fstests XFSTESTS=~/xfstests"
suite=$(realpath -m "${XFSTESTS/#\~\//$HOME/}")
[ -x "$suite/check" ] && [ -d "$suite/tests/generic" ] ||
	die "XFSTESTS=$XFSTESTS is not fstests: it has no check, or no tests/generic"
need_root "$@"
read_only

"$IOMAP_DIR/root.sh"
lock fstests
trap stop INT TERM HUP
log=$CACHE/fstests/build.log copy=$CACHE/fstests/suite
mkdir -p "$CACHE/fstests"
need_packages fstests "$log" "fstests needs" "${packages[@]}"
in_root sh -euc 'for user; do id "$user" || useradd --create-home "$user"; done' sh fsgqa fsgqa2 123456-fsgqa \
	>"$log" 2>&1 </dev/null || die "fstests has no users: $(tail -n 1 "$log"); see $log"

# What is in it, without times and owners.
files=(tar -C "$suite" --exclude=./.git --exclude=./results --sort=name --mtime=@0 --owner=0 --group=0 -cf - .)
sum=$("${files[@]}" | sha256sum | cut -c1-12)
if [ "$(cat "$copy.built" 2>/dev/null)" != "$sum" ]; then
	say "building fstests, log in $log"
	"${NAMESPACE[@]}" rm -rf "$copy" "$copy.built"
	mkdir "$copy"
	"${files[@]}" | tar -C "$copy" -xf -
	# Objects that lie in it are of another machine, and so is a configuration. A guest copies suite.tar.
	in_root_words
	"${IN_ROOT[@]}" sh -euc 'cd /cache/fstests/suite
		[ ! -e include/builddefs ] || make clean
		rm -f include/builddefs include/config.h configure local.config
		make "-j$1"
		tar --exclude="*.[och]" -cf ../suite.tar .' sh "$(nproc)" >"$log" 2>&1 </dev/null &
	guest_pid=$!
	watch_child "fstests" "$log" || die "fstests could not be built: $(grep -m 1 -iE '(fatal )?error' "$log"); see $log"
	guest_pid=
	echo "$sum" >"$copy.built"
fi
version=$([ ! -e "$suite/.git" ] || git -c safe.directory="$suite" -C "$suite" describe --always --dirty)
version=${version:-a copy without git, the sum of its files begins with $sum}

read -ra again <<<"${AGAIN:-}"
run=$CACHE/run/fstests
if is_on "${GO_ON:-}"; then
	[ "$(cat "$run/suite" 2>/dev/null)" = "$sum" ] || die "there is no run of this fstests that GO_ON=1 could go on with"
else
	[ -z "${AGAIN:-}" ] || die "AGAIN= needs GO_ON=1: a new run has no test that was run before"
	rm -rf "$run" "$run"-[0-9]*
	mkdir -p "$run"
	echo "$sum" >"$run/suite"
fi
# A word on the tests, rather now than after building a kernel.
in_root python3 -B "$here/run.py" /cache/fstests/suite /cache/run/fstests --plan "${only_args[@]}" \
	"${again[@]/#/--again=}" || case $? in
	2) die "AGAIN=$AGAIN matches no test: names are like xfs-reflink/generic/095" ;;
	*) die "ONLY=$ONLY matches no test: names are like xfs-reflink/generic/095" ;;
	esac
"$IOMAP_DIR/build.sh" um-test

# As long as a guest asks for another, or died and yet came further than the one before it.
shard()
{
	local boot status=75 lines=-1

	boot=$(find "$CACHE/run" -maxdepth 1 -name "fstests-$1-*" | wc -l)
	children=()
	while case $status in 75 | 124 | 125) ;; *) false ;; esac; do
		[ "$(wc -l <"$run/$1/results.jsonl")" -gt "$lines" ] || break
		lines=$(wc -l <"$run/$1/results.jsonl") status=0
		# A test may take 300 s, and says nothing then.
		GUEST_PREFIX="taskset -c ${cpus[$1]}" GUEST_MEM=${GUEST_MEM:-6G} GUEST_IDLE=${GUEST_IDLE:-900} \
			GUEST_APPEND="kunit.enable=0 ${GUEST_APPEND:-}" \
			run_guest um-test "$run-$1-$boot" $((minutes * 60 + 3600)) \
			python3 -B "$here/run.py" /cache/fstests/suite "/cache/run/fstests/$1" "--until=$end" \
			"--shard=$1/$n" "${only_args[@]}" || status=$?
		boot=$((boot + 1))
	done
	echo $status >"$run/$1/status"
}

# A guest to a processor, as far as the memory goes, and no more than configurations.
mapfile -t cpus < <(processors)
n=$(awk '/^MemAvailable/ { print int($2 / 7e6) }' /proc/meminfo)
n=$(printf '%s\n' "$n" ${#cpus[@]} 7 | sort -n | head -n 1)
if is_on "${GO_ON:-}" && { [ ! -d "$run/$((n - 1))" ] || [ -d "$run/$n" ]; }; then
	die "GO_ON=1 needs as many guests as the run had, and memory and processors are for $n"
fi
[ "$n" -gt 0 ] || die "a guest may take 7 GB of memory, and there is less: make some free"
end=$(($(date +%s) + minutes * 60))
say "$minutes minutes, guests: $n; their consoles are in $run-*/console.log"
for ((i = 0; i < n; i++)); do
	mkdir -p "$run/$i"
	: >>"$run/$i/results.jsonl"
	echo 130 >"$run/$i/status"
	shard $i &
	children+=("$!")
done
wait_guests

about_run
echo "$minutes $about_text${AGAIN:+, again ${again[*]}}" >>"$run/parts"
publish fstests
status=0
page=()
! is_on "${WRITE:-}" || page=(--page /project/Documentation/rust/iomap-fstests.rst)
in_root python3 -B "$here/compare.py" /cache/run/fstests "/project/$results" "--suite=$version" \
	"${page[@]}" "${about[@]}" "${only_args[@]}" </dev/null || status=$?
[ -s "$PROJECT/$results/report.txt" ] || die "there is no report; the results are in $run"
published
exit $status
}
