"""Sources of the images: free photographs of Debian's wallpaper packages, or a directory.

The packages are downloaded and unpacked beneath the build directory, and not installed. Their licenses are in
their `usr/share/doc/*/copyright`; scripts/bench/README.md has a list.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pyvips

from . import making
from .batch import Photo
from .errors import BenchError
from .making import Recipe, Source
from .settings import PHOTO_MEGAPIXELS, PHOTO_QUALITY, PHOTO_SIZE, TWO_K_QUALITY, TWO_K_SIZE, WEB_QUALITY, WEB_SIZE

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
RECIPE = (
    f"photos {PHOTO_SIZE} px {PHOTO_MEGAPIXELS} MP Q{PHOTO_QUALITY}, 2k {TWO_K_SIZE} px Q{TWO_K_QUALITY}, "
    f"web {WEB_SIZE} px Q{WEB_QUALITY}, 4:2:0, png and mixed 1, AVIF Q{making.AVIF_QUALITY} {making.SHARES}"
)

Set = list[tuple[Source, Recipe]]


class Photos:
    """Sets beneath one directory, by name; `shipped` and `progressive` only if the packages are the source."""

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


def prepare(build: Path, directory: Path | None, quick: bool) -> Photos:
    """Downloads packages and creates files if they are missing; `quick` uses every fifth image of a set."""
    found = _sources(build, directory)
    usual = [source for source in found if MEGAPIXELS[0] <= source.megapixels <= MEGAPIXELS[1]]
    # Images of the user are measured unchanged.
    large = usual if directory else [source for source in found if source.megapixels >= PHOTO_MEGAPIXELS[0]]
    if not usual or not large:
        where = str(directory) if directory else "the wallpaper packages"
        raise BenchError(f"no JPEG of {MEGAPIXELS[0]:.0f} to {MEGAPIXELS[1]:.0f} megapixels in {where}")
    if quick:
        large, usual = _fifth(large), _fifth(usual)
    return _prepared(build, _sets(large, usual, bool(directory)), RECIPE)


def prepare_set(build: Path, directory: Path | None, name: str, side: int, quality: int) -> Photos:
    """Creates one set under a name: all images of the source within a box of this side, as baseline JPEGs."""
    large = [source for source in _sources(build, directory) if max(source.width, source.height) >= side]
    if not large:
        raise BenchError(f"no JPEG of at least {side} pixels in {directory or 'the wallpaper packages'}")
    recipe = Recipe(lambda source: making.jpeg(source, side, quality))
    return _prepared(build, {name: [(source, recipe) for source in large]}, f"{name} {side} px Q{quality}, 4:2:0")


def _sources(build: Path, directory: Path | None) -> list[Source]:
    """All JPEGs of a directory, or of the packages."""
    paths = _of_directory(directory) if directory else _of_packages(build)
    return [source for path in paths if (source := _jpeg(path))]


def _prepared(build: Path, sets: dict[str, Set], recipe: str) -> Photos:
    """The sets as files, which are created if they are missing."""
    # The name identifies content and settings, so that another choice of images does not find old files.
    names = [f"{kind} {one.path} {one.path.stat().st_size}" for kind, files in sets.items() for one, _ in files]
    name = hashlib.sha256("\n".join([recipe, *names]).encode()).hexdigest()[:12]
    result = Photos(build / "pictures" / name)
    for kind, files in sets.items():
        (result.root / kind).mkdir(parents=True, exist_ok=True)
        result.kinds[kind] = [
            _made(source, how, result.root / kind, index) for index, (source, how) in enumerate(files)
        ]
    return result


def _sets(large: list[Source], usual: list[Source], own: bool) -> dict[str, Set]:
    """The files of each set, and how they are created; `own` images are not scaled for `photos`."""

    def all_by(recipe: Recipe, sources: list[Source] = large) -> Set:
        return [(source, recipe) for source in sources]

    sets = {
        "photos": all_by(Recipe(making.copy if own else making.photo)),
        "web": all_by(Recipe(making.web)),
        "2k": all_by(Recipe(making.two_k)),
        "png": making.pngs(large),
        "webp": all_by(Recipe(making.webp, "webp")),
        "mixed": making.mixed(large),
    }
    if not own:
        copied = Recipe(making.copy)
        sets["shipped"] = all_by(copied, usual)
        sets["progressive"] = all_by(copied, [source for source in usual if _is_progressive(source.path)])
    return sets


def _fifth(sources: list[Source]) -> list[Source]:
    """Every fifth by size, so that small and large ones have the same share as in the whole set."""
    return sorted(sources, key=lambda one: one.megapixels)[min(2, len(sources) // 2) :: 5]


def _made(source: Source, recipe: Recipe, directory: Path, index: int) -> Photo:
    """An image of a set; a file is complete or missing."""
    name = re.sub("[^A-Za-z0-9_-]+", "-", source.path.stem)[:40]
    path = directory / f"{index:03d}-{name}.{recipe.extension}"
    if not path.exists():
        partial = path.with_suffix(".part")
        partial.write_bytes(recipe.make(source))
        partial.rename(path)
    made = _opened(path)
    if not made:
        raise BenchError(f"{path} is not an image; remove it, and run the benchmark again")
    return Photo(path, made.width, made.height, alpha=recipe.make is making.png_with_alpha)


def _jpeg(path: Path) -> Source | None:
    """A JPEG; None if the file is none."""
    try:
        with open(path, "rb") as file:
            is_jpeg = file.read(3) == b"\xff\xd8\xff"
    except OSError:
        return None
    return _opened(path) if is_jpeg else None


def _opened(path: Path) -> Source | None:
    """A file with its width and height as shown; None if it is not an image."""
    try:
        image = pyvips.Image.new_from_file(str(path))
    except pyvips.Error:
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
