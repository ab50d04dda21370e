"""The two programs: one command each, from a CSV to tar shards."""

from __future__ import annotations

import json
import math
import os
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import PeerFailed
from ..measuring import MemorySampler
from ..peers.base import python_environment, script
from ..processes import Child
from ..cases import JPEG, SIZE
from .hosts import LABELS, Line, World
from .names import Names
from .origin import Load, WorldOrigin, loads
from .settings import HOST_BURST, PEER_TIMEOUT, WorldSettings
from .shards import Content, read

#: Time after which a program has failed. The slowest host takes 30 s for a line.
LIMIT_SECONDS = 1800
#: Seconds between two looks at the ledger.
LOOK_SECONDS = 0.1
#: Seconds for the last requests to arrive in the logs of the origin.
LOG_SECONDS = 0.5
#: Parts of the lines whose time is reported.
PARTS = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Stage:
    """Everything that both programs share."""

    settings: WorldSettings
    world: World
    origin: WorldOrigin
    names: Names
    list: Path
    home: Path


@dataclass(frozen=True)
class Run:
    """The command itself: time of day of its start, its time, CPU time, and highest memory in bytes."""

    start: float
    seconds: float
    cpu: float
    peak: int


@dataclass
class Result:
    """One run of a program."""

    #: From the start of the command to its end.
    seconds: float
    #: From its first request on: without the start of the program.
    seconds_of_requests: float
    cpu_seconds: float
    peak_bytes: int
    accounted: int
    reported_done: int
    images: dict[str, int]
    successes: int
    damaged: int
    labeled: int
    bytes: int
    has_report: bool
    requests: int
    highest_concurrency: int
    highest_rate: int
    #: Hosts that were asked more often than their limit.
    over_limit: list[str]
    #: Lines by kind of host and status or error code.
    outcomes: dict[str, dict[str, int]]
    #: Seconds until a part of the lines was accounted, if the program says so before its end.
    parts: dict[str, float] = field(default_factory=dict)
    #: Seconds until the last line of each kind of host was accounted, if the program says so.
    last: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


class Program(ABC):
    """A program that is measured."""

    name: str
    title: str
    #: Whether it is told the limits of the hosts.
    has_limits = False

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        #: List, output and log; they stay until the end of all rounds.
        self.home = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=stage.home))
        self.output = self.home / "output"
        self.ended: dict[str, float] = {}

    @abstractmethod
    def command(self) -> list[str]:
        """The one command."""

    @abstractmethod
    def account(self) -> list[tuple[str, str]]:
        """Id and status, or error code, of each line that the program has a record of."""

    def environment(self) -> dict[str, str]:
        return {}

    def has_succeeded(self, code: int) -> bool:
        return code == 0

    def has_report(self) -> bool:
        return False

    def watch(self, start: float, stop: threading.Event) -> None:  # noqa: B027 - img2dataset says nothing meanwhile
        """Notes in `ended` when lines are accounted, until the program has ended."""

    def measure(self) -> Result:
        """Runs the command, and examines all that it leaves."""
        mark = self.stage.origin.mark()
        return self._result(mark, self.run())

    def run(self) -> Run:
        """Runs the command until its end."""
        # The outputs of earlier runs are on disk, and not written meanwhile.
        os.sync()
        stop = threading.Event()
        start = time.time()
        child = Child(
            self.name, self.stage.names.command(self.command()), self.home / "program.log", self.environment()
        )
        watcher = threading.Thread(target=self.watch, args=(start, stop), daemon=True)
        watcher.start()
        try:
            with MemorySampler([child]) as memory:
                while child.poll() is None:
                    if time.time() - start > LIMIT_SECONDS:
                        raise PeerFailed(f"it has not ended within {LIMIT_SECONDS} s\n{child.tail()}")
                    time.sleep(0.02)
                seconds = time.time() - start
        finally:
            child.end()
            stop.set()
            watcher.join()
        if not self.has_succeeded(child.code or 0):
            raise PeerFailed(f"it ended with code {child.code}; the end of its log:\n{child.tail()}")
        self.stage.origin.check()
        return Run(start, seconds, child.spent or 0.0, memory.peak)

    def _result(self, mark: tuple[int, int], run: Run) -> Result:
        time.sleep(LOG_SECONDS)
        requests = self.stage.origin.requests(mark)
        if not requests:
            raise PeerFailed("no host has received a request")
        content = read(self.output, self.stage.world)
        records = self.account()
        lines = {line.id: line for line in self.stage.world.lines}
        outcomes: dict[str, Counter[str]] = {}
        for id, status in records:
            if id in lines:
                outcomes.setdefault(lines[id].host.kind, Counter())[status] += 1
        highest = loads(requests)
        result = Result(
            seconds=run.seconds,
            seconds_of_requests=run.start + run.seconds - min(one.start for one in requests),
            cpu_seconds=run.cpu,
            peak_bytes=run.peak,
            accounted=len({id for id, _ in records} & lines.keys()),
            reported_done=sum(status == "done" for _, status in records),
            images=content.images,
            successes=content.successes,
            damaged=content.damaged,
            labeled=content.labeled,
            bytes=content.bytes,
            has_report=self.has_report(),
            requests=len(requests),
            highest_concurrency=max(load.concurrent for load in highest.values()),
            highest_rate=max(load.a_second for load in highest.values()),
            over_limit=self._over_limit(highest),
            outcomes={kind: dict(counter) for kind, counter in outcomes.items()},
            faults=content.faults,
        )
        self._add_times(result, lines)
        self._check(result, content, len(records))
        return result

    def _over_limit(self, highest: dict[str, Load]) -> list[str]:
        settings = self.stage.settings
        rate = math.inf
        if settings.host_rate:
            # The burst, the request that is due, and those that become due within the second.
            rate = min(HOST_BURST, max(1, int(settings.host_rate))) + 1 + settings.host_rate
        return sorted(
            host
            for host, load in highest.items()
            if load.concurrent > settings.host_concurrency or load.a_second > rate
        )

    def _add_times(self, result: Result, lines: dict[str, Line]) -> None:
        if len(self.ended) < len(lines):
            return
        times = sorted(self.ended.values())
        for part in PARTS:
            result.parts[f"{part:.0%}"] = times[min(len(times) - 1, max(0, round(part * len(times)) - 1))]
        for id, ended in self.ended.items():
            kind = lines[id].host.kind
            result.last[kind] = max(result.last.get(kind, 0.0), ended)

    def _check(self, result: Result, content: Content, records: int) -> None:
        """Adds the faults for which a run does not count."""
        total = len(self.stage.world.lines)
        images = sum(content.images.values())
        if result.accounted != total:
            result.faults.append(f"{total - result.accounted} of {total} lines have no record")
        if records != result.accounted:
            result.faults.append(f"{records - result.accounted} records are of no line, or a line's second one")
        if result.reported_done != images:
            result.faults.append(f"{result.reported_done} lines are done by the records, {images} images by the shards")
        if result.requests < images:
            result.faults.append(f"{images} images of {result.requests} requests: a cache had some")
        if content.labeled != images:
            result.faults.append(f"{images - content.labeled} images have not the labels of their lines")
        if self.has_limits and result.over_limit:
            result.faults.append(f"{len(result.over_limit)} hosts were asked more often than their limit")


