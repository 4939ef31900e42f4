#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes the table, the JSON, the Markdown report and the pictures of a counted run.

Runs in the toolchain root, where matplotlib is.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import counts  # noqa: E402
import report  # noqa: E402
import rows as bench_rows  # noqa: E402
import stats  # noqa: E402

HEAD = ("row", "C", "Rust", "raw", "C adds", "Rust adds", "Rust/C", "own C", "own Rust", "spread")
WHAT = """\
Instructions of the kernel for each I/O, as medians. *raw* is the same I/O on the bare block device;
*adds* is what the file system and the direct I/O path take on top of that, and *Rust/C* the ratio of
what they add: below 1.00 Rust is cheaper. *own* is the code of the path alone. *spread* is half
the interquartile range of the windows, relative to the median. Timer interrupts and user space are not
counted. Instructions are not time: a cache miss, a locked instruction and a mispredicted
branch count as one, and with one processor nobody else touches the same cache lines."""


def digits(number):
    return f"{number:,.0f}"


def cells(entry):
    c, rust = entry.get("c", {}), entry.get("rust", {})
    spreads = [side["spread"] for side in (c, rust) if side]

    def show(side, key):
        return digits(side[key]) if key in side else ""

    return (
        entry["row"].label, show(c, "kernel"), show(rust, "kernel"),
        digits(entry["raw"]) if "raw" in entry else "",
        show(c, "added"), show(rust, "added"),
        f"{entry['ratio']:.3f}" if "ratio" in entry else "",
        show(c, "own"), show(rust, "own"),
        f"{100 * max(spreads):.2f} %",
    )


def verdict(name, entries):
    ratios = [e["ratio"] for e in entries if "ratio" in e]
    if not ratios:
        return f"{name}: nothing to compare"
    cheaper = sum(1 for r in ratios if r < 0.995)
    dearer = sum(1 for r in ratios if r > 1.005)
    return (f"{name}: Rust adds {stats.geomean(ratios):.3f} of what C adds (geometric mean of "
            f"{len(ratios)} rows); {cheaper} cheaper, {len(ratios) - cheaper - dearer} within 0.5 %, {dearer} dearer")


def text_table(entries):
    lines = []
    for fs, of_fs, groups in report.by_fs_and_kind(entries):
        shown = report.columns([HEAD] + [cells(e) for _, group in groups for e in group])
        lines += ["", f"{fs}   (instructions of the kernel for each I/O)", shown.pop(0)]
        for name, group in groups:
            lines.append(f"  {name}")
            lines += [shown.pop(0) for _ in group]
        if of_fs[0]["row"].fs != "raw":
            lines.append(f"  {verdict(fs, of_fs)}")
    return "\n".join(lines[1:])


def facts(doc):
    run, config, git = doc["runs"][0], doc["config"], doc["git"]
    yield "date", doc["date"]
    yield "machine", (f"x86_64 in QEMU {doc['qemu']}, one processor ({run['guest']['cpu']}, without ERMS and "
                      "FSRM), instructions counted by a plugin")
    yield "kernel", f"{run['kernel']['release']}, CONFIG_IOMAP_DIO_COMPARE, no mitigations, HZ=100"
    for name in ("compiler", "rustc"):
        if name in config:
            yield name, config[name]
    if "sha256" in config:
        yield "config", f"sha256 {config['sha256'][:16]}"
    if git.get("commit"):
        yield "commit", git["commit"][:12] + (" (with uncommitted changes)" if git.get("dirty") else "")
    settings = run["settings"]
    worst = max(side["spread"] for e in doc["rows"].values() for side in (e.get("c"), e.get("rust")) if side)
    yield "load", (f"{run['guest']['fio']}, brd and null_blk; {settings['repeats']} windows or more of "
                   f"{settings['window'] * 1000:g} million instructions a side; greatest spread {100 * worst:.2f} %")


def markdown(doc, entries, pictures):
    out = ["# Direct I/O, counted: Rust against C", ""]
    out += [f"- {name}: {value}" for name, value in facts(doc)]
    out += ["", WHAT, ""]
    out += [f"![{alt}]({name})\n" for name, alt in pictures]
    for fs, of_fs, groups in report.by_fs_and_kind(entries):
        out += [f"## {fs}", ""]
        if of_fs[0]["row"].fs != "raw":
            out += [verdict(fs, of_fs) + ".", ""]
        out += ["| " + " | ".join(("workload", *HEAD)) + " |", "|---|---|" + "--:|" * (len(HEAD) - 1)]
        for name, group in groups:
            out += ["| " + " | ".join((name, *cells(e))) + " |" for e in group]
        out.append("")
    if doc["failures"]:
        out += ["## Failed rows", ""]
        out += [f"- `{f['id']}`: {f['error']}" for f in doc["failures"]] + [""]
    if doc["left_out"]:
        out += ["## Not run", "", "```", *doc["left_out"], "```", ""]
    return "\n".join(out)


