#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes the table, the JSON, the Markdown report and the plots of a benchmark run.

Runs in the toolchain root, where matplotlib is.
"""

import argparse
import hashlib
import json
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import rows as bench_rows  # noqa: E402
import stats  # noqa: E402

# Okabe and Ito's palette: told apart with any colour vision.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7")
SIZE_STYLE = {"2k": (PURPLE, "P"), "4k": (BLUE, "o"), "16k": (SKY, "s"),
              "64k": (ORANGE, "D"), "1M": (VERMILION, "^")}


# What a run says

def digest(run):
    """Summaries by row id, in the order of the rows; raw beside each."""
    rows = {row.id: row for row in bench_rows.all_rows(run["settings"].get("machine", "uml"))}
    found = {entry["id"]: stats.summary(entry["samples"]) for entry in run["rows"]}
    latency = {entry["id"]: {"latency": entry["latency"]} for entry in run["rows"] if "latency" in entry}
    # Where a part of the bare device's I/O was done twice it is no ceiling, see run.py.
    twice = {entry["id"] for entry in run["rows"]
             if entry["id"].startswith("raw/") and entry["fio_share"] < 0.9}
    out = []
    for row_id, row in rows.items():
        if row_id not in found:
            continue
        entry = {"row": row, **found[row_id], **latency.get(row_id, {})}
        if row.fs != "raw" and row.raw_id in found and row.raw_id not in twice:
            entry["raw"] = found[row.raw_id]["c"]["iops"]
            best = entry.get("rust", entry["c"])
            entry["of_raw"] = best["iops"] / entry["raw"]
        out.append(entry)
    # by file system, then kind: the order of measurement does not matter to a reader
    kinds, systems = list(bench_rows.KINDS), list(bench_rows.FILESYSTEMS)
    engines, sizes = list(bench_rows.ENGINES), list(bench_rows.SIZES)
    out.sort(key=lambda e: (systems.index(e["row"].fs), kinds.index(e["row"].kind),
                            engines.index(e["row"].engine), sizes.index(e["row"].bs)))
    return out


def verdict(entries):
    """Counts of rows by what their interval says, and the geometric mean."""
    ratios = [entry["ratio"] for entry in entries if "ratio" in entry]
    return {
        "rows": len(ratios),
        "faster": sum(1 for r in ratios if r["low"] > 1),
        "slower": sum(1 for r in ratios if r["high"] < 1),
        "geomean": stats.geomean(r["median"] for r in ratios),
    }


def verdict_text(name, entries):
    v = verdict(entries)
    if not v["rows"]:
        return f"{name}: one implementation only, nothing to compare"
    same = v["rows"] - v["faster"] - v["slower"]
    return (f"{name}: Rust/C {v['geomean']:.3f} (geometric mean of {v['rows']} rows); "
            f"{v['faster']} faster, {same} within noise, {v['slower']} slower")


def kilo(iops):
    if iops is None:
        return ""
    return f"{iops / 1000:.{2 if iops < 10e3 else 1}f}k"


HEAD = ("row", "C", "Rust", "Rust/C", "95 % interval", "spread", "raw", "of raw")


def cells(entry):
    ratio = entry.get("ratio")
    return (
        f"{bench_rows.ENGINES[entry['row'].engine][0]} {entry['row'].bs}",
        kilo(entry["c"]["iops"]),
        kilo(entry["rust"]["iops"]) if "rust" in entry else "",
        f"{ratio['median']:.3f}" if ratio else "",
        f"{ratio['low']:.3f} - {ratio['high']:.3f}" if ratio else "",
        f"{100 * (ratio or entry['c'])['spread']:.1f} %",
        kilo(entry.get("raw")),
        f"{100 * entry['of_raw']:.0f} %" if "of_raw" in entry else "",
    )


# Latency and processor time, of runs on a device.
LATENCY = ("p50", "p99", "p99.9")
LATENCY_HEAD = ("row", *(f"{side} {p}" for p in LATENCY for side in ("C", "Rust")), "C CPU", "Rust CPU")


def latency_cells(entry):
    """Microseconds; of the processors, for each I/O."""
    def show(value):
        return "" if value is None else f"{value:.1f}"

    cpu = [entry[side]["usr_us"] + entry[side]["sys_us"] if side in entry else None for side in ("c", "rust")]
    return (f"{bench_rows.ENGINES[entry['row'].engine][0]} {entry['row'].bs}",
            *(show(entry["latency"].get(side, {}).get(p)) for p in LATENCY for side in ("c", "rust")),
            *(show(value) for value in cpu))


def by_fs_and_kind(entries):
    for fs, fs_name in bench_rows.FILESYSTEMS.items():
        of_fs = [e for e in entries if e["row"].fs == fs]
        if of_fs:
            yield fs_name, of_fs, [(name, [e for e in of_fs if e["row"].kind == kind])
                                   for kind, name in bench_rows.KINDS.items()
                                   if any(e["row"].kind == kind for e in of_fs)]


def columns(table):
    """Lines of cells as text: the first column to the left, the others to the right."""
    width = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    return [("    " + line[0].ljust(width[0]) + "  "
             + "  ".join(c.rjust(w) for c, w in zip(line[1:], width[1:]))).rstrip() for line in table]


def latency_text(entries):
    lines = []
    for fs, _of_fs, groups in by_fs_and_kind([e for e in entries if "latency" in e]):
        shown = columns([LATENCY_HEAD] + [latency_cells(e) for _, group in groups for e in group])
        lines += ["", f"{fs}   (latency, and processor time for each I/O, in microseconds)", shown.pop(0)]
        for name, group in groups:
            lines.append(f"  {name}")
            lines += [shown.pop(0) for _ in group]
    return "\n".join(lines[1:])


def text_table(entries):
    lines = []
    for fs, of_fs, groups in by_fs_and_kind(entries):
        if of_fs[0]["row"].fs == "raw":
            continue            # stands beside the others
        shown = columns([HEAD] + [cells(e) for _, group in groups for e in group])
        lines += ["", f"{fs}   (IOPS; median of paired rounds)", shown.pop(0)]
        for name, group in groups:
            lines.append(f"  {name}")
            lines += [shown.pop(0) for _ in group]
        lines.append(f"  {verdict_text(fs, of_fs)}")
    if not lines:               # FS=raw
        for fs, _of_fs, groups in by_fs_and_kind(entries):
            lines += ["", fs]
            for name, group in groups:
                lines.append(f"  {name}")
                lines += [f"    {cells(e)[0]:<26}{cells(e)[1]:>10}" for e in group]
    return "\n".join(lines[1:])


# What it ran on

def kconfig(path):
    """The version strings in a .config, and a hash of the whole."""
    if not path or not path.is_file():
        return {}
    text = path.read_text()
    out = {"sha256": hashlib.sha256(text.encode()).hexdigest()}
    for key, name in (("rustc", "RUSTC_VERSION_TEXT"), ("compiler", "CC_VERSION_TEXT")):
        match = re.search(rf'^CONFIG_{name}="(.*)"$', text, re.M)
        if match:
            out[key] = match.group(1)
    return out


def machine():
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", info, re.M)
    return {"cpu": model.group(1) if model else "unknown", "cores": os.cpu_count(),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "host_kernel": os.uname().release}


def facts(doc):
    run, config, git = doc["run"], doc["config"], doc["git"]
    yield "date", doc["date"]
    yield "machine", f"{doc['machine']['cpu']}, {doc['machine']['cores']} cores, {doc['machine']['memory_gb']} GB"
    yield "kernel", f"{run['kernel']['release']} ({run['kernel']['machine']}, {run['guest']['cpus']} CPU)"
    if "device" in run:
        yield "device", run["device"]
    for name in ("compiler", "rustc"):
        if name in config:
            yield name, config[name]
    if "sha256" in config:
        yield "config", f"sha256 {config['sha256'][:16]}"
    if git.get("commit"):
        yield "commit", git["commit"][:12] + (" (with uncommitted changes)" if git.get("dirty") else "")
    rounds = [e["rounds"] for e in run["rows"]]
    count = str(max(rounds)) if min(rounds) == max(rounds) else f"{min(rounds)} to {max(rounds)}"
    yield "load", (f"{run['guest']['fio']}, {count} rounds in "
                   f"{run['settings']['budget']:g} s a row, "
                   f"{int(run['seconds']) // 60}:{int(run['seconds']) % 60:02d} in all")
    if run["settings"].get("against_itself"):
        yield "note", "both sides were the same code: this shows the noise, not Rust"


def markdown(doc, entries, plots):
    out = ["# Direct I/O: Rust against C", ""]
    out += [f"- {name}: {value}" for name, value in facts(doc)]
    out += ["", "IOPS, as medians. *Rust/C* is the median over paired rounds inside one boot, with a 95 %",
            "bootstrap interval of that median; *spread* is half the interquartile range of one round.",
            "*raw* is the same I/O on the bare block device, *of raw* the part of it that "
            + ("Rust" if any("ratio" in e for e in entries) else "C") + " reaches.", ""]
    if any(e["fio_share"] < 0.9 for e in doc["run"]["rows"] if e["id"].startswith("raw/")):
        out += ["Polled 1M has no ceiling here: on the bare device such a bio must not wait but would have to",
                "be split for null_blk, so that io_uring has each done a second time, by a worker.", ""]
    out += [f"![{alt}]({name})\n" for name, alt in plots]
    for fs, of_fs, groups in by_fs_and_kind(entries):
        if of_fs[0]["row"].fs == "raw":
            continue
        out += [f"## {fs}", "", verdict_text(fs, of_fs) + ".", ""]
        out += ["| " + " | ".join(("workload", *HEAD)) + " |", "|---|---|" + "--:|" * (len(HEAD) - 1)]
        for name, group in groups:
            out += ["| " + " | ".join((name, *cells(e))) + " |" for e in group]
        out.append("")
    for fs, _of_fs, groups in by_fs_and_kind([e for e in entries if "latency" in e]):
        out += [f"## {fs}: latency, and processor time for each I/O, in microseconds", ""]
        out += ["| " + " | ".join(("workload", *LATENCY_HEAD)) + " |",
                "|---|---|" + "--:|" * (len(LATENCY_HEAD) - 1)]
        for name, group in groups:
            out += ["| " + " | ".join((name, *latency_cells(e))) + " |" for e in group]
        out.append("")
    if doc["run"]["failures"]:
        out += ["## Failed rows", ""]
        out += [f"- `{f['id']}`: {f['error']}" for f in doc["run"]["failures"]] + [""]
    if doc["run"]["left_out"]:
        out += ["## Not run", "", "```", *doc["run"]["left_out"], "```", ""]
    return "\n".join(out)


# Plots

def _pyplot():
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({
        "font.family": "DejaVu Sans", "font.size": 9, "svg.fonttype": "path",
        "svg.hashsalt": "iomap-dio", "axes.spines.top": False, "axes.spines.right": False,
        "axes.spines.left": False, "axes.edgecolor": "#888888", "ytick.left": False,
        "figure.facecolor": "white", "savefig.facecolor": "white"})
    from matplotlib import pyplot
    return pyplot


def _lines(entries):
    """The lines of the plot: (kind, engine), those some file system has, kinds apart."""
    return [(kind, engine) for kind in bench_rows.KINDS for engine in bench_rows.ENGINES
            if any(e["row"].kind == kind and e["row"].engine == engine for e in entries)]


def _place(lines, title=0.9, gap=0.35):
    """The y of each line and of each kind's title."""
    y, at, titles, last = 0.0, {}, {}, None
    for kind, engine in lines:
        if kind != last:
            y += gap if last else 0
            titles[kind] = y
            y += title
            last = kind
        at[kind, engine] = y
        y += 1
    return at, titles, y


