# SPDX-License-Identifier: GPL-2.0
"""Makes the JSON, the report and the picture of what was measured by time, and what all reports share."""

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import rows as bench_rows
import stats

# What is known of a row, with the row itself under "row"; a whole run with what it ran on.
Entry = dict[str, Any]
Document = dict[str, Any]
Facts = Iterable[tuple[str, str]]
Cells = Callable[[Entry], Sequence[str]]
Verdict = Callable[[str, list[Entry]], str]

# Okabe and Ito's palette: told apart with any colour vision.
BLACK, ORANGE, SKY, BLUE, VERMILION, PURPLE, GREEN = (
    "#000000", "#E69F00", "#56B4E9", "#0072B2", "#D55E00", "#CC79A7", "#009E73")
SIZE_STYLE = {"512": (BLACK, "v"), "2k": (PURPLE, "P"), "4k": (BLUE, "o"), "8k": (GREEN, "X"), "16k": (SKY, "s"),
              "64k": (ORANGE, "D"), "128k": (BLACK, "<"), "1M": (VERMILION, "^")}


# Tables

def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """By file system, then kind: the order of measurement does not matter to a reader."""
    names = [list(table) for table in (bench_rows.FILESYSTEMS, bench_rows.KINDS, ["", *bench_rows.LATER],
                                       bench_rows.ENGINES, bench_rows.SIZES)]

    def key(e: Entry) -> tuple[int, ...]:
        row = e["row"]
        words = (row.fs, row.kind, row.on, row.engine, row.bs)
        return *(table.index(word) for table, word in zip(names, words, strict=True)), row.in_flight

    return sorted(entries, key=key)


def markdown_table(head: Sequence[str], lines: Iterable[Sequence[str]], left: int) -> list[str]:
    """The first columns are to the left, the others to the right."""
    return ["| " + " | ".join(head) + " |", "|" + "---|" * left + "--:|" * (len(head) - left),
            *("| " + " | ".join(line) + " |" for line in lines), ""]


def markdown_tables(entries: list[Entry], unit: str, head: Sequence[str], cells: Cells,
                    verdict: Verdict | None) -> list[str]:
    """A table for each file system, from in_order()."""
    out = []
    for fs, of_fs in groupby(entries, lambda e: e["row"].fs):
        mine, name = list(of_fs), bench_rows.FILESYSTEMS[fs]
        out += [f"## {name}{unit}", ""]
        if verdict and fs != "raw":
            out += [verdict(name, mine) + ".", ""]
        out += markdown_table(("workload", *head), [(bench_rows.KINDS[e["row"].kind], *cells(e)) for e in mine], 2)
    return out


def plain(markdown: str, widest: int = 72) -> str:
    """A report for a terminal: its tables in columns, and no pictures."""
    out = []
    for is_table, lines in groupby(markdown.splitlines(), lambda line: line.startswith("|")):
        if not is_table:
            out += [line for line in lines if not line.startswith("![")]
            continue
        head, rule, *rest = (line.replace("&emsp;", "  ").replace("**", "").replace("`", "") for line in lines)
        table = [[cell if len(cell) <= widest else "…" + cell[1 - widest:] for cell in line[2:-2].split(" | ")]
                 for line in (head, *rest)]
        width = [max(map(len, column)) for column in zip(*table, strict=True)]
        to_the_right = [mark.endswith(":") for mark in rule[1:-1].split("|")]
        out += ["  ".join(cell.rjust(w) if right else cell.ljust(w) for cell, w, right
                          in zip(line, width, to_the_right, strict=True)).rstrip() for line in table]
    return "\n".join(out)


# Reports

