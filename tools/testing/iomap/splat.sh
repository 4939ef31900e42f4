#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# splat.sh CONSOLE_LOG...: is there a complaint of the kernel's own checkers in it? Prints the first
# one with what follows it, and fails.
set -uo pipefail

bad='WARNING:|BUG:|BUG at|BUG [a-z_]+.*: |Oops|KASAN|UBSAN|KFENCE|KCSAN|kmemleak|ODEBUG|INFO: (task|rcu|possible|suspicious|HARDIRQ|SOFTIRQ|trying|lockdep)'
bad+='|Kernel panic|general protection|Kernel tried to|segfault in kernel|Kernel mode fault|stack-protector|scheduling while atomic'
bad+='|possible (recursive locking|circular locking|deadlock|irq lock inversion)|inconsistent lock state|lock held when returning'
bad+='|bad unlock balance|held lock freed|DEBUG_LOCKS_WARN_ON|suspicious RCU usage|turning off the locking correctness validator'
bad+='|sleeping function called|blocked for more than|hung_task|soft lockup|hard LOCKUP|rcu.* stall|self-detected stall'
bad+='|refcount_t|list_(add|del) corruption|slab-use-after-free|use-after-free|Object .* not freed|Slab .* still'
bad+='|panicked at|rust_kernel.*panic|Assertion failed|XFS \(.*\): Internal error|Corruption (of in-memory|detected)|EXT4-fs error|BTRFS critical|unable to handle'
# Not "BTRFS error", which also counts the wrong checksums that a reader of freed blocks finds (fstest/race.c).
bad+='|Metadata (corruption|CRC error) detected|This should not happen!!|potential data loss|BTRFS: error'
bad+='|F2FS-fs.*[Ii]nconsistent'

# Said on purpose when buffered and direct I/O meet (fs/iomap), or part of what a line names.
good='Page cache invalidation failure on direct I/O|Direct I/O collision with buffered writes'
good+='|Kernel command line|printk: debug: |rcu: .*RCU lockdep checking is enabled|KernelAddressSanitizer initialized|ODEBUG: (selftest|Out of memory)|WARNING: .* is deprecated'
good+='|XFS.*: EXPERIMENTAL|kmemleak: Kernel memory leak detector'

# UML with several processors now and then loses the timer of one, which then runs whatever it runs
# until another tells it not to. RCU notices, and says that no code of its has kept it waiting. It is
# noted, and no complaint; but not if what that processor ran is code under test, which may loop:
# then it stands in the stack traces of the report.
without_lost_timers()
{
	tr -d '\r' <"$1" | awk '
		{ line[NR] = $0 }
		END {
			for (i = 1; i <= NR; i++) {
				if (line[i] ~ /INFO: rcu_sched detected stalls/ &&
				    line[i + 1] line[i + 2] line[i + 3] ~ /All QSes seen, last rcu_sched kthread activity/) {
					ours = 0
					for (j = i; j <= NR && j < i + 150; j++)
						ours += line[j] ~ /\[<[0-9a-f]+>\].*(iomap|direct_io|rust)/
					if (!ours)
						line[i] = "a processor lost its timer"
				}
				print line[i]
			}
		}'
}

status=0
for log; do
	if ! text=$(without_lost_timers "$log" 2>/dev/null); then
		echo "$log: cannot be read"
		status=1
		continue
	fi
	if grep -aqx 'a processor lost its timer' <<<"$text"; then
		echo "$log: note: a processor of UML lost its timer for a while"
	fi
	first=$(grep -anE "$bad" <<<"$text" | grep -vaE "^[0-9]+:(@@ |.*($good))" | head -n 1 | cut -d: -f1)
	[ -n "$first" ] || continue
	status=1
	echo "$log:$first: the kernel complains:"
	sed -n "${first},$((first + 40))p" <<<"$text" | sed 's/^/    /'
done
exit $status