def _axes(pyplot, entries, note, title, subtitle):
    from matplotlib.transforms import blended_transform_factory
    systems = [fs for fs in bench_rows.FILESYSTEMS
               if fs != "raw" and any(e["row"].fs == fs for e in entries)]
    lines = _lines(entries)
    at, titles, bottom = _place(lines)
    top = 1.25
    height = 0.33 * bottom + top + 0.6
    figure, axes = pyplot.subplots(1, len(systems), sharey=True, squeeze=False,
                                   figsize=(2.6 + 3.9 * len(systems), height))
    left = 1.62 / figure.get_figwidth()
    figure.subplots_adjust(left=left, right=0.98, top=1 - top / height, bottom=0.55 / height,
                           wspace=0.07)
    figure.text(0.012, 1 - 0.12 / height, title, fontsize=13, fontweight="bold", va="top")
    figure.text(0.012, 1 - 0.43 / height, subtitle, fontsize=9, color="#444444", va="top")
    figure.text(0.988, 0.06 / height, note, fontsize=6.5, color="#777777", ha="right", va="bottom")
    axes = dict(zip(systems, axes[0]))
    for index, (fs, ax) in enumerate(axes.items()):
        ax.set_ylim(bottom - 0.4, -0.6)
        ax.set_yticks([at[line] for line in lines],
                      [bench_rows.ENGINES[engine][0] for _, engine in lines])
        ax.tick_params(axis="y", length=0)
        ax.tick_params(axis="x", labelsize=8, color="#888888")
        ax.set_title(bench_rows.FILESYSTEMS[fs], fontweight="bold", fontsize=10.5, pad=6)
        for line in lines:
            if [other for other in lines if other[0] == line[0]].index(line) % 2 == 0:
                ax.axhspan(at[line] - 0.5, at[line] + 0.5, color="#f4f5f7", zorder=0, lw=0)
        for kind, y in titles.items():
            if index == 0:
                # along the left edge of the figure, over its group
                where = blended_transform_factory(figure.transFigure, ax.transData)
                ax.text(0.012, y + 0.1, bench_rows.KINDS[kind], fontweight="bold", fontsize=9,
                        transform=where, ha="left", va="center", color="#222222")
        missing = [line for line in lines if not any(
            (e["row"].kind, e["row"].engine) == line for e in entries if e["row"].fs == fs)]
        for line in missing:
            ax.text(0.02, at[line], "does not bounce" if line[0].startswith("bounce") else "not run",
                    transform=ax.get_yaxis_transform(), fontsize=7.5, color="#999999",
                    va="center", style="italic")
    return figure, axes, at


