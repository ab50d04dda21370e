"""The hosts of the world, the lines of the list, and how each kind of host answers."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ..batch import Photo

#: Kinds of odd hosts, in the order in which a world gets them: 30 of 200 hosts, 15 %. Any beginning of it is a mixture.
ODD = (
    "refused", "drip", "hops", "html", "silent", "late", "away", "cut", "refused", "drip", "hops", "empty", "silent",
    "late", "away", "short", "gone", "drip", "hops", "bomb", "silent", "late", "away", "missing", "mute", "drip",
    "loop", "mislabeled", "refused", "very-late",
)  # fmt: skip
#: The part of the hosts that is odd.
ODD_PART = 0.15
HEALTHY = "healthy"

#: Kinds, with a description for the report.
DESCRIPTIONS = {
    HEALTHY: "answers at once",
    "gone": "name does not resolve",
    "refused": "port is closed",
    "silent": "SYN is dropped",
    "mute": "accepts, never answers",
    "late": "answers after 1 to 8 s",
    "very-late": "answers after 12 to 30 s",
    "drip": "body takes 1 to 15 s",
    "hops": "three redirects to itself",
    "away": "redirects to a healthy host",
    "loop": "redirects without end",
    "html": "HTML as image/jpeg",
    "empty": "200, no body",
    "cut": "half a JPEG",
    "short": "half of Content-Length",
    "bomb": "gzip of 64 MiB of zeros",
    "missing": "404",
    "mislabeled": "JPEG as text/html",
}
#: Kinds with a process that answers; the others have only an address, or not even that.
ANSWERED = (
    "mute", "late", "very-late", "drip", "hops", "away", "loop", "html", "empty", "cut", "short", "bomb", "missing",
    "mislabeled",
)  # fmt: skip
#: Kinds whose images arrive whole if a program waits for as long as they take.
WHOLE = (HEALTHY, "late", "very-late", "drip", "hops", "away", "mislabeled")
#: Kinds whose images are damaged: a thumbnail of one is counted separately.
DAMAGED = ("cut", "short")
#: Seconds that the hosts of a kind take for a line, from and to.
SECONDS = {"late": (1.0, 8.0), "very-late": (12.0, 30.0), "drip": (1.0, 15.0)}
HOPS = 3

#: The columns of the list. All but the first two are labels.
COLUMNS = ("url", "id", "caption", "shop", "stock")
LABELS = COLUMNS[2:]
#: The order of the list depends on nothing else.
SEED = 18


@dataclass(frozen=True)
class Host:
    """A host by name; its address is on loopback."""

    number: int
    kind: str

    @property
    def name(self) -> str:
        return f"host-{self.number:04d}.test"

    @property
    def address(self) -> str:
        return f"127.18.{self.number // 250}.{self.number % 250 + 1}"


@dataclass(frozen=True)
class Line:
    """A line of the list."""

    number: int
    host: Host
    photo: Photo

    @property
    def id(self) -> str:
        return f"item-{self.number:06d}"

    @property
    def labels(self) -> dict[str, str]:
        """With a comma, quotes and letters beyond ASCII, as in lists of shops."""
        return {
            "caption": f'Größe {self.number % 50}, "rot" – № {self.number}',
            "shop": self.host.name,
            "stock": str(self.number % 1000),
        }

    def path(self) -> str:
        return f"/{self.number}/{self.photo.path.parent.name}/{self.photo.path.name}"


@dataclass(frozen=True)
class World:
    """All hosts and lines."""

    hosts: tuple[Host, ...]
    lines: tuple[Line, ...]

    def of(self, kinds: Iterable[str]) -> list[Host]:
        """The hosts of these kinds."""
        wanted = tuple(kinds)
        return [host for host in self.hosts if host.kind in wanted]


def make_world(count: int, lines: int, photos: list[Photo]) -> World:
    """Hosts of which 15 % are odd, and lines that are spread over them evenly, in random order."""
    odd = round(count * ODD_PART)
    kinds = [ODD[index % len(ODD)] for index in range(odd)] + [HEALTHY] * (count - odd)
    hosts = tuple(Host(number, kind) for number, kind in enumerate(kinds))
    owners = [hosts[number % count] for number in range(lines)]
    random.Random(SEED).shuffle(owners)
    return World(hosts, tuple(Line(number, host, photos[number % len(photos)]) for number, host in enumerate(owners)))


def seconds(kind: str, number: int) -> float:
    """Seconds that a host of this kind takes for a line; the same in each round."""
    low, high = SECONDS.get(kind, (0.0, 0.0))
    return random.Random(f"{SEED} {kind} {number}").uniform(low, high)


def write_list(path: Path, world: World, url: Callable[[Line], str]) -> None:
    """Writes the list as CSV."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for line in world.lines:
            writer.writerow([url(line), line.id, *(line.labels[name] for name in LABELS)])
