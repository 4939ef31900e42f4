#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Measures C and Rust direct I/O side by side, from nothing: toolchain root, kernel source, kernel,
# guest, fio, table, report, plots. Counts instructions on x86_64 in QEMU (count.sh), or measures time on
# a device of this machine (device.py). With TRACE= the rows are those of a census, weighted.
#
# Results go to results/<time>-bench/, and results/latest points there; with SCALE=1 and HOG=1 the names end in
# -scale and -hog.
# In braces, so that bash reads all of it before it starts, and an edit meanwhile does no harm.
{
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"

case ${MACHINE:-qemu} in
qemu) ;;
*) die "MACHINE=$MACHINE: there is qemu, which is the default" ;;
esac
filter=("--fs=${FS:-}" "--io=${IO:-}" "--bs=${BS:-}")
! is_on "${QUICK:-}" || filter+=(--quick)

if [ -n "${DEVICE:-}" ]; then
	command -v python3 >/dev/null || die "python3 is missing: apt-get install python3"
	about_run
	exec python3 -B "$IOMAP_DIR/bench/device.py" --device "$DEVICE" --confirm "${CONFIRM:-}" --machine=device \
		--out "$PROJECT/results/$(date -u -d "@$IOMAP_T0" +%Y%m%dT%H%M%SZ)-bench" "${filter[@]}" "${about[@]}"
fi

need_root "$@"
if [ -n "${TRACE:-}" ]; then
	filter=("--ids=$(run_python bench/mix.py rows "$TRACE")") || exit 1
fi
run_python bench/rows.py "${filter[@]}" >/dev/null || exit 1
! is_on "${ABLATE:-}" || exec "$IOMAP_DIR/ablate.sh"
! is_on "${SEEDS:-}" || exec "$IOMAP_DIR/count.sh" seeds
! is_on "${SCALE:-}" || exec "$IOMAP_DIR/count.sh" scale
! is_on "${HOG:-}" || exec "$IOMAP_DIR/count.sh" hog

[ -n "${TRACE:-}" ] || exec "$IOMAP_DIR/count.sh" bench "${filter[@]}"

"$IOMAP_DIR/count.sh" bench "${filter[@]}"
run_python bench/mix.py sum "$TRACE" "$PROJECT/results/latest/count.json" | tee -a "$PROJECT/results/latest/report.md"
}