def _dodge(row, sizes):
    """Sizes of one line stand below each other, the smallest on top."""
    if len(sizes) == 1:
        return 0
    return (sizes.index(row.bs) - (len(sizes) - 1) / 2) * 0.72 / (len(sizes) - 1)


def _sizes(entries, row):
    return [size for size in bench_rows.SIZES if any(
        (e["row"].kind, e["row"].engine, e["row"].bs) == (row.kind, row.engine, size)
        for e in entries)]


def plot_ratio(pyplot, entries, note):
    """Rust/C with its interval: a line for each workload, a mark for each size."""
    from matplotlib.ticker import MaxNLocator
    entries = [e for e in entries if "ratio" in e]
    v = verdict(entries)
    figure, axes, at = _axes(
        pyplot, entries, note, "Direct I/O in Rust against C: IOPS ratio",
        f"Right of 1.00 Rust is faster. Median of paired rounds, 95 % bootstrap interval. "
        f"Geometric mean {v['geomean']:.3f}.")
    shown = [size for size in bench_rows.SIZES if any(e["row"].bs == size for e in entries)]
    # Every median is in view; a wide interval may run off the edge, where an arrow says so.
    low = min(0.95, *(max(e["ratio"]["low"], e["ratio"]["median"] - 0.1) for e in entries)) - 0.01
    high = max(1.05, *(min(e["ratio"]["high"], e["ratio"]["median"] + 0.1) for e in entries)) + 0.01
    for ax in axes.values():
        ax.axvline(1, color=BLACK, lw=1, zorder=1)
        ax.grid(axis="x", color="#dddddd", lw=0.6, zorder=0)
        ax.set_xlim(low, high)
        ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        ax.xaxis.set_major_formatter("{x:.2f}")
        ax.set_xlabel("IOPS, Rust / C", fontsize=8.5)
    for e, ax, y in _each(axes, at, entries):
        ratio = e["ratio"]
        colour, marker = SIZE_STYLE[e["row"].bs]
        sure = ratio["low"] > 1 or ratio["high"] < 1
        ax.plot([ratio["low"], ratio["high"]], [y, y], color=colour, lw=1.4, zorder=2,
                solid_capstyle="butt")
        for edge, arrow, gone in ((low, "<", ratio["low"] < low), (high, ">", ratio["high"] > high)):
            if gone:
                ax.plot(edge, y, arrow, color=colour, ms=4, zorder=3, clip_on=False)
        ax.plot(ratio["median"], y, marker, color=colour, ms=4.2, zorder=3, mew=1,
                mfc=colour if sure else "white")
    _legend(figure, pyplot, [(SIZE_STYLE[s][0], SIZE_STYLE[s][1], SIZE_STYLE[s][0], s) for s in shown]
            + [("#666666", "o", "white", "interval includes 1.00")])
    return figure


