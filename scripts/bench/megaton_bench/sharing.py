"""What only Megaton has a figure for: a batch done again, and many jobs over few URLs."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from .batch import Photo, make_batch
from .errors import PeerFailed
from .peers import Megaton, Stage
from .rounds import WARM_JOBS, Measurement, begin, check, timed
from .settings import REPEAT_JOBS, REPEAT_URLS, SIZE

#: Workers add their counters to the cache's every five seconds.
COUNTERS_SECONDS = 6


@dataclass(frozen=True)
class Pair:
    """Two batches of one run, and what the shared cache counted for the second."""

    first: Measurement
    second: Measurement
    renders: int | None = None
    distinct: int | None = None


def run_again(stage: Stage, photos: list[Photo], jobs: int, rounds: int) -> list[Pair]:
    """The same batch twice, into two directories, with the cache kept between."""
    pairs = []
    for number in range(rounds):
        megaton = Megaton(stage)
        try:
            outputs, url = _start(stage, megaton, photos), stage.origin.url("photos")
            batches = [make_batch(photos, jobs, (SIZE,), outputs / name, url, "again") for name in ("first", "second")]
            first, second = (timed(stage, megaton, batch) for batch in batches)
            check(megaton, batches[1])
            pairs.append(Pair(first, second))
            _say(f"again: round {number + 1} of {rounds}: {first.seconds:.2f} s, then {second.seconds:.2f} s")
        finally:
            megaton.stop()
    return pairs


def run_repeat(stage: Stage, web: list[Photo], rounds: int) -> list[Pair]:
    """As many jobs as there are URLs, then a hundred times as many over as many others."""
    pairs = []
    for number in range(rounds):
        megaton = Megaton(stage)
        try:
            outputs, url = _start(stage, megaton, web), stage.origin.url("web")
            few = make_batch(web, REPEAT_URLS, (SIZE,), outputs / "few", url, "few")
            first = timed(stage, megaton, few)
            time.sleep(COUNTERS_SECONDS)
            before = megaton.counters()
            many = make_batch(web, REPEAT_JOBS, (SIZE,), outputs / "many", url, "many", distinct=REPEAT_URLS)
            second = timed(stage, megaton, many)
            check(megaton, many)
            after = megaton.statistics()
            renders = int(str(after["renders"])) - int(str(before["renders"]))
            pairs.append(Pair(first, second, renders, REPEAT_URLS))
            _say(
                f"repeat: round {number + 1} of {rounds}: {REPEAT_JOBS} jobs in {second.seconds:.2f} s, "
                f"{second.gets} GETs, {renders} renders"
            )
        finally:
            megaton.stop()
    return pairs


def summary(run: Callable[[], list[Pair]]) -> dict[str, object]:
    """Runs, and gives medians for the report and all rounds; or why there are none."""
    try:
        pairs = run()
    except PeerFailed as error:
        _say(f"failed: {error}")
        return {"failure": str(error)}
    return {
        "first_seconds": statistics.median(pair.first.seconds for pair in pairs),
        "second_seconds": statistics.median(pair.second.seconds for pair in pairs),
        "first_over_second": statistics.median(pair.first.seconds / pair.second.seconds for pair in pairs),
        "jobs": [pairs[0].first.jobs, pairs[0].second.jobs],
        "second_gets": [pair.second.gets for pair in pairs],
        "second_renders": [pair.renders for pair in pairs],
        "rounds": [asdict(pair) for pair in pairs],
    }


def _start(stage: Stage, megaton: Megaton, photos: list[Photo]) -> Path:
    """Megaton on empty servers, warm; returns the directory for outputs."""
    outputs = begin(stage)
    megaton.start(outputs)
    kind = photos[0].path.parent.name
    jobs = stage.settings.cores * WARM_JOBS
    megaton.do(make_batch(photos, jobs, (SIZE,), outputs / "warm", stage.origin.url(kind), "warm"))
    return outputs


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
