"""Cases of Megaton alone: a repeated batch, and many jobs over few URLs."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from .batch import Photo, make_batch
from .cases import SIZE
from .errors import PeerFailed
from .peers import Megaton, Stage
from .rounds import WARM_JOBS, Measurement, begin, check, timed
from .settings import REPEAT_JOBS, REPEAT_URLS

#: Workers add their counters to those of the cache every five seconds.
COUNTERS_SECONDS = 6

Round = TypeVar("Round")


def again(stage: Stage, photos: list[Photo], jobs: int, rounds: int) -> dict[str, object]:
    """Runs the same batch twice, into two directories, without emptying the cache."""

    def once(megaton: Megaton, outputs: Path) -> tuple[Measurement, Measurement]:
        url = stage.origin.url(photos[0].path.parent.name)
        batches = [make_batch(photos, jobs, (SIZE,), outputs / name, url, "again") for name in ("first", "second")]
        first, second = (timed(stage, megaton, batch) for batch in batches)
        renders = _renders(megaton)
        for batch in batches:
            check(megaton, batch)
        # The rest are the warm-up jobs.
        if renders != jobs + warm_jobs(stage):
            raise PeerFailed(f"{jobs} jobs, done twice, took {renders - warm_jobs(stage)} renders")
        _say(f"{jobs} jobs in {first.seconds:.2f} s, then in {second.seconds:.2f} s")
        return first, second

    def summary(pairs: list[tuple[Measurement, Measurement]]) -> dict[str, object]:
        return {
            "jobs": jobs,
            "first_seconds": statistics.median(first.seconds for first, _ in pairs),
            "second_seconds": statistics.median(second.seconds for _, second in pairs),
            "first_over_second": statistics.median(first.seconds / second.seconds for first, second in pairs),
            "second_gets": [second.gets for _, second in pairs],
            "rounds": [{"first": asdict(first), "second": asdict(second)} for first, second in pairs],
        }

    return _rounds("again", stage, photos, rounds, once, summary)


@dataclass(frozen=True)
class Repeat:
    """A round of `repeat`."""

    few: Measurement
    #: The same jobs again, which are hits.
    few_hits: Measurement
    first: Measurement
    #: The same jobs again: their cost without fetches and renders.
    hits: Measurement
    #: Counted by the shared cache.
    first_renders: int
    hits_renders: int

    @property
    def over_goal(self) -> float:
        """Time of the many jobs, divided by that of the few jobs plus that of the many hits."""
        return self.first.seconds / (self.few.seconds + self.hits.seconds)


def repeat(stage: Stage, web: list[Photo], rounds: int) -> dict[str, object]:
    """Runs one job for each URL, then a hundred for each of as many other URLs, and both again."""

    def once(megaton: Megaton, outputs: Path) -> Repeat:
        url = stage.origin.url(web[0].path.parent.name)
        few = []
        for name in ("few", "few-hits"):
            batch = make_batch(web, REPEAT_URLS, (SIZE,), outputs / name, url, "few")
            few.append(timed(stage, megaton, batch))
            check(megaton, batch)
        renders = [_renders(megaton)]
        many = []
        for name in ("first", "hits"):
            batch = make_batch(web, REPEAT_JOBS, (SIZE,), outputs / name, url, "many", distinct=REPEAT_URLS)
            many.append(timed(stage, megaton, batch))
            check(megaton, batch)
            renders.append(_renders(megaton))
        one = Repeat(*few, *many, renders[1] - renders[0], renders[2] - renders[1])
        for what, count in (("GETs", one.first.gets), ("renders", one.first_renders)):
            if count != REPEAT_URLS:
                raise PeerFailed(f"{REPEAT_JOBS} jobs over {REPEAT_URLS} URLs took {count} {what}")
        _say(
            f"{REPEAT_JOBS} jobs in {one.first.seconds:.2f} s, {one.first.gets} GETs, {one.first_renders} renders; "
            f"again in {one.hits.seconds:.2f} s; {REPEAT_URLS} jobs in "
            f"{one.few.seconds:.2f} s, again in {one.few_hits.seconds:.2f} s"
        )
        return one

    def summary(all: list[Repeat]) -> dict[str, object]:
        return {
            "jobs": REPEAT_JOBS,
            "urls": REPEAT_URLS,
            "few_seconds": statistics.median(one.few.seconds for one in all),
            "few_hits_seconds": statistics.median(one.few_hits.seconds for one in all),
            "first_seconds": statistics.median(one.first.seconds for one in all),
            "hits_seconds": statistics.median(one.hits.seconds for one in all),
            "first_over_few_and_hits": statistics.median(one.over_goal for one in all),
            "first_gets": [one.first.gets for one in all],
            "first_renders": [one.first_renders for one in all],
            "hits_gets": [one.hits.gets for one in all],
            "hits_renders": [one.hits_renders for one in all],
            "rounds": [asdict(one) for one in all],
        }

    return _rounds("repeat", stage, web, rounds, once, summary)


def _rounds(
    case: str,
    stage: Stage,
    photos: list[Photo],
    count: int,
    once: Callable[[Megaton, Path], Round],
    summary: Callable[[list[Round]], dict[str, object]],
) -> dict[str, object]:
    """Runs the rounds, each with a new Megaton, and returns their summary, or the failure."""
    done = []
    try:
        for number in range(count):
            megaton = Megaton(stage)
            try:
                outputs = _start(stage, megaton, photos)
                print(f"{case}: round {number + 1} of {count}: ", end="", file=sys.stderr, flush=True)
                done.append(once(megaton, outputs))
            finally:
                megaton.stop()
    except PeerFailed as error:
        _say(f"failed: {error}")
        return {"failure": str(error)}
    return summary(done)


def _renders(megaton: Megaton) -> int:
    """Number of renders of all workers."""
    time.sleep(COUNTERS_SECONDS)
    return int(str(megaton.counters()["renders"]))


def _start(stage: Stage, megaton: Megaton, photos: list[Photo]) -> Path:
    """Starts Megaton on empty servers and warms it up; returns the directory for outputs."""
    outputs = begin(stage)
    megaton.start(outputs)
    kind = photos[0].path.parent.name
    megaton.do(make_batch(photos, warm_jobs(stage), (SIZE,), outputs / "warm", stage.origin.url(kind), "warm"))
    return outputs


def warm_jobs(stage: Stage) -> int:
    """Number of warm-up jobs."""
    return stage.settings.cores * WARM_JOBS


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