def _each(axes, at, entries):
    for e in entries:
        if e["row"].fs in axes:
            row = e["row"]
            yield e, axes[row.fs], at[row.kind, row.engine] + _dodge(row, _sizes(entries, row))


def _sides(figure, pyplot, entries):
    """The legend of plots in which colour says whose number it is."""
    marks = [(BLUE, "o", "white", "C")]
    if any("rust" in e for e in entries):
        marks.append((VERMILION, "o", VERMILION, "Rust"))
    _legend(figure, pyplot, [*marks, (BLACK, "|", BLACK, "bare block device")])


def plot_iops(pyplot, entries, note):
    """Absolute IOPS of C and Rust, and of the bare device."""
    from matplotlib.ticker import FuncFormatter
    entries = [e for e in entries if e["row"].fs != "raw"]
    figure, axes, at = _axes(
        pyplot, entries, note, "Direct I/O: IOPS of file systems and of the bare device",
        "Within a line the block sizes stand below each other, the smallest on top. Logarithmic.")
    values = [e[side]["iops"] for e in entries for side in ("c", "rust") if side in e]
    values += [e["raw"] for e in entries if "raw" in e]
    for ax in axes.values():
        ax.set_xscale("log")
        ax.set_xlim(min(values) / 1.5, max(values) * 1.4)
        ax.xaxis.set_major_formatter(FuncFormatter(
            lambda x, _: f"{x / 1e6:g}M" if x >= 1e6 else f"{x / 1000:g}k" if x >= 1000 else f"{x:g}"))
        ax.grid(axis="x", color="#dddddd", lw=0.6, zorder=0)
        ax.set_xlabel("IOPS", fontsize=8.5)
    for e, ax, y in _each(axes, at, entries):
        if "raw" in e:
            ax.plot([e.get("rust", e["c"])["iops"], e["raw"]], [y, y], color="#bbbbbb", lw=0.9, zorder=1)
            ax.plot(e["raw"], y, "|", color=BLACK, ms=6, mew=1.4, zorder=2)
        ax.plot(e["c"]["iops"], y, "o", mfc="white", mec=BLUE, ms=4.6, mew=1.1, zorder=3)
        if "rust" in e:
            ax.plot(e["rust"]["iops"], y, "o", color=VERMILION, ms=2.6, zorder=4)
    _sides(figure, pyplot, entries)
    return figure