class Megaton(Program):
    """`megaton run` starts its own Redis, coordinator and workers, one for each processor."""

    name = "megaton"
    title = "Megaton"
    has_limits = True

    def command(self) -> list[str]:
        settings = self.stage.settings
        arguments = [str(settings.program), "run", str(self.stage.list), "--output", f"tar:{self.output}"]
        arguments += ["--url-column", "url", "--id-column", "id", "--report", "--allow-private"]
        arguments += ["--size", str(SIZE), "--quality", str(JPEG.quality)]
        arguments += ["--host-concurrency", str(settings.host_concurrency)]
        arguments += ["--host-rate", f"{settings.host_rate:g}"] if settings.host_rate else []
        return [*arguments, "--quiet", *settings.options]

    def environment(self) -> dict[str, str]:
        """A cache of its own: `run` keeps it between commands, and a second one would find all images."""
        return {"XDG_CACHE_HOME": str(self.home / "cache")}

    def has_succeeded(self, code: int) -> bool:
        """Dead hosts have lines that fail, which is 2."""
        return code in (0, 2)

    def account(self) -> list[tuple[str, str]]:
        records = []
        with open(self._ledger) as file:
            for text in file:
                line = json.loads(text)
                done = line["status"] == "done"
                code = line["error"]["code"] if "error" in line else line["status"]
                records.append((str(line.get("id")), "done" if done else str(code)))
        return records

    def has_report(self) -> bool:
        path = self._ledger.with_name("report.html")
        return path.exists() and path.stat().st_size > 0

    def watch(self, start: float, stop: threading.Event) -> None:
        rest, position = b"", 0
        while True:
            is_last = stop.is_set()
            if self._ledger.exists():
                with open(self._ledger, "rb") as file:
                    file.seek(position)
                    data = file.read()
                now = time.time() - start
                position += len(data)
                *texts, rest = (rest + data).split(b"\n")
                for text in texts:
                    self.ended[str(json.loads(text).get("id"))] = now
            if is_last:
                return
            stop.wait(LOOK_SECONDS)

    @property
    def _ledger(self) -> Path:
        return self.output / "megaton-ledger.jsonl"


class Img2dataset(Program):
    """img2dataset with a process for each processor, and as many shards: each waits for its slowest line once."""

    name = "img2dataset"
    title = "img2dataset"

    def command(self) -> list[str]:
        settings = self.stage.settings
        options = {
            "url_list": self.stage.list,
            "output_folder": self.output,
            "input_format": "csv",
            "url_col": "url",
            "caption_col": LABELS[0],
            "save_additional_columns": json.dumps(["id", *LABELS[1:]]),
            "output_format": "webdataset",
            "processes_count": settings.cores,
            "thread_count": settings.threads,
            "number_sample_per_shard": max(2, -(-settings.lines // settings.cores)),
            "image_size": SIZE,
            "resize_mode": "keep_ratio_largest",
            "resize_only_if_bigger": True,
            "encode_format": "jpg",
            "encode_quality": JPEG.quality,
            "timeout": PEER_TIMEOUT,
            "retries": 0,
            "extract_exif": False,
            "compute_hash": None,
        }
        return [script("img2dataset"), *(f"--{name}={value}" for name, value in options.items())]

    def environment(self) -> dict[str, str]:
        return {**python_environment(), "NO_ALBUMENTATIONS_UPDATE": "1"}

    def account(self) -> list[tuple[str, str]]:
        import pyarrow.parquet

        records = []
        for path in sorted(self.output.glob("*.parquet")):
            table = pyarrow.parquet.read_table(path, columns=["id", "status"])
            for id, status in zip(table["id"].to_pylist(), table["status"].to_pylist(), strict=True):
                records.append((str(id), "done" if status == "success" else str(status)))
        return records


PROGRAMS: tuple[type[Program], ...] = (Megaton, Img2dataset)
