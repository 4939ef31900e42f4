# SPDX-License-Identifier: GPL-2.0
# The front door. Not a kernel Makefile: 'make apply' does not copy it.

SHELL := /bin/bash
T := tools/testing/iomap
KSRC ?=
FLAVOUR ?= um-bench
CACHE := $(or $(IOMAP_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/iomap-dio-rust)

export QUICK FS IO BS ROW WRITE SEEDS DEVICE CONFIRM ONLY MACHINE KSRC FORCE GUEST_MEM GUEST_CPUS GUEST_APPEND IOMAP_CACHE

.PHONY: help bench profile count test check matrix fuzz mutants coverage apply unapply root source kernel clean
.DEFAULT_GOAL := help

help: ## show this
	@echo 'The iomap direct I/O path of Linux, in Rust.'
	@echo
	@sed -n 's/^\([a-z]*\):.*## /  make \1|/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r target what; do printf '%-16s%s\n' "$$target" "$$what"; done
	@echo
	@echo 'KSRC=/path/to/linux takes a kernel source of yours instead of the one from Debian.'
	@echo 'Everything made on the way is in $(CACHE); deleting it is always fine.'

bench: ## measure C against Rust side by side (MACHINE=qemu counts instructions, DEVICE=/dev/X is a real one; QUICK=1 FS= IO= BS= SEEDS=1)
	@$T/bench.sh

profile: ## instructions for each I/O by function, C beside Rust (ROW="ext4 overwrite 4k registered")
	@$T/count.sh profile

count: ## is the Rust path as cheap as its budget says? (WRITE=1 takes what is measured as the budget)
	@$T/count.sh budget

test: ## build the test kernel and run every test (ONLY=name runs one; MACHINE=qemu: KUnit on x86_64)
	@$T/test.sh

check: ## static checks only: formatting, lints, patches, symbols
	@$T/check.sh

matrix: ## do our parts compile for other machines and with other options? (ONLY=name)
	@$T/matrix.sh

fuzz: ## plays random scripts on C and Rust and compares, for SECONDS= from SEED= on
	@FUZZ_SECONDS="$(SECONDS)" SEED="$(SEED)" $T/fuzz.sh

mutants: ## does the suite bite? Breaks the Rust path in small ways, one at a time (ONLY= QUICK=1)
	@$T/mutants.sh

coverage: ## what do the scripts reach? Lines of the C file, edges of the Rust one (SCRIPTS=n)
	@SCRIPTS="$(SCRIPTS)" $T/coverage.sh

apply: ## put patches and files into your own kernel tree: KSRC=~/linux (COMMIT=1 as git commits)
	@$T/overlay.sh apply '$(KSRC)'

unapply: ## take them out again, which leaves the tree as it was: KSRC=~/linux
	@$T/overlay.sh unapply '$(KSRC)'

root: ## make the toolchain root (Debian with rustc, clang, fio)
	@$T/root.sh

source: ## make the kernel tree to build: the source, the patches, our files
	@$T/root.sh
	@$T/source.sh

kernel: ## build a kernel: FLAVOUR=um-bench (default) or um-test
	@$T/build.sh $(FLAVOUR)

clean: ## delete the cache and the results
	@$T/clean.sh