def plot_raw(pyplot, entries, note):
    """The part of the bare device's IOPS that C and Rust reach: the distance to shrink."""
    entries = [e for e in entries if "raw" in e]
    figure, axes, at = _axes(
        pyplot, entries, note, "Direct I/O: how much of the bare device a file system delivers",
        "IOPS relative to the same I/O on the block device. Block sizes below each other, the smallest on top.")
    # A few writes beat the device, for bouncing need not pin the user's pages: cut off, with a number.
    limit = 125
    parts = [e[side]["iops"] / e["raw"] for e in entries for side in ("c", "rust") if side in e]
    for ax in axes.values():
        ax.axvline(100, color=BLACK, lw=1, zorder=1)
        ax.grid(axis="x", color="#dddddd", lw=0.6, zorder=0)
        ax.set_xlim(0, min(limit, 100 * max(1.05, max(parts) + 0.03)))
        ax.xaxis.set_major_formatter("{x:.0f} %")
        ax.set_xlabel("of the bare block device", fontsize=8.5)
    for e, ax, y in _each(axes, at, entries):
        reach = [100 * e[side]["iops"] / e["raw"] for side in ("c", "rust") if side in e]
        ax.plot([min([*reach, limit]), 100], [y, y], color="#c8c8c8", lw=0.9, zorder=1)
        if max(reach) > limit:
            ax.text(limit - 1, y, f"{reach[-1]:.0f} %", fontsize=6.5, ha="right", va="center",
                    color="#444444", zorder=5, bbox={"fc": "white", "ec": "none", "pad": 0.6})
            continue
        ax.plot(reach[0], y, "o", mfc="white", mec=BLUE, ms=4.6, mew=1.1, zorder=3)
        if len(reach) > 1:
            ax.plot(reach[1], y, "o", color=VERMILION, ms=2.8, zorder=4)
    _sides(figure, pyplot, entries)
    return figure


