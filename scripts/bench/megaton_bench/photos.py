"""Sources of the images: free photographs of Debian's wallpaper packages, or a directory.

The packages are downloaded and unpacked beneath the build directory, and not installed. Their licenses are in
their `usr/share/doc/*/copyright`; scripts/bench/README.md has a list.
"""

from __future__ import annotations

import hashlib
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyvips

from .batch import Photo
from .errors import BenchError
from .settings import PHOTO_MEGAPIXELS, PHOTO_QUALITY, PHOTO_SIZE, WEB_QUALITY, WEB_SIZE

PACKAGES = (
    "lomiri-wallpapers-16.04",
    "lomiri-wallpapers-20.04",
    "mate-backgrounds",
    "plasma-workspace-wallpapers",
    "ukui-wallpapers",
)
#: Megapixels of files that are used unchanged: neither thumbnails, nor larger than images of common cameras.
MEGAPIXELS = (1.0, 10.0)
#: Settings of the files of a set; part of its name, so that other settings create another set.
RECIPE = f"photos {PHOTO_SIZE} px {PHOTO_MEGAPIXELS} MP Q{PHOTO_QUALITY}, web {WEB_SIZE} px Q{WEB_QUALITY}, 4:2:0"


class Photos:
    """Sets beneath one directory, by name: `photos`, `web`, and `shipped` if the packages are the source."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kinds: dict[str, list[Photo]] = {}

    def summary(self) -> dict[str, dict[str, object]]:
        """Number and size of the images of each set, for the report."""
        return {kind: _summary(photos) for kind, photos in self.kinds.items()}


def _summary(photos: list[Photo]) -> dict[str, object]:
    sizes = sorted(photo.width * photo.height / 1e6 for photo in photos)
    return {
        "count": len(photos),
        # Decoding them is most of the work of every contestant.
        "progressive": sum(_is_progressive(photo.path) for photo in photos),
        "megapixels_median": round(sizes[len(sizes) // 2], 1),
        "megapixels_max": round(sizes[-1], 1),
        "megabytes": round(sum(photo.path.stat().st_size for photo in photos) / 1e6, 1),
    }


def _is_progressive(path: Path) -> bool:
    image = pyvips.Image.new_from_file(str(path))
    return "jpeg-multiscan" in image.get_fields() and bool(image.get("jpeg-multiscan"))


@dataclass(frozen=True)
class Source:
    """A JPEG file; width and height as shown."""

    path: Path
    width: int
    height: int

    @property
    def megapixels(self) -> float:
        return self.width * self.height / 1e6


def prepare(build: Path, directory: Path | None, quick: bool) -> Photos:
    """Downloads packages and creates files if they are missing; `quick` uses every fifth image of a set."""
    found = _sources(build, directory)
    usual = [source for source in found if MEGAPIXELS[0] <= source.megapixels <= MEGAPIXELS[1]]
    if directory:
        # Images of the user are measured unchanged.
        sets = {"photos": (usual, _copy), "web": (usual, _web)}
    else:
        large = [source for source in found if source.megapixels >= PHOTO_MEGAPIXELS[0]]
        sets = {"photos": (large, _photo), "shipped": (usual, _copy), "web": (large, _web)}
    if not all(sources for sources, _ in sets.values()):
        where = str(directory) if directory else "the wallpaper packages"
        raise BenchError(f"no JPEG of {MEGAPIXELS[0]:.0f} to {MEGAPIXELS[1]:.0f} megapixels in {where}")
    if quick:
        # Every fifth by size, so that small and large ones have the same share as in the whole set.
        sets = {
            kind: (sorted(sources, key=lambda one: one.megapixels)[min(2, len(sources) // 2) :: 5], make)
            for kind, (sources, make) in sets.items()
        }
    return _prepared(build, sets, RECIPE)


def prepare_set(build: Path, directory: Path | None, name: str, side: int, quality: int) -> Photos:
    """Creates one set under a name: all images of the source within a box of this side, as baseline JPEGs."""
    large = [source for source in _sources(build, directory) if max(source.width, source.height) >= side]
    if not large:
        raise BenchError(f"no JPEG of at least {side} pixels in {directory or 'the wallpaper packages'}")
    sets = {name: (large, lambda source: _scaled(source, side, quality))}
    return _prepared(build, sets, f"{name} {side} px Q{quality}, 4:2:0")


def _sources(build: Path, directory: Path | None) -> list[Source]:
    """All JPEGs of a directory, or of the packages."""
    paths = _of_directory(directory) if directory else _of_packages(build)
    return [source for path in paths if (source := _opened(path))]


def _prepared(build: Path, sets: Mapping[str, tuple[list[Source], Callable[[Source], bytes]]], recipe: str) -> Photos:
    """The sets as files, which are created if they are missing."""
    # The name identifies content and settings, so that another choice of images does not find old files.
    names = [f"{kind} {one.path} {one.path.stat().st_size}" for kind, (sources, _) in sets.items() for one in sources]
    name = hashlib.sha256("\n".join([recipe, *names]).encode()).hexdigest()[:12]
    result = Photos(build / "pictures" / name)
    for kind, (sources, make) in sets.items():
        (result.root / kind).mkdir(parents=True, exist_ok=True)
        result.kinds[kind] = [_made(source, result.root / kind, index, make) for index, source in enumerate(sources)]
    return result


def _made(source: Source, directory: Path, index: int, make: Callable[[Source], bytes]) -> Photo:
    """An image of a set; a file is complete or missing."""
    path = directory / f"{index:03d}-{re.sub('[^A-Za-z0-9_-]+', '-', source.path.stem)[:40]}.jpg"
    if not path.exists():
        partial = path.with_suffix(".part")
        partial.write_bytes(make(source))
        partial.rename(path)
    made = _opened(path)
    if not made:
        raise BenchError(f"{path} is not a JPEG; remove it, and run the benchmark again")
    return Photo(path, made.width, made.height)


def _copy(source: Source) -> bytes:
    return source.path.read_bytes()


def _photo(source: Source) -> bytes:
    """The image as the user of a camera uploads it: within the limits of side and area, never enlarged."""
    longer = max(source.width, source.height)
    box = min(PHOTO_SIZE, int(longer * math.sqrt(PHOTO_MEGAPIXELS[1] / source.megapixels)))
    return _scaled(source, box, PHOTO_QUALITY)


def _web(source: Source) -> bytes:
    """The image as a web site has it."""
    return _scaled(source, WEB_SIZE, WEB_QUALITY)


def _scaled(source: Source, box: int, quality: int) -> bytes:
    """Within a square box, as a baseline JPEG of 4:2:0 in sRGB, without metadata and profile."""
    profile = "icc-profile-data" in pyvips.Image.new_from_file(str(source.path)).get_fields()
    colors = {"export_profile": "srgb"} if profile else {}
    image = pyvips.Image.thumbnail(str(source.path), box, height=box, size="down", **colors)
    return bytes(image.jpegsave_buffer(Q=quality, strip=True, subsample_mode="on"))


def _opened(path: Path) -> Source | None:
    """A file with its width and height as shown; None if it is not a JPEG."""
    try:
        if path.read_bytes()[:3] != b"\xff\xd8\xff":
            return None
        image = pyvips.Image.new_from_file(str(path))
    except (OSError, pyvips.Error):
        return None
    turned = "orientation" in image.get_fields() and image.get("orientation") >= 5
    return Source(path, image.height, image.width) if turned else Source(path, image.width, image.height)


def _of_directory(directory: Path) -> Iterable[Path]:
    if not directory.is_dir():
        raise BenchError(f"{directory} is not a directory")
    return sorted(path for path in directory.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))


def _of_packages(build: Path) -> Iterable[Path]:
    for package in PACKAGES:
        unpacked = build / "packages" / package
        if not unpacked.exists():
            _download(package, unpacked)
        yield from sorted(path for path in unpacked.rglob("*.jp*g") if path.is_file() and not path.is_symlink())


def _download(package: str, unpacked: Path) -> None:
    """Downloads and unpacks a package; the directory is complete or missing."""
    print(f"downloading {package}", file=sys.stderr)
    directory = unpacked.parent / f"{package}.part"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for command in (
        # As the current user: the user of apt may not write here, and apt warns about that.
        ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package],
        ["sh", "-c", "dpkg-deb -x ./*.deb . && rm -f ./*.deb"],
    ):
        result = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if result.returncode:
            shutil.rmtree(directory, ignore_errors=True)
            raise BenchError(
                f"{package} cannot be downloaded: {result.stderr.strip() or result.stdout.strip()}\n"
                "Check the network, run apt-get update, or use images of your own with --photos DIR."
            )
    directory.rename(unpacked)
