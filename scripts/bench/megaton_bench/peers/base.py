"""What every contestant is to the benchmark: something that starts, does a batch, and stops."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from ..batch import Batch, Job
from ..errors import PeerFailed
from ..measuring import cpu_seconds
from ..origin import Origin
from ..processes import Child
from ..redis_server import RedisServer
from ..settings import QUALITY, Settings

#: Seconds without any new output after which a contestant has failed.
STALL_SECONDS = 60


@dataclass(frozen=True)
class Stage:
    """What is there for all contestants."""

    settings: Settings
    home: Path
    origin: Origin
    broker: RedisServer
    cache: RedisServer


@dataclass(frozen=True)
class Mark:
    """The moment from which a batch is measured: the clock of files, and the CPU time spent until then."""

    time: float
    cpu: float


class Contestant(ABC):
    """One program beside the others; its processes are `children`, whose cost is measured."""

    name: str
    title: str
    #: False for what reads files beforehand or locally: a ceiling, and no competitor.
    is_whole_path = True
    #: Whose engine this is, without a path around it: what that one does not reach of it is what its path costs.
    engine_of: str | None = None
    #: It gets every nth job only, as it is slow; images a second stay comparable.
    divisor = 1

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        #: For what this run of it needs beside outputs: lists, logs, configurations.
        self.home = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=stage.home))
        self.children: list[Child] = []

    @abstractmethod
    def start(self, outputs: Path) -> None:
        """Starts its processes; `outputs` is the directory that all batches of this run write beneath."""

    @abstractmethod
    def submit(self, batch: Batch) -> Mark:
        """Begins a batch, and tells when; what is not done then is waited for by `wait`."""

    def output(self, batch: Batch, job: Job, size: int) -> Path:
        """Where it writes a rendition."""
        return batch.output(job, size)

    def do(self, batch: Batch) -> Mark:
        """Does a batch: when this returns, all outputs are on disk and whole."""
        mark = self.submit(batch)
        self.wait(batch)
        return mark

    def verify(self, jobs: int, sizes: tuple[int, ...]) -> None:  # noqa: B027 - most have nothing to say
        """Throws when what was done since the start proves nothing; called after it was measured."""

    def wait(self, batch: Batch) -> None:
        """Waits until all outputs are there and whole.

        Looks at the next missing file only: cheap enough not to disturb what is measured. The clock does
        not depend on it, as the time of the last file is taken.
        """
        last = time.monotonic()
        for job, size, _ in batch.all_outputs():
            path = self.output(batch, job, size)
            while not is_whole(path):
                for child in self.children:
                    if child.poll() not in (None, 0):
                        child.check()
                if time.monotonic() - last > STALL_SECONDS:
                    logs = "\n".join(child.tail() for child in self.children)
                    raise PeerFailed(f"no output for {STALL_SECONDS} s; {path.name} is missing\n{logs}")
                time.sleep(0.01)
            last = time.monotonic()

    def stop(self) -> None:
        """Ends its processes; its files stay until the end of the run, as the outputs do."""
        for child in reversed(self.children):
            child.end()
        self.children.clear()

    # What contestants have in common

    @property
    def cores(self) -> int:
        return self.stage.settings.cores

    def mark(self) -> Mark:
        return Mark(time.time(), cpu_seconds(self.children))

    def spawn(
        self, name: str, arguments: list[str], environment: dict[str, str] | None = None, talks: bool = False
    ) -> Child:
        """Starts a process that belongs to this contestant."""
        log = self.home / f"{self.name}-{name}.log"
        child = Child(f"{self.name} {name}", arguments, log, environment, talks)
        self.children.append(child)
        return child


def is_whole(path: Path) -> bool:
    """True when there is a JPEG up to its end-of-image marker."""
    try:
        with open(path, "rb") as file:
            if file.seek(0, 2) < 4:
                return False
            file.seek(-2, 2)
            return file.read(2) == b"\xff\xd9"
    except OSError:
        return False


def script(name: str) -> str:
    """A program in the environment of this Python."""
    return str(Path(sys.executable).parent / name)


def python_environment() -> dict[str, str]:
    """The environment of Python peers: this package can be imported, and libvips has a thread a picture.

    More processes than one share the processors, so that threads within libvips only cost.
    """
    return {
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "PYTHONUNBUFFERED": "1",
        "VIPS_CONCURRENCY": "1",
    }


def write_jobs(path: Path, batch: Batch) -> Path:
    """The batch as a JSON file for producers: a list of url and [path, size] for each job."""
    jobs = [
        {"url": job.url, "outputs": [[str(batch.output(job, size)), size] for size in batch.sizes]}
        for job in batch.jobs
    ]
    path.write_text(json.dumps({"quality": QUALITY, "jobs": jobs}))
    return path
