#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# splat.sh CONSOLE_LOG...: is there a complaint of the kernel's own checkers in it? Prints the first
# one with what follows it, and fails.
set -uo pipefail

bad='WARNING:|BUG:|BUG at|BUG [a-z_]+.*: |Oops|KASAN|UBSAN|KFENCE|KCSAN|kmemleak|ODEBUG|INFO: (task|rcu|possible|suspicious|HARDIRQ|SOFTIRQ|trying|lockdep)'
bad+='|Kernel panic|general protection|Kernel tried to|segfault in kernel|Kernel mode fault|stack-protector|scheduling while atomic'
bad+='|possible (recursive locking|circular locking|deadlock|irq lock inversion)|inconsistent lock state|lock held when returning'
bad+='|bad unlock balance|held lock freed|DEBUG_LOCKS_WARN_ON|suspicious RCU usage|turning off the locking correctness validator'
bad+='|sleeping function called|blocked for more than|hung_task|soft lockup|rcu.* stall|self-detected stall'
bad+='|refcount_t|list_(add|del) corruption|slab-use-after-free|use-after-free|Object .* not freed|Slab .* still'
bad+='|panicked at|rust_kernel.*panic|Assertion failed|XFS \(.*\): Internal error|Corruption (of in-memory|detected)|EXT4-fs error|BTRFS critical|unable to handle'

# Said on purpose when buffered and direct I/O meet (fs/iomap), or part of what a line names.
good='Page cache invalidation failure on direct I/O|Direct I/O collision with buffered writes'
good+='|Kernel command line|printk: debug: |rcu: .*RCU lockdep checking is enabled|KernelAddressSanitizer initialized|ODEBUG: (selftest|Out of memory)|WARNING: .* is deprecated'
good+='|XFS.*: EXPERIMENTAL|kmemleak: Kernel memory leak detector'

status=0
for log; do
	first=$(tr -d '\r' <"$log" | grep -anE "$bad" | grep -vaE "^[0-9]+:(@@ |.*($good))" | head -n 1 | cut -d: -f1)
	[ -n "$first" ] || continue
	status=1
	echo "$log:$first: the kernel complains:"
	tr -d '\r' <"$log" | sed -n "${first},$((first + 40))p" | sed 's/^/    /'
done
exit $status