def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What a report says of the checkout and the time, and where it goes."""
    parser.add_argument("--out", required=True, type=Path, help="folder to write to")
    parser.add_argument("--date", default="")
    parser.add_argument("--commit", default="")
    parser.add_argument("--dirty", action="store_true")


def kconfig(path: Path) -> dict[str, str]:
    """The version strings in a .config, and a hash of the whole."""
    if not path.is_file():
        return {}
    text = path.read_text()
    out = {"sha256": hashlib.sha256(text.encode()).hexdigest()}
    for key, name in (("rustc", "RUSTC_VERSION_TEXT"), ("compiler", "CC_VERSION_TEXT")):
        match = re.search(rf'^CONFIG_{name}="(.*)"$', text, re.M)
        if match:
            out[key] = match.group(1)
    return out


def origin(args: argparse.Namespace, config: Path) -> Document:
    """The part of a document that says where it comes from."""
    return {"date": args.date, "config": kconfig(config), "git": {"commit": args.commit, "dirty": args.dirty}}


def facts(doc: Document, machine: str, kernel: str, load: str, device: str = "") -> Iterator[tuple[str, str]]:
    config, git = doc["config"], doc["git"]
    yield "date", doc["date"]
    yield "machine", machine
    yield "kernel", kernel
    if device:
        yield "device", device
    for name in ("compiler", "rustc"):
        if name in config:
            yield name, config[name]
    if "sha256" in config:
        yield "config", f"sha256 {config['sha256'][:16]}"
    if git["commit"]:
        yield "commit", git["commit"][:12] + (" (with uncommitted changes)" if git["dirty"] else "")
    yield "load", load


def save(out: Path, name: str, doc: Document) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / name).write_text(json.dumps(doc, indent=1) + "\n")


def save_page(out: Path, title: str, known: Facts, body: Iterable[str], failures: Sequence[dict[str, str]],
              left_out: Sequence[str] = ()) -> None:
    """The report, in Markdown, and on the terminal."""
    lines = [f"# {title}", "", *(f"- {name}: {value}" for name, value in known), "", *body]
    if failures:
        lines += ["## Failed rows", "", *(f"- `{f['id']}`: {f['error']}" for f in failures), ""]
    if left_out:
        lines += ["## Not run", "", "```", *left_out, "```", ""]
    (out / "report.md").write_text("\n".join(lines))
    print(plain("\n".join(lines)))


# Pictures

def pyplot() -> Any:
    import matplotlib
    matplotlib.use("agg")
    matplotlib.rcParams.update({
        "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False,
        "axes.edgecolor": "#888888", "ytick.left": False})
    from matplotlib import pyplot as plt
    return plt


def draw_ratio(entries: list[Entry], span: Callable[[Entry], tuple[float, float, float, bool]], note: str,
               title: str, subtitle: str, label: str, legend: Sequence[tuple[str, str, str, str]] = ()) -> Any:
    """Rust/C: axes for each file system, a line for each workload, a mark for each size.

    span(entry) has the ends of a stroke, with the ratio in between, and whether its mark is filled.
    """
    from matplotlib.lines import Line2D
    spans = [span(e) for e in entries]
    have = {(e["row"].kind, e["row"].engine, e["row"].bs) for e in entries}
    systems = [fs for fs in bench_rows.FILESYSTEMS if any(fs == e["row"].fs for e in entries)]
    lines = [(kind, engine) for kind in bench_rows.KINDS for engine in bench_rows.ENGINES
             if any((kind, engine) == line[:2] for line in have)]
    figure, (axes,) = pyplot().subplots(1, len(systems), sharey=True, squeeze=False, layout="constrained",
                                        figsize=(3.4 + 3.2 * len(systems), 1.7 + 0.25 * len(lines)))

    def height(row: bench_rows.Row) -> float:
        """Sizes of one line stand below each other, the smallest on top."""
        mine = [size for size in bench_rows.SIZES if (row.kind, row.engine, size) in have]
        return lines.index((row.kind, row.engine)) + (mine.index(row.bs) - (len(mine) - 1) / 2) * 0.7 / len(mine)

    mean = geometric_mean(ratio for _, ratio, _, _ in spans)
    figure.suptitle(f"{title}\n{subtitle} Geometric mean {mean:.3f}.", fontsize=10)
    figure.supxlabel(note, x=0.99, ha="right", fontsize=6.5, color="#777777")
    # Every ratio is in view; a wide interval may run off the edge.
    low = min(0.95, *(max(left, ratio - 0.1) for left, ratio, _, _ in spans)) - 0.01
    high = max(1.05, *(min(right, ratio + 0.1) for _, ratio, right, _ in spans)) + 0.01
    for fs, ax in zip(systems, axes, strict=True):
        ax.set(title=bench_rows.FILESYSTEMS[fs], xlim=(low, high), xlabel=label, ylim=(len(lines) - 0.4, -0.6))
        ax.set_yticks(range(len(lines)), [f"{bench_rows.KINDS[kind]}, {bench_rows.ENGINES[engine][0]}"
                                          for kind, engine in lines], fontsize=7)
        ax.axvline(1, color=BLACK, lw=1, zorder=1)
        ax.hlines(range(len(lines)), low, high, color="#dddddd", lw=0.6, zorder=0)
        for bs, (colour, marker) in SIZE_STYLE.items():
            placed = [(height(e["row"]), *ends) for e, ends in zip(entries, spans, strict=True)
                      if (e["row"].fs, e["row"].bs) == (fs, bs)]
            if placed:
                heights, lefts, ratios, rights, filled = zip(*placed, strict=True)
                ax.hlines(heights, lefts, rights, color=colour, lw=1.4, zorder=2)
                ax.scatter(ratios, heights, 18, [colour if full else "white" for full in filled], marker,
                           edgecolors=colour, zorder=3, clip_on=False)
    marks = [*((*style, style[0], size) for size, style in SIZE_STYLE.items() if any(size == bs for *_, bs in have)),
             *legend]
    figure.legend(handles=[Line2D([], [], color=colour, marker=marker, mfc=fill, ls="", ms=5, label=text)
                           for colour, marker, fill, text in marks],
                  loc="outside lower left", ncol=len(marks), frameon=False, fontsize=8.5)
    return figure


def picture(path: Path, alt: str, entries: list[Entry], *args: Any) -> list[str]:
    """draw_ratio(), as lines of the report; none if no row has a ratio."""
    entries = [e for e in entries if "ratio" in e]
    if not entries:
        return []
    try:
        figure = draw_ratio(entries, *args)
    except ImportError:
        print("no picture: apt-get install python3-matplotlib", file=sys.stderr)
        return []
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return [f"![{alt}]({path.name})", ""]


# A run that measured time

def digest(run: Document) -> list[Entry]:
    """Summaries of the rows, raw beside each."""
    rows = {row.id: row for row in bench_rows.all_rows("device")}
    found: dict[str, Entry] = {
        entry["id"]: {"row": rows[entry["id"]], **stats.summary(entry["samples"]),
                      **({"latency": entry["latency"]} if "latency" in entry else {})}
        for entry in run["rows"]}
    # Where a part of the bare device's I/O was done twice it is no ceiling, see device.py.
    twice = {entry["id"] for entry in run["rows"] if entry["id"].startswith("raw/") and entry["fio_share"] < 0.9}
    for entry in found.values():
        raw = entry["row"].raw_id
        if entry["row"].fs != "raw" and raw in found and raw not in twice:
            entry["raw"] = found[raw]["c"]["iops"]
            entry["of_raw"] = entry["rust"]["iops"] / entry["raw"]
    return in_order(found.values())


def verdict(name: str, entries: list[Entry]) -> str:
    """Counts of rows by what their interval says, and the geometric mean."""
    ratios = [entry["ratio"] for entry in entries if "ratio" in entry]
    faster, slower = sum(r["low"] > 1 for r in ratios), sum(r["high"] < 1 for r in ratios)
    return (f"{name}: Rust/C {geometric_mean(r['median'] for r in ratios):.3f} (geometric mean of {len(ratios)} rows); "
            f"{faster} faster, {len(ratios) - faster - slower} within noise, {slower} slower")


def kilo(iops: float | None) -> str:
    if iops is None:
        return ""
    return f"{iops / 1000:.{2 if iops < 10e3 else 1}f}k"


HEAD = ("row", "C", "Rust", "Rust/C", "95 % interval", "spread", "raw", "of raw")


def cells(entry: Entry) -> tuple[str, ...]:
    ratio = entry.get("ratio")
    return (
        entry["row"].label,
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


def latency_cells(entry: Entry) -> tuple[str, ...]:
    """Microseconds; of the processors, for each I/O."""
    def show(value: float | None) -> str:
        return "" if value is None else f"{value:.1f}"

    cpu = [entry[side]["usr_us"] + entry[side]["sys_us"] if side in entry else None for side in ("c", "rust")]
    return (entry["row"].label,
            *(show(entry["latency"].get(side, {}).get(p)) for p in LATENCY for side in ("c", "rust")),
            *(show(value) for value in cpu))


def timed_facts(doc: Document) -> Iterator[tuple[str, str]]:
    run = doc["run"]
    rounds = [e["rounds"] for e in run["rows"]]
    count = str(max(rounds)) if min(rounds) == max(rounds) else f"{min(rounds)} to {max(rounds)}"
    yield from facts(
        doc, f"{run['guest']['cpu']}, {run['guest']['cpus']} cores",
        f"{run['kernel']['release']} ({run['kernel']['machine']})",
        f"{run['guest']['fio']}, {count} rounds in {run['settings']['budget']:g} s a row, "
        f"{int(run['seconds']) // 60}:{int(run['seconds']) % 60:02d} in all", run.get("device", ""))


def body_of(run: Document) -> Iterator[str]:
    yield from ("IOPS, as medians. *Rust/C* is the median over paired rounds inside one boot, with a 95 %",
                "bootstrap interval of that median; *spread* is half the interquartile range of one round.",
                "*raw* is the same I/O on the bare block device, *of raw* the part of it that Rust reaches.", "")
    if any(e["fio_share"] < 0.9 for e in run["rows"] if e["id"].startswith("raw/")):
        yield from ("Polled 1M has no ceiling here: on the bare device such a bio must not wait but would have to",
                    "be split for the device, so that io_uring has each done a second time, by a worker.", "")


def write(run: Document, args: argparse.Namespace, config: Path) -> None:
    """All that is made of what device.py measured."""
    doc = {**origin(args, config), "run": run}
    entries = digest(run)
    if not entries:
        sys.exit("error: no row was measured")
    doc["summary"] = {e["row"].id: {k: v for k, v in e.items() if k != "row"} for e in entries}
    save(args.out, "bench.json", doc)

    def span(e: Entry) -> tuple[float, float, float, bool]:
        ratio = e["ratio"]
        return ratio["low"], ratio["median"], ratio["high"], ratio["low"] > 1 or ratio["high"] < 1

    shown = picture(
        args.out / "bench.png", "IOPS of Rust relative to C for every row", entries, span,
        f"{run['guest']['cpu']}, Linux {run['kernel']['release']}, {doc['date'][:10]}",
        "Direct I/O in Rust against C: IOPS ratio",
        "Right of 1.00 Rust is faster. Median of paired rounds, 95 % bootstrap interval.", "IOPS, Rust / C",
        [("#666666", "o", "white", "interval includes 1.00")])
    # The bare device stands beside the others, unless there are none.
    of_fs = [e for e in entries if e["row"].fs != "raw"] or entries
    save_page(args.out, "Direct I/O: Rust against C", timed_facts(doc), [
        *body_of(run), *shown, *markdown_tables(of_fs, "", HEAD, cells, verdict),
        *markdown_tables([e for e in entries if "latency" in e],
                         ": latency, and processor time for each I/O, in microseconds",
                         LATENCY_HEAD, latency_cells, None)], run["failures"], run["left_out"])
