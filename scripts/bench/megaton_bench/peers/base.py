"""The interface of a contestant: it starts, does batches, and stops."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from ..batch import Batch, Job
from ..errors import PeerFailed
from ..measuring import cpu_seconds
from ..origin import Origin
from ..processes import Child
from ..redis_server import RedisServer
from ..settings import Settings

#: Seconds without any new output after which a contestant has failed.
STALL_SECONDS = 60
END_OF_JPEG = b"\xff\xd9"
END_OF_PNG = b"IEND\xaeB`\x82"


@dataclass(frozen=True)
class Stage:
    """Servers and settings for all contestants."""

    settings: Settings
    home: Path
    origin: Origin
    broker: RedisServer
    cache: RedisServer
    #: Versions for the report, also those that processes of the contestants reported.
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Mark:
    """Start of a measurement: time of day as in files, and the CPU time used until then."""

    time: float
    cpu: float


class Contestant(ABC):
    """A program that is measured; `children` are its processes."""

    name: str
    title: str
    #: False if it reads local files, perhaps beforehand: a ceiling, not a competitor.
    is_whole_path = True
    #: Contestant with the same engine: the difference is the cost of its whole path.
    engine_of: str | None = None
    #: A slow contestant gets only every nth job; images per second stay comparable.
    divisor = 1

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        #: Lists, logs and configurations of this run.
        self.home = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=stage.home))
        self.children: list[Child] = []

    @abstractmethod
    def start(self, outputs: Path) -> None:
        """Starts its processes; `outputs` is the directory that all batches of this run write beneath."""

    @abstractmethod
    def submit(self, batch: Batch) -> Mark:
        """Begins a batch and returns the start of the measurement; `wait` waits for its outputs."""

    def output(self, batch: Batch, job: Job, size: int) -> Path:
        """Path of a rendition."""
        return batch.output(job, size)

    def do(self, batch: Batch) -> Mark:
        """Does a batch; afterwards all outputs are complete."""
        mark = self.submit(batch)
        self.wait(batch)
        return mark

    def verify(self, jobs: int, sizes: tuple[int, ...]) -> None:  # noqa: B027 - most have nothing to check
        """Raises an error if the work since the start invalidates the measurement; called after it."""

    def wait(self, batch: Batch) -> None:
        """Waits until all outputs are complete.

        Checks only the next missing file, so that the measurement is not disturbed. The measured time does not depend
        on it, because the modification time of the last file counts.
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

    # Helpers for contestants

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
    """True if the file is a complete JPEG, PNG, WebP or AVIF, by its last bytes or the lengths in it."""
    try:
        with open(path, "rb") as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(0)
            head = file.read(12)
            if length < 16:
                return False
            if head[4:8] == b"ftyp":
                return _ends_with_box(file, length)
            if head[:4] == b"RIFF":
                return length >= int.from_bytes(head[4:8], "little") + 8
            end = END_OF_PNG if head[:4] == b"\x89PNG" else END_OF_JPEG
            file.seek(-len(end), os.SEEK_END)
            return file.read() == end
    except OSError:
        return False


def _ends_with_box(file: BinaryIO, length: int) -> bool:
    """True if a file of ISO boxes ends exactly behind one, and has one with data."""
    position, has_data = 0, False
    while position < length:
        file.seek(position)
        head = file.read(8)
        size = int.from_bytes(head[:4], "big")
        if len(head) < 8 or size < 8:
            return False
        has_data = has_data or head[4:] == b"mdat"
        position += size
    return has_data and position == length


def script(name: str) -> str:
    """A program in the environment of this Python."""
    return str(Path(sys.executable).parent / name)


def python_environment() -> dict[str, str]:
    """The environment of Python peers: this package can be imported, and libvips uses one thread per image.

    Several processes share the processors, so that threads within libvips would only slow them down.
    """
    return {
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "PYTHONUNBUFFERED": "1",
        "VIPS_CONCURRENCY": "1",
    }


def write_jobs(path: Path, batch: Batch) -> Path:
    """The batch as a JSON file for producers: url, alpha, and a list of [path, size] for each job."""
    jobs = [
        {
            "url": job.url,
            "alpha": job.photo.alpha,
            "outputs": [[str(batch.output(job, size)), size] for size in batch.sizes],
        }
        for job in batch.jobs
    ]
    path.write_text(json.dumps({"encoding": batch.encoding.fields, "jobs": jobs}))
    return path
