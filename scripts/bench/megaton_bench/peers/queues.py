"""Task queues of Python with pyvips: Celery, RQ and Dramatiq, on the same Redis and with the same task."""

from __future__ import annotations

import sys
from pathlib import Path

from ..batch import Batch
from .base import Contestant, Mark, python_environment, script, write_jobs


class PythonQueue(Contestant):
    """Workers that are up before the measurement starts, and a warm producer."""

    module: str
    #: One task for each output; otherwise one task for each job.
    split = True

    def start(self, outputs: Path) -> None:
        self._batches = 0
        self.start_workers()
        arguments = [sys.executable, "-m", "megaton_bench.peers.producer", self.module]
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

    @property
    def environment(self) -> dict[str, str]:
        return {**python_environment(), "MEGATON_BENCH_REDIS": self.stage.broker.url + "/0"}


class CeleryPyvips(PythonQueue):
    """Prefork, a process for each processor, eight tasks ahead, no results."""

    name = "celery"
    title = "Celery + pyvips"
    module = "celery_app"

    def start_workers(self) -> None:
        arguments = [script("celery"), "-A", "megaton_bench.peers.celery_app", "worker", "--pool", "prefork"]
        arguments += ["--concurrency", str(self.cores), "--loglevel", "WARNING"]
        arguments += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        # Celery warns root about the pickle serializer, which is disabled here.
        self.spawn("worker", arguments, {**self.environment, "C_FORCE_ROOT": "1"})


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
        arguments = [script("dramatiq"), "megaton_bench.peers.dramatiq_app"]
        arguments += ["--processes", str(self.cores), "--threads", "2"]
        self.spawn("workers", arguments, self.environment)


class RqPyvips(PythonQueue):
    """RQ as documented: each job in a process of its own, forked from the worker."""

    name = "rq"
    title = "RQ + pyvips"
    module = "rq_app"
    divisor = 8
    simple = False

    def start_workers(self) -> None:
        arguments = [sys.executable, "-m", "megaton_bench.peers.rq_app"]
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
