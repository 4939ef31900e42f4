# SPDX-License-Identifier: GPL-2.0
# The front door. Not a kernel Makefile: 'make apply' does not copy it.
# make hands variables of its command line on to the scripts, which know what they mean.

SHELL := /bin/bash
T := tools/testing/iomap
FLAVOUR ?= x86-bench

.PHONY: help vm bench deb profile count test fstests soak lint check matrix litmus fuzz mutants coverage apply unapply series root source kernel clean
.DEFAULT_GOAL := help

help: ## show this
	@echo 'The iomap direct I/O path of Linux, in Rust.'
	@echo
	@sed -n 's/^\([a-z]*\):.*## /  make \1|/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r target what; do printf '%-16s%s\n' "$$target" "$$what"; done
	@echo
	@echo 'Variables, as in "make test ONLY=xfs":'
	@sed -n '/^  KSRC=/,/^$$/p' $T/README
	@echo 'Deleting the cache is always fine. $T/README says what each file is for.'

vm: ## a root shell in a guest that cannot change your machine: both implementations, ext4, XFS, fio (CMD=, DISK=)
	@$T/vm.sh

# A shell is to see its dollars.
vm: override export CMD := $(value CMD)

deb: ## Debian packages of a kernel with both implementations, which begins with C (CONFIG=cloud, local, machine)
	@$T/deb.sh

bench: ## count the instructions of C and Rust side by side (DEVICE=/dev/X measures time on a disk of this machine)
	@$T/bench.sh

profile: ## instructions for each I/O by function, C beside Rust (CACHE=1: cache misses, simulated)
	@PROFILE_CACHE="$(CACHE)" $T/count.sh profile

count: ## is the Rust path as cheap as its budget says?
	@$T/count.sh budget

test: ## build the test kernel and run the tests on it (MACHINE=qemu: KUnit on x86_64)
	@$T/test.sh

fstests: ## run the tests of fstests on ext4, XFS, btrfs and f2fs with C and with Rust (XFSTESTS=~/xfstests, MINUTES=180)
	@$T/fstests.sh

soak: ## random scripts, schedules and mutants for long, with one report (MINUTES=60)
	@$T/soak.sh

lint: ## the checks of style and types, in a minute: shellcheck, ruff, mypy, rustfmt, clippy, checkpatch, who may be unsafe
	@$T/check.sh lint

check: ## all static checks: these, the patches, the symbols, what must not compile
	@$T/check.sh

matrix: ## do our parts compile for other machines, with other options, and each patch by itself?
	@$T/matrix.sh

litmus: ## do the protocols of the hand-over hold in the kernel's memory model? (HERD7=path, if herd7 is not in PATH)
	@$T/litmus.sh

fuzz: ## run random scripts on C and Rust, compare, and cut the power
	@FOR_SECONDS="$(SECONDS)" $T/fuzz.sh

mutants: ## mutation testing: make one wrong edit at a time and see which test fails
	@FOR_SECONDS="$(SECONDS)" $T/mutants.sh

coverage: ## what do the scripts reach of the C file, and of the Rust code?
	@$T/coverage.sh

apply: ## put patches and files into your own kernel tree: KSRC=~/linux (COMMIT=1 as git commits)
	@$T/overlay.sh apply '$(KSRC)'

series: ## the patches as mails with a cover letter, from you, to read and to send (SERIES=c: those that need no Rust)
	@$T/series.sh

unapply: ## take them out again, which leaves the tree as it was: KSRC=~/linux
	@$T/overlay.sh unapply '$(KSRC)'

root: ## make the toolchain root (Debian with rustc, clang, fio)
	@$T/root.sh

source: ## make the kernel tree to build: the source, the patches, our files
	@$T/source.sh

kernel: ## build a kernel: FLAVOUR=x86-bench, x86-kunit, um-test, um-kunit or um-cov
	@$T/build.sh $(FLAVOUR)

clean: ## delete the cache and the results
	@$T/clean.sh
