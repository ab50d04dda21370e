"""The origin of the world: nginx for the healthy hosts, a process for the odd ones, and the log of both."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from ..errors import BenchError, PeerFailed
from ..origin import Origin
from ..processes import Child, wait_until
from .hosts import ANSWERED, HEALTHY, Line, World


@dataclass(frozen=True)
class Request:
    """A request as its host saw it."""

    start: float
    end: float
    host: str


@dataclass(frozen=True)
class Load:
    """Highest load of a host: requests at a time, and requests that began within a second."""

    concurrent: int
    a_second: int


class WorldOrigin:
    """All hosts that answer, and those that drop connections."""

    def __init__(self, world: World, root: Path, home: Path) -> None:
        self.world = world
        self.home = home
        self._nginx = Origin(root, home / "nginx", [host.address for host in world.of([HEALTHY])])
        self._odd: Child | None = None

    def start(self) -> None:
        self.home.mkdir()
        self._nginx.start()
        odd = self.world.of(ANSWERED)
        ready = self.home / "odd.ready"
        configuration = {
            "port": self._nginx.port,
            "root": str(self._nginx.root),
            "kinds": {host.name: host.kind for host in odd},
            "addresses": [host.address for host in odd],
            "silent": [host.address for host in self.world.of(["silent"])],
            "healthy": [host.name for host in self.world.of([HEALTHY])],
            "log": str(self.home / "odd.log"),
            "ready": str(ready),
        }
        file = self.home / "odd.json"
        file.write_text(json.dumps(configuration))
        arguments = [sys.executable, "-m", "megaton_bench.world.odd", str(file)]
        self._odd = Child("odd hosts", arguments, self.home / "odd-process.log")
        try:
            wait_until(ready.exists, self._odd)
        except PeerFailed as error:
            raise BenchError(str(error)) from error

    def stop(self) -> None:
        if self._odd:
            self._odd.end()
            self._odd = None
        self._nginx.stop()

    def check(self) -> None:
        """Raises an error if the odd hosts have no process any more."""
        if self._odd and self._odd.poll() is not None:
            raise BenchError(f"the odd hosts have ended:\n{self._odd.tail()}")

    @property
    def port(self) -> int:
        return self._nginx.port

    def url(self, line: Line) -> str:
        return f"http://{line.host.name}:{self.port}{line.path()}"

    def mark(self) -> tuple[int, int]:
        """Current ends of the logs, for `requests`."""
        odd = self.home / "odd.log"
        return self._nginx.mark(), odd.stat().st_size if odd.exists() else 0

    def requests(self, mark: tuple[int, int]) -> list[Request]:
        """All requests since the mark that have ended."""
        found = []
        with open(self._nginx.home / "access.log") as log:
            log.seek(mark[0])
            for line in log:
                # The path of a line has no space.
                end, _, _, host, took = line.split(" ")
                found.append(Request(float(end) - float(took), float(end), host))
        with open(self.home / "odd.log") as log:
            log.seek(mark[1])
            for line in log:
                start, stop, host, _ = line.split(" ")
                found.append(Request(float(start), float(stop), host))
        return found


def loads(requests: list[Request]) -> dict[str, Load]:
    """The highest load of each host."""
    by_host: dict[str, list[Request]] = defaultdict(list)
    for request in requests:
        by_host[request.host].append(request)
    return {host: Load(_concurrent(some), _within(some, 1.0)) for host, some in by_host.items()}


def _concurrent(requests: list[Request]) -> int:
    """Requests at a time. The clock of nginx has milliseconds: an end and a start in the same one do not overlap."""
    changes = sorted([(one.start, 1) for one in requests] + [(one.end, -1) for one in requests])
    highest = now = 0
    for _, change in changes:
        now += change
        highest = max(highest, now)
    return max(highest, 1)


def _within(requests: list[Request], window: float) -> int:
    """Most requests that began within a time of this length."""
    starts = sorted(one.start for one in requests)
    first = highest = 0
    for index, start in enumerate(starts):
        while start - starts[first] >= window:
            first += 1
        highest = max(highest, index - first + 1)
    return highest
