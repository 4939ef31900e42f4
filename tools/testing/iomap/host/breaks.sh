#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Do the host tests bite? Makes each of the wrong edits below in a copy of handover.rs or decide.rs,
# and says which tests fail for it. Takes some minutes; fails if an edit goes unnoticed.
#
#   breaks.sh [NAME...]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
need_root "$@"

H=rust/kernel/iomap/handover.rs
D=fs/iomap/direct_io/decide.rs

# Name, file, a substitution of perl over the whole file.
breaks()
{
	cat <<-EOF2
	seal-looks-relaxed	$H	s/load\(Acquire\) == ours/load(Relaxed) == ours/
	seal-looks-for-bias	$H	s/load\(Acquire\) == ours/load(Acquire) == BIAS/
	seal-looks-for-less	$H	s/load\(Acquire\) == ours/load(Acquire) <= ours.wrapping_add(1)/
	seal-drops-one-more	$H	s/self\.put\(ours\)/self.put(ours.wrapping_add(1))/
	seal-drops-one-less	$H	s/self\.put\(ours\)/self.put(ours.wrapping_sub(1))/
	seal-drops-bias	$H	s/self\.put\(ours\)/self.put(BIAS)/
	put-looks-for-zero	$H	s/(fetch_sub\(count, Full\)) == count/\$1 == 0/
	put-looks-for-two	$H	s/(fetch_sub\(count, Full\)) == count/\$1 == count.wrapping_add(1)/
	put-is-release	$H	s/fetch_sub\(count, Full\)/fetch_sub(count, Release)/
	put-is-acquire	$H	s/fetch_sub\(count, Full\)/fetch_sub(count, Acquire)/
	put-is-relaxed	$H	s/fetch_sub\(count, Full\)/fetch_sub(count, Relaxed)/
	put-looks-twice	$H	s/self\.refs\.fetch_sub\(count, Full\) == count/{ self.refs.fetch_sub(count, Full); self.refs.load(Acquire) == 0 }/
	no-bias	$H	s/1 << 30/1/
	waiter-after-put	$H	s/(        if let Some\(waiter\) = waiter \{.*?\n        \}\n)(        if self\.put\(ours\) \{.*?else if waits \{\n)/\$2\$1/s
	waiter-forgotten	$H	s/self\.waiter\.store\(waiter\(\), Relaxed\);/let _ = waiter();/
	waits-for-nobody	$H	s/\} else if waits \{/} else if waits && false {/
	queued-but-waits	$H	s/\} else if waits \{/} else if true {/
	hand-back-relaxed	$H	s/(ptr::null_mut\(\)), Release/\$1, Relaxed/
	hand-back-forgotten	$H	s/self\.waiter\.store\(ptr::null_mut\(\), Release\);//
	touched-after-hand-back	$H	s/(self\.waiter\.store\(ptr::null_mut\(\), Release\);)/\$1 let _ = self.has_failed();/
	touched-after-put	$H	s/return AtEnd::Nothing;/let _ = self.waiter.load(Relaxed); return AtEnd::Nothing;/
	touched-after-seal	$H	s/\} else if waits \{\n/} else if !self.waiter.load(Relaxed).is_null() {\n/
	wait-looks-relaxed	$H	s/self\.waiter\.load\(Acquire\)/self.waiter.load(Relaxed)/
	wait-ends-at-once	$H	s/self\.waiter\.load\(Acquire\)\.is_null\(\)/!self.waiter.load(Acquire).is_null()/
	bio-keeps-it	$H	s/AtEnd::Awaited\(task\)\n/AtEnd::Request\n/
	last-word-first	$H	s/(        if !self\.put\(1\) \{.*?\n        \}\n)        last\(\);\n/        last();\n\$1/s
	last-word-forgotten	$H	s/        last\(\);\n/        let _ = last;\n/
	last-error-wins	$H	s/let _ = self\.error\.cmpxchg\(0, errno, Relaxed\)/self.error.store(errno, Relaxed)/
	error-tested-then-set	$H	s/let _ = self\.error\.cmpxchg\(0, errno, Relaxed\)/if !self.has_failed() { self.error.store(errno, Relaxed) }/
	error-forgotten	$H	s/let _ = self\.error\.cmpxchg\(0, errno, Relaxed\)/let _ = errno/
	shakes-relaxed	$H	s/self\.0\.load\(Acquire\) == ENDED/self.0.load(Relaxed) == ENDED/
	leaves-relaxed	$H	s/cmpxchg\(SUBMITTING, next, Full\)/cmpxchg(SUBMITTING, next, Relaxed)/
	ends-relaxed	$H	s/cmpxchg\(SUBMITTING, ENDED, Full\)/cmpxchg(SUBMITTING, ENDED, Relaxed)/
	looks-relaxed-at-end	$H	s/let mut state = self\.0\.load\(Acquire\)/let mut state = self.0.load(Relaxed)/
	looks-again-relaxed	$H	s/            state = self\.0\.load\(Acquire\)/            state = self.0.load(Relaxed)/
	ended-is-left	$H	s/if state == LEFT \{\n            AtHandshake::Request/if state == LEFT {\n            AtHandshake::Nothing/
	hands-back-relaxed	$H	s/self\.0\.store\(ENDED, Release\)/self.0.store(ENDED, Relaxed)/
	leaves-without-asking	$H	s/\(self\.0\.cmpxchg\(SUBMITTING, next, Full\)\.is_err\(\) && self\.has_ended\(\)\)/{ self.0.store(next, Release); false }/
	touched-after-end	$H	s/return AtHandshake::Nothing;/let _ = self.has_ended(); return AtHandshake::Nothing;/
	start-not-aligned	$D	s/\(pos as u64 \| len\)/(len)/
	aligned-to-half	$D	s/alignment\.wrapping_sub\(1\)\)\) == 0/alignment.wrapping_sub(1) >> 1)) == 0/; s/u64::from\(alignment\.wrapping_sub\(1\)\) == 0/u64::from(alignment.wrapping_sub(1) >> 1) == 0/
	whole-tail	$D	s/        0 => 0,\n/        0 => block_size,\n/
	end-wraps	$D	s/saturating_add\(len\)/wrapping_add(len)/
	end-is-past	$D	s/(saturating_add\(len\)) > end/\$1 >= end/
	no-clamp	$D	s/i_size\.wrapping_sub\(pos\) as isize/size/
	sync-writes-through	$D	s/if full \{\n            Self::Flush/if full {\n            Self::WrittenThrough/
	dirty-writes-through	$D	s/ && !target\.dirty//
	new-writes-through	$D	s/ && owed\.is_nothing\(\) && !t/ && !t/
	device-always-asked	$D	s/let fua = through && owed\.is_nothing\(\) && !target\.dirty && writes_through\(\)/let asked = writes_through(); let fua = through && owed.is_nothing() && !target.dirty && asked/
	through-once-more	$D	s/if through && !fua \{/if false {/
	new-not-zeroed	$D	s/target\.unwritten \|\| target\.new/target.unwritten/
	shared-for-free	$D	s/\.with_if\(target\.shared, Owed::REMAP\)//
	tail-at-end-not-zeroed	$D	s/end >= i_size\(\)/end > i_size()/
	read-tail-zeroed	$D	s/\(write && end >= i_size\(\)\)/(end >= i_size())/
	again-reported	$D	s/ && errno != again//
	error-owes-nothing	$D	s/    if failed \{\n        Owed::REPORT/    if failed {\n        Owed::NOTHING/
	read-drops-pages	$D	s/if write && cached_pages\(\)/if cached_pages()/
	single-needs-no-zeroes	$D	s/zero_around \|\| \(tail_padding/false || (tail_padding/
	single-tail-at-end	$D	s/!= 0 && end >= i_size\(\)\)/!= 0 \&\& end > i_size())/
	fault-without-data	$D	s/partial && size > 0/partial/
	fault-waits-nowait	$D	s/waits: !nowait/waits: true/
	fall-back-fails	$D	s/(Walk::FallBack => Settled \{\n            fails:) false/\$1 true/
	debts-collide	$D	s/RECORD: Self = Self\(1 << 2\)/RECORD: Self = Self(1 << 1)/
	debt-forgotten	$D	s/Self\(self\.0 \| other\.0\)\n    \}\n\n    \/\/\/ Whether any of that is a part/Self(self.0)\n    }\n\n    \/\/\/ Whether any of that is a part/
	EOF2
}

"$IOMAP_DIR/root.sh"
lock breaks
copy=$CACHE/host-breaks unnoticed=0
rm -rf "$copy"
mkdir -p "$copy/$(dirname $H)" "$copy/$(dirname $D)" "$copy/tools/testing/iomap"
trap 'rm -rf "$copy"' EXIT
cp -r "$IOMAP_DIR/host" "$copy/tools/testing/iomap/"
src=$copy/tools/testing/iomap/host/src
# Two bios show all of them, in a small part of the time.
sed -i 's/^const BIOS: usize = 3;/const BIOS: usize = 2;/; s/if wait != Wait::No && within/if within/' "$src/models.rs"
printf '[profile.release.package.iomap-host]\nopt-level = 1\n' >>"$copy/tools/testing/iomap/host/Cargo.toml"
cp "$src/lib.rs" "$copy/lib.rs"

while IFS=$'\t' read -r name file edit; do
	[ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
	cp "$PROJECT/$H" "$copy/$H"
	cp "$PROJECT/$D" "$copy/$D"
	perl -0pi -e "$edit" "$copy/$file"
	! cmp -s "$PROJECT/$file" "$copy/$file" || die "$name: the edit changes nothing in $file"
	# The other file's tests need not be compiled.
	[ "$file" = $H ] && other=properties with=decide || other=models with=handover
	sed "/^mod $other;/d; s/^mod $with;/#[allow(dead_code)]\n&/" "$copy/lib.rs" >"$src/lib.rs"
	[ "$file" = $H ] || sed -i '/^mod sync;/i #[allow(dead_code)]' "$src/lib.rs"
	status=0
	in_root env CARGO_HOME=/cache/cargo CARGO_TARGET_DIR=/cache/host-target CARGO_TERM_COLOR=never \
		timeout 300 cargo test --release --locked --manifest-path "/cache/host-breaks/tools/testing/iomap/host/Cargo.toml" \
		-- --test-threads=1 >"$copy/log" 2>&1 </dev/null || status=$?
	if ! grep -q '^running ' "$copy/log"; then
		die "$name does not compile: $(grep -m 1 '^error' "$copy/log")"
	elif [ $status -eq 0 ]; then
		echo "UNNOTICED $name"
		unnoticed=1
	else
		failed=$(sed -n 's/^test \(.*\) \.\.\. FAILED.*/\1/p' "$copy/log" | sed 's/.*:://' | paste -sd ' ')
		# The last one that began, if it took the rest with it.
		grep -q '^test result' "$copy/log" || failed+=" $(grep '^test ' "$copy/log" | tail -n 1 | sed 's/^test \([^ ]*\) .*/\1/; s/.*:://') (and ended there)"
		why=$(grep -A 1 'panicked at' "$copy/log" | grep -v 'panicked at\|^--' | sort | uniq -c | sort -rn | head -n 2 | sed 's/^ *[0-9]* *//' | paste -sd ';' || :)
		echo "$name: $failed [$why]"
	fi
done < <(breaks)
exit $unnoticed
