"""Task queues of Python with pyvips: Celery, RQ and Dramatiq, on the same Redis and with the same task.

Their libvips is the newest one, from the wheel `pyvips-binary`, unless they are named after the system.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ..batch import Batch
from ..errors import PeerFailed
from .base import Contestant, Mark, python_environment, script, write_jobs

#: Version of the newest libvips, without its patch level; `requirements-newest.txt` has the whole.
NEWEST_LIBVIPS = "8.18"


class PythonQueue(Contestant):
    """Workers that are up before the measurement starts, and a warm producer."""

    module: str
    #: One task for each output; otherwise one task for each job.
    split = True
    #: True for libvips from the wheel, False for that of the system.
    newest = True

    def start(self, outputs: Path) -> None:
        self._batches = 0
        self.start_workers()
        arguments = [self.python, "-m", "megaton_bench.peers.producer", self.module]
        if self.split:
            arguments.append("--split")
        self._producer = self.spawn("producer", arguments, self.environment, talks=True)

    def submit(self, batch: Batch) -> Mark:
        self._batches += 1
        path = write_jobs(self.home / f"{self.name}-{self._batches}.json", batch)
        self._producer.ask(f"load {path}", "loaded")
        mark = self.mark()
        self._producer.ask("go", "submitted")
        return mark

    def start_workers(self) -> None:
        raise NotImplementedError

    def verify(self, jobs: int, sizes: tuple[int, ...]) -> None:
        """The workers must have had the libvips that the contestant is named for."""
        try:
            found = set(self._libvips.read_text().split())
        except FileNotFoundError:
            found = set()
        if len(found) != 1:
            raise PeerFailed(f"its workers reported these versions of libvips: {', '.join(sorted(found)) or 'none'}")
        version = found.pop()
        if self.newest and not version.startswith(NEWEST_LIBVIPS + "."):
            raise PeerFailed(f"its workers have libvips {version}, not {NEWEST_LIBVIPS}; remove {self._newest}")
        self.stage.versions[f"libvips of {self.name}"] = version

    @property
    def environment(self) -> dict[str, str]:
        return {
            **python_environment(),
            "MEGATON_BENCH_REDIS": self.stage.broker.url + "/0",
            "MEGATON_BENCH_LIBVIPS": str(self._libvips),
        }

    @property
    def python(self) -> str:
        return str(self._newest / "bin/python") if self.newest else sys.executable

    def program(self, name: str) -> str:
        """A program in the environment of the contestant."""
        return str(self._newest / "bin" / name) if self.newest else script(name)

    @property
    def _newest(self) -> Path:
        return self.stage.settings.newest

    @property
    def _libvips(self) -> Path:
        """The file that each worker adds its version of libvips to."""
        return self.home / "libvips.txt"


class CeleryPyvips(PythonQueue):
    """Prefork, a process for each processor, eight tasks ahead, no results."""

    name = "celery"
    title = "Celery + pyvips"
    module = "celery_app"

    def start_workers(self) -> None:
        arguments = [self.program("celery"), "-A", "megaton_bench.peers.celery_app", "worker", "--pool", "prefork"]
        arguments += ["--concurrency", str(self.cores), "--loglevel", "WARNING"]
        arguments += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        # Celery warns root about the pickle serializer, which is disabled here.
        self.spawn("worker", arguments, {**self.environment, "C_FORCE_ROOT": "1"})


class CelerySystem(CeleryPyvips):
    """The same with the libvips of the system."""

    name = "celery-system"
    title = "Celery + pyvips, libvips of the system"
    newest = False


class CeleryOneTask(CeleryPyvips):
    """The same with one task for all sizes of an image: it fetches once, and decodes for each size."""

    name = "celery-one-task"
    title = "Celery + pyvips, one task for all sizes"
    split = False


class DramatiqPyvips(PythonQueue):
    """A process for each processor with two threads, so that one can fetch while the other renders."""

    name = "dramatiq"
    title = "Dramatiq + pyvips"
    module = "dramatiq_app"

    def start_workers(self) -> None:
        arguments = [self.program("dramatiq"), "megaton_bench.peers.dramatiq_app"]
        arguments += ["--processes", str(self.cores), "--threads", "2"]
        self.spawn("workers", arguments, self.environment)


class DramatiqSystem(DramatiqPyvips):
    """The same with the libvips of the system."""

    name = "dramatiq-system"
    title = "Dramatiq + pyvips, libvips of the system"
    newest = False


class RqPyvips(PythonQueue):
    """RQ as documented: each job in a process of its own, forked from the worker."""

    name = "rq"
    title = "RQ + pyvips"
    module = "rq_app"
    divisor = 8
    simple = False

    def start_workers(self) -> None:
        arguments = [self.python, "-m", "megaton_bench.peers.rq_app"]
        if self.simple:
            arguments.append("--simple")
        for number in range(self.cores):
            self.spawn(f"worker-{number}", arguments, self.environment)


class RqSimplePyvips(RqPyvips):
    """RQ's SimpleWorker, which does not fork: faster, and a crash takes the worker with it."""

    name = "rq-simple"
    title = "RQ SimpleWorker + pyvips"
    divisor = 2
    simple = True