def plot_ratio(pyplot, entries, note):
    """Rust/C of the added cost: a line for each workload, a mark for each size."""
    from matplotlib.ticker import MaxNLocator
    entries = [e for e in entries if "ratio" in e]
    figure, axes, at = report._axes(
        pyplot, entries, note, "Direct I/O in Rust against C: instructions added to the raw device",
        f"Left of 1.00 Rust is cheaper. Exact counts. Geometric mean {stats.geomean(e['ratio'] for e in entries):.3f}.")
    low = min(0.95, *(e["ratio"] for e in entries)) - 0.02
    high = max(1.05, *(e["ratio"] for e in entries)) + 0.02
    for ax in axes.values():
        ax.axvline(1, color=report.BLACK, lw=1, zorder=1)
        ax.grid(axis="x", color="#dddddd", lw=0.6, zorder=0)
        ax.set_xlim(low, high)
        ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        ax.xaxis.set_major_formatter("{x:.2f}")
        ax.set_xlabel("instructions added, Rust / C", fontsize=8.5)
    for e, ax, y in report._each(axes, at, entries):
        colour, marker = report.SIZE_STYLE[e["row"].bs]
        ax.plot([1, e["ratio"]], [y, y], color=colour, lw=1.2, zorder=2, solid_capstyle="butt")
        ax.plot(e["ratio"], y, marker, color=colour, ms=4.4, zorder=3)
    shown = [size for size in bench_rows.SIZES if any(e["row"].bs == size for e in entries)]
    report._legend(figure, pyplot, [(*report.SIZE_STYLE[s], report.SIZE_STYLE[s][0], s) for s in shown])
    return figure


def draw(out, doc, entries):
    """The pictures written, with a text for who cannot see them."""
    if not any("ratio" in e for e in entries):
        return []
    pyplot = report._pyplot()
    note = f"x86_64 in QEMU {doc['qemu']}, Linux {doc['runs'][0]['kernel']['release']}, {doc['date'][:10]}"
    figure = plot_ratio(pyplot, entries, note)
    figure.savefig(out / "count.svg", metadata={"Date": None})
    figure.savefig(out / "count.png", dpi=160)
    pyplot.close(figure)
    return [("count.svg", "Instructions that Rust adds to the raw device, relative to C, for every row")]


def add_arguments(parser):
    """What a run was made of, for this and for the programs like it."""
    parser.add_argument("runs", nargs="+", type=Path, help="folders with what count.py and the plugin wrote")
    parser.add_argument("--build", type=Path, required=True, help="where the kernel was built")
    parser.add_argument("--llvm", required=True, help="the version in the names of LLVM's programs")
    parser.add_argument("--qemu", default="", help="its version")
    parser.add_argument("--date", default="")
    parser.add_argument("--commit", default="")
    parser.add_argument("--dirty", action="store_true")


def document(args, machine="qemu"):
    """The document that is written as JSON, from the arguments."""
    try:
        rows, runs = counts.digest(args.runs, counts.Functions(args.build, args.llvm), machine)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {error!r}")
    if not rows:
        sys.exit("error: no row was measured")
    failures = [failure for run in runs for failure in run["failures"]]
    return {"date": args.date, "qemu": args.qemu, "config": report.kconfig(args.build / ".config"),
            "git": {"commit": args.commit, "dirty": args.dirty},
            "runs": [{k: v for k, v in run.items() if k not in ("rows", "failures")} for run in runs],
            "failures": failures, "rows": rows}


def in_order(rows):
    """The entries as a list with their rows, as a reader wants them."""
    known = {row.id: row for row in bench_rows.all_rows("qemu")}
    entries = [{"row": known[row_id], **entry} for row_id, entry in rows.items()]
    kinds, systems = list(bench_rows.KINDS), list(bench_rows.FILESYSTEMS)
    engines, sizes = list(bench_rows.ENGINES), list(bench_rows.SIZES)
    return sorted(entries, key=lambda e: (systems.index(e["row"].fs), kinds.index(e["row"].kind),
                                          engines.index(e["row"].engine), sizes.index(e["row"].bs)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--out", required=True, type=Path, help="folder to write to")
    parser.add_argument("--left-out", default="", help="rows that were not wanted, as lines")
    args = parser.parse_args()
    doc = document(args)
    doc["left_out"] = args.left_out.splitlines()
    entries = in_order(doc["rows"])
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "count.json").write_text(json.dumps(doc, indent=1) + "\n")
    pictures = draw(args.out, doc, entries)
    (args.out / "report.md").write_text(markdown(doc, entries, pictures))
    print(text_table(entries))
    print()
    for name, value in facts(doc):
        print(f"  {name:<9} {value}")
    for failure in doc["failures"]:
        print(f"  FAILED    {failure['id']}: {failure['error']}")


if __name__ == "__main__":
    main()
