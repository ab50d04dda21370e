"""Measures one batch of one contestant, and many of them in turns."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .batch import Batch, Photo, make_batch
from .cases import JPEG, Encoding
from .errors import PeerFailed
from .measuring import MemorySampler, cpu_seconds
from .peers import BareEngine, Contestant, Stage
from .quality import Judge, Quality, fault

#: Warm-up jobs for each processor.
WARM_JOBS = 12


@dataclass(frozen=True)
class Measurement:
    """One batch of one contestant."""

    jobs: int
    seconds: float
    #: None if unknown, like the values below.
    cpu: float | None
    peak: int | None
    gets: int | None
    bytes: float | None

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return self.jobs / self.seconds


@dataclass
class Row:
    """All rounds of one contestant in one case."""

    name: str
    title: str
    is_whole_path: bool
    engine_of: str | None = None
    rounds: list[Measurement] = field(default_factory=list)
    #: Rate in each round as a fraction of Megaton's rate in the same round.
    ratios: list[float] = field(default_factory=list)
    #: For an engine alone: rate of the contestant with this engine as a fraction of its own, in each round.
    shares: list[float] = field(default_factory=list)
    quality: Quality | None = None
    failure: str | None = None

    def median(self, value: Callable[[Measurement], float | None]) -> float | None:
        """None if unknown."""
        known = [number for one in self.rounds if (number := value(one)) is not None]
        return statistics.median(known) if known else None

    def summary(self) -> dict[str, object]:
        """For the JSON report."""
        result: dict[str, object] = {"name": self.name, "title": self.title, "whole_path": self.is_whole_path}
        if self.failure:
            return {**result, "failure": self.failure}
        rates = [one.rate for one in self.rounds]
        result |= {
            "engine_of": self.engine_of,
            "jobs": self.rounds[0].jobs,
            "images_per_second": {"median": statistics.median(rates), "min": min(rates), "max": max(rates)},
            "ratio_to_megaton": statistics.median(self.ratios) if self.ratios else None,
            "whole_path_share": statistics.median(self.shares) if self.shares else None,
            "cpu_seconds_per_image": self.median(lambda one: None if one.cpu is None else one.cpu / one.jobs),
            "peak_memory_bytes": self.median(lambda one: one.peak),
            "origin_gets": self.median(lambda one: one.gets),
            "bytes_per_output": self.median(lambda one: one.bytes),
            "quality": asdict(self.quality) if self.quality else None,
            "rounds": [asdict(one) for one in self.rounds],
        }
        return result


@dataclass(frozen=True)
class Case:
    """Images, sizes and number of jobs."""

    name: str
    kind: str
    photos: list[Photo]
    sizes: tuple[int, ...]
    jobs: int
    encoding: Encoding = JPEG


def run_case(stage: Stage, case: Case, contestants: list[type[Contestant]], rounds: int, judge: Judge) -> list[Row]:
    """Runs all contestants in turn for some rounds; a contestant that failed is not repeated.

    Each round begins with another contestant, so that none is always the first on the machine.
    """
    rows = [Row(one.name, one.title, one.is_whole_path, _engine_of(one, case, contestants)) for one in contestants]
    turns = _turns(list(zip(contestants, rows, strict=True)))
    for number in range(rounds):
        rates: dict[str, float] = {}
        first = number * max(1, len(turns) // rounds) % len(turns)
        for contestant, row in turns[first:] + turns[:first]:
            if row.failure:
                continue
            _say(f"{case.name}: round {number + 1} of {rounds}: {row.title} ")
            try:
                one = measure(stage, case, contestant(stage), row, judge)
            except PeerFailed as error:
                row.failure = str(error)
                _say(f"failed: {row.failure}\n")
                continue
            row.rounds.append(one)
            rates[row.name] = one.rate
            _say(f"{one.rate:.1f}/s\n")
        for row in rows:
            if row.name in rates and "megaton" in rates:
                row.ratios.append(rates[row.name] / rates["megaton"])
            if row.name in rates and row.engine_of in rates:
                row.shares.append(rates[row.engine_of] / rates[row.name])
    return rows


def _engine_of(one: type[Contestant], case: Case, contestants: list[type[Contestant]]) -> str | None:
    """Contestant with this engine, if both do the same work: for several sizes the bare loop decodes once for each."""
    if len(case.sizes) > 1 or one.engine_of is None:
        return None
    present = {other.name for other in contestants}
    return one.engine_of if one.engine_of in present else None


def _turns(all: list[tuple[type[Contestant], Row]]) -> list[tuple[type[Contestant], Row]]:
    """Puts each engine right behind its contestant, so that other load of the machine affects both."""
    engines = [turn for turn in all if turn[1].engine_of]
    turns = [turn for turn in all if not turn[1].engine_of]
    for engine in engines:
        owner = next((place for place, turn in enumerate(turns) if turn[1].name == engine[1].engine_of), len(turns) - 1)
        turns.insert(owner + 1, engine)
    return turns


def measure(stage: Stage, case: Case, contestant: Contestant, row: Row, judge: Judge) -> Measurement:
    """Starts a contestant on an empty Redis, warms it up, measures one batch, checks the outputs and stops it."""
    outputs = begin(stage)
    if isinstance(contestant, BareEngine):
        return alone(contestant, case)
    url = stage.origin.url(case.kind)
    cores = stage.settings.cores
    try:
        contestant.start(outputs)
        encoding = case.encoding
        warm = make_batch(case.photos, cores * WARM_JOBS, case.sizes, outputs / "warm", url, "warm", encoding=encoding)
        contestant.do(warm)
        count = max(1, round(case.jobs / contestant.divisor / len(case.photos))) * len(case.photos)
        batch = make_batch(case.photos, count, case.sizes, outputs / "batch", url, "job", encoding=encoding)
        result = timed(stage, contestant, batch)
        check(contestant, batch)
        contestant.verify(len(warm.jobs) + len(batch.jobs), case.sizes)
        if row.quality is None:
            row.quality = judge.judge(_judged(contestant, batch, case))
        return result
    finally:
        contestant.stop()


def alone(engine: BareEngine, case: Case) -> Measurement:
    """Measures an engine without jobs and outputs."""
    try:
        rate, seconds = engine.rate(case.photos, case.sizes[0], case.encoding)
    finally:
        engine.stop()
    jobs = max(1, round(rate * seconds))
    return Measurement(jobs, jobs / rate, None, None, None, None)


def timed(stage: Stage, contestant: Contestant, batch: Batch) -> Measurement:
    """Measures time, CPU, memory and requests of a batch.

    The time ends with the newest output, even if it is noticed later.
    """
    log = stage.origin.mark()
    with MemorySampler(contestant.children) as memory:
        mark = contestant.do(batch)
        cpu = cpu_seconds(contestant.children) - mark.cpu
    files = [contestant.output(batch, job, size).stat() for job, size, _ in batch.all_outputs()]
    seconds = max(file.st_mtime for file in files) - mark.time
    mean = sum(file.st_size for file in files) / len(files)
    return Measurement(len(batch.jobs), seconds, cpu, memory.peak, stage.origin.gets(log), mean)


def check(contestant: Contestant, batch: Batch) -> None:
    """Raises an error if an output is not as requested: such figures do not count."""
    wrong = [
        reason
        for job, size, _ in batch.all_outputs()
        if (reason := fault(job.photo, contestant.output(batch, job, size), size, batch.encoding))
    ]
    if wrong:
        raise PeerFailed(f"{len(wrong)} outputs are not as requested: {wrong[0]}")


def _judged(contestant: Contestant, batch: Batch, case: Case) -> list[tuple[Photo, Path]]:
    """One output of each image; if there are several sizes, the second one, which is not a thumbnail."""
    size = case.sizes[min(1, len(case.sizes) - 1)]
    return [(job.photo, contestant.output(batch, job, size)) for job in batch.jobs[: len(case.photos)]]


def begin(stage: Stage) -> Path:
    """Empties both Redis servers, and returns a new directory for outputs.

    Outputs stay until the end of the run. ext4 without a journal does not reuse inodes that were deleted within the
    last minute, or six while that is not on disk (fs/ext4/ialloc.c, `recently_deleted`), and searches them for each
    new file: if the outputs of each contestant were deleted after it, that was 13 % of all processor time.
    """
    stage.broker.flush()
    stage.cache.flush()
    # Earlier output is on disk before the next measurement starts, and not written during it.
    os.sync()
    return Path(tempfile.mkdtemp(prefix="outputs-", dir=stage.home))


def _say(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)
