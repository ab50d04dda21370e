"""Megaton itself: a coordinator, a worker process for each processor, and `megaton submit --wait`."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from ..batch import Batch
from ..errors import PeerFailed
from .base import Contestant, Mark, Stage


class Megaton(Contestant):
    """Megaton chooses the engine, if it has more than one."""

    name = "megaton"
    title = "Megaton"
    engine: str | None = None

    def start(self, outputs: Path) -> None:
        self._batches = 0
        self.spawn("coordinator", [self._program, "coordinator", "--log-level", "warning"], self._environment)
        arguments = [self._program, "worker", "--log-level", "warning", "--render-threads", "1"]
        arguments += ["--allow-root", str(outputs), "--allow-private"]
        arguments += ["--allow-port", str(self.stage.origin.port)]
        if self.engine:
            arguments += ["--engine", self.engine]
        for number in range(self.cores):
            self.spawn(f"worker-{number}", arguments, self._environment)
        self._wait_for_workers()

    def submit(self, batch: Batch) -> Mark:
        self._batches += 1
        path = self.home / f"{self.name}-{self._batches}.jsonl"
        with open(path, "w") as file:
            encoding = batch.encoding
            options = {"format": encoding.format, "quality": encoding.quality, "effort": encoding.effort}
            options = {name: value for name, value in options.items() if value is not None}
            renditions = [{"name": str(size), "width": size, "height": size, **options} for size in batch.sizes]
            for job in batch.jobs:
                output = f"file://{batch.outputs}/{job.index:06d}-{{name}}.{{ext}}"
                file.write(json.dumps({"source": job.url, "renditions": renditions, "output": output}) + "\n")
        ledger = str(path.with_suffix(".ledger"))
        mark = self.mark()
        child = self.spawn(
            f"submit-{self._batches}", [self._program, "submit", str(path), "--wait", "--ledger", ledger],
            self._environment,
        )  # fmt: skip
        if child.poll(wait=True) != 0:
            child.check()
        return mark

    def verify(self, jobs: int, sizes: tuple[int, ...]) -> None:
        """Each job must have been rendered: distinct URLs share no work, although their bytes are the same."""
        renders, wanted = int(str(self.statistics()["renders"])), jobs * len(sizes)
        if renders != wanted:
            raise PeerFailed(f"{renders} renders for {wanted} renditions: the measurement is not of rendering")

    def statistics(self) -> dict[str, object]:
        """The counters of the shared cache, after the end of the workers, which add theirs at the end."""
        for child in self.children:
            if "worker" in child.name:
                child.end(seconds=30)
        return self.counters()

    def counters(self) -> dict[str, object]:
        """The current counters; those of the last five seconds may be missing."""
        return self._json("stats")

    def _wait_for_workers(self) -> None:
        deadline = time.monotonic() + 30
        while len(self._json("status").get("workers", [])) < self.cores:  # type: ignore[arg-type]
            for child in self.children:
                child.check()
            if time.monotonic() > deadline:
                raise PeerFailed("its workers did not register within 30 s\n" + self.children[-1].tail())
            time.sleep(0.05)

    def _json(self, command: str) -> dict[str, object]:
        result = subprocess.run(
            [self._program, command, "--json"], env={**self._environment}, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise PeerFailed(f"megaton {command} ended with code {result.returncode}: {result.stderr.strip()}")
        answer: dict[str, object] = json.loads(result.stdout)
        return answer

    @property
    def _program(self) -> str:
        return str(self.stage.settings.program)

    @property
    def _environment(self) -> dict[str, str]:
        return {"MEGATON_REDIS": self.stage.broker.url, "MEGATON_CACHE_REDIS": self.stage.cache.url}


class MegatonVips(Megaton):
    """The same with libvips for all images, to compare with the bare loop."""

    name = "megaton-vips"
    title = "Megaton, libvips only"
    engine = "vips"


def has_engines(stage: Stage) -> bool:
    """True if the program has an option for the engine."""
    text = subprocess.run(
        [str(stage.settings.program), "worker", "--help"], capture_output=True, text=True, check=False
    )
    return "--engine" in text.stdout
