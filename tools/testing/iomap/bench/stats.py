# SPDX-License-Identifier: GPL-2.0
"""The statistics of the benchmark: small, seeded, standard library only."""

import math
import random
from collections.abc import Iterable, Sequence
from statistics import median, quantiles
from typing import Any

RESAMPLES = 2000
Sample = dict[str, Any]


def bootstrap(values: Sequence[float], level: float = 0.95, seed: int = 1) -> tuple[float, float]:
    """The percentile bootstrap interval of the median of values.

    The seed is fixed: one set of samples always gives one interval.
    """
    rng = random.Random(seed)
    n = len(values)
    medians = sorted(median(rng.choices(values, k=n)) for _ in range(RESAMPLES))
    tail = (1 - level) / 2
    return (medians[math.floor(tail * (RESAMPLES - 1))],
            medians[math.ceil((1 - tail) * (RESAMPLES - 1))])


def spread(values: Sequence[float]) -> float:
    """Half the interquartile range, relative to the median: the noise of one round."""
    if len(values) < 2 or not median(values):
        return 0.0
    low, _, high = quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / median(values)


def pairs(samples: Iterable[Sample]) -> list[tuple[float, float]]:
    """(c, rust) IOPS of every round that has both."""
    rounds: dict[int, dict[str, float]] = {}
    for sample in samples:
        rounds.setdefault(sample["pair"], {})[sample["impl"]] = sample["iops"]
    return [(both["c"], both["rust"]) for _, both in sorted(rounds.items())
            if both.get("c") and both.get("rust")]


def summary(samples: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """What the table shows of the samples of a row."""
    out = {}
    for impl in ("c", "rust"):
        mine = [sample for sample in samples if sample["impl"] == impl]
        if not mine:
            continue
        ios = sum(sample["ios"] for sample in mine)
        out[impl] = {
            "iops": median(sample["iops"] for sample in mine),
            "spread": spread([sample["iops"] for sample in mine]),
            # processor time of the whole machine for each I/O
            "usr_us": 1e6 * sum(sample["usr"] for sample in mine) / ios if ios else 0,
            "sys_us": 1e6 * sum(sample["sys"] for sample in mine) / ios if ios else 0,
        }
    both = pairs(samples)
    if both:
        ratios = [rust / c for c, rust in both]
        low, high = bootstrap(ratios)
        out["ratio"] = {"median": median(ratios), "low": low, "high": high,
                        "spread": spread(ratios), "pairs": len(ratios)}
    return out
