"""Reads the tar shards of both programs: images, and the labels beside them."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyvips

from ..cases import SIZE
from .hosts import DAMAGED, LABELS, WHOLE, World


@dataclass
class Content:
    """Content of all shards of a run. A fault is a text for the report."""

    #: Images by kind of host that open and have the right size.
    images: dict[str, int] = field(default_factory=dict)
    labeled: int = 0
    bytes: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def successes(self) -> int:
        """Images of sources that the origin sends whole."""
        return sum(count for kind, count in self.images.items() if kind in WHOLE)

    @property
    def damaged(self) -> int:
        """Images of sources of which half is missing."""
        return sum(count for kind, count in self.images.items() if kind in DAMAGED)


def read(directory: Path, world: World) -> Content:
    """Opens every image, and compares its labels with the list."""
    content = Content()
    lines = {line.id: line for line in world.lines}
    seen: set[str] = set()
    for shard in sorted(directory.glob("*.tar")):
        for key, members in _samples(shard, content):
            image, text = members.get("jpg"), members.get("json")
            if image is None:
                continue  # img2dataset has members with the reason of a failure
            facts = _facts(text)
            line = lines.get(str(facts.get("id")))
            if line is None:
                content.faults.append(f"{shard.name}: {key} has no id of the list")
                continue
            if line.id in seen:
                content.faults.append(f"{shard.name}: {line.id} is there twice")
                continue
            seen.add(line.id)
            wrong = _wrong_image(image, line.photo.fitted(SIZE))
            if wrong:
                content.faults.append(f"{shard.name}: {line.id}: {wrong}")
                continue
            content.images[line.host.kind] = content.images.get(line.host.kind, 0) + 1
            content.bytes += len(image)
            labels = facts.get("labels", facts)
            if all(str(labels.get(name)) == line.labels[name] for name in LABELS):
                content.labeled += 1
    return content


def _samples(shard: Path, content: Content) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Samples as webdataset forms them: members with the same name up to the first period, one after the other."""
    key, members = "", dict[str, bytes]()
    try:
        with tarfile.open(shard) as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file is None:
                    continue
                name, _, extension = member.name.partition(".")
                if name != key:
                    if members:
                        yield key, members
                    key, members = name, {}
                members[extension] = file.read()
    except tarfile.TarError as error:
        content.faults.append(f"{shard.name}: {error}")
    if members:
        yield key, members


def _facts(text: bytes | None) -> dict[str, Any]:
    try:
        facts = json.loads(text or b"{}")
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _wrong_image(data: bytes, size: tuple[float, float]) -> str | None:
    """The reason why an image is not as requested, or None."""
    try:
        image = pyvips.Image.new_from_buffer(data, "", fail_on="error")
        image.avg()
    except pyvips.Error as error:
        return str(error).strip()
    if abs(image.width - size[0]) > 1 or abs(image.height - size[1]) > 1:
        return f"{image.width}x{image.height} instead of {size[0]:.1f}x{size[1]:.1f}"
    return None