def _legend(figure, pyplot, marks):
    handles = [pyplot.Line2D([], [], color=colour, marker=marker, mfc=fill, ls="", ms=5, label=label)
               for colour, marker, fill, label in marks]
    figure.legend(handles=handles, loc="upper left", ncol=len(handles), frameon=False, fontsize=8.5,
                  bbox_to_anchor=(0.004, 1 - 0.58 / figure.get_figheight()), handletextpad=0.2,
                  columnspacing=1.4, borderpad=0.2)


def write_plots(out, doc, entries):
    """The files written, with a text for who cannot see them."""
    if not any(e["row"].fs != "raw" for e in entries):
        return []
    try:
        pyplot = _pyplot()
    except ImportError:
        print("no pictures: apt-get install python3-matplotlib", file=sys.stderr)
        return []
    note = f"{doc['machine']['cpu']}, Linux {doc['run']['kernel']['release']}, {doc['date'][:10]}"
    plots = []
    if any("ratio" in e for e in entries):
        plots.append(("bench", "IOPS of Rust relative to C for every row", plot_ratio))
        plots.append(("bench-iops", "IOPS of C, Rust and the bare device", plot_iops))
    else:
        plots.append(("bench", "IOPS of C and of the bare device", plot_iops))
    if any("raw" in e for e in entries):
        plots.append(("bench-raw", "Part of the bare device's IOPS that is reached", plot_raw))
    for name, _, draw in plots:
        figure = draw(pyplot, entries, note)
        figure.savefig(out / f"{name}.svg", metadata={"Date": None})
        figure.savefig(out / f"{name}.png", dpi=160)
        pyplot.close(figure)
    return [(f"{name}.svg", alt) for name, alt, _ in plots]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="what run.py wrote, or a bench.json to draw again")
    parser.add_argument("--out", required=True, type=Path, help="folder to write to")
    parser.add_argument("--config", type=Path, help=".config of the kernel")
    parser.add_argument("--date", default="")
    parser.add_argument("--commit", default="")
    parser.add_argument("--dirty", action="store_true")
    args = parser.parse_args()
    try:
        doc = json.loads(args.run.read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"error: {args.run}: {error}")
    if "run" not in doc:
        rows = {row.id: row for row in bench_rows.all_rows(doc["settings"].get("machine", "uml"))}
        doc = {"date": args.date, "machine": machine(), "config": kconfig(args.config),
               "git": {"commit": args.commit, "dirty": args.dirty}, "run": doc,
               "definitions": {e["id"]: {"fs": rows[e["id"]].fs, "kind": rows[e["id"]].kind,
                                         "engine": rows[e["id"]].engine, "bytes": rows[e["id"]].bytes,
                                         "ceiling": rows[e["id"]].raw_id, "fio": e.pop("fio")}
                               for e in doc["rows"]}}
    entries = digest(doc["run"])
    if not entries:
        sys.exit("error: no row was measured")
    doc["summary"] = {e["row"].id: {k: v for k, v in e.items() if k != "row"} for e in entries}

    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "bench.json").write_text(json.dumps(doc, indent=1) + "\n")
    plots = write_plots(args.out, doc, entries)
    (args.out / "report.md").write_text(markdown(doc, entries, plots))

    print(text_table(entries))
    if any("latency" in e for e in entries):
        print("\n" + latency_text(entries))
    print()
    for name, value in facts(doc):
        print(f"  {name:<9} {value}")
    for failure in doc["run"]["failures"]:
        print(f"  FAILED    {failure['id']}: {failure['error']}")


if __name__ == "__main__":
    main()
