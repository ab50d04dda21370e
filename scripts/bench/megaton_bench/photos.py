"""Where the pictures are from: free photographs out of Debian's wallpaper packages, or a directory.

The packages are downloaded and unpacked beneath the build directory, and not installed. Their licences are in
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

from .batch import Photo
from .errors import BenchError
from .settings import WEB_QUALITY, WEB_SIZE

PACKAGES = (
    "lomiri-wallpapers-16.04",
    "lomiri-wallpapers-20.04",
    "mate-backgrounds",
    "plasma-workspace-wallpapers",
    "ukui-wallpapers",
)
#: Megapixels that a picture must have: neither thumbnails nor what no camera of a visitor makes.
MEGAPIXELS = (1.0, 10.0)


class Photos:
    """The pictures as they are (`photos`), and as a web site has them (`web`), beneath one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.photos: list[Photo] = []
        self.web: list[Photo] = []

    def kind(self, name: str) -> list[Photo]:
        return self.web if name == "web" else self.photos

    def summary(self) -> dict[str, object]:
        """For the report: how many, how large."""
        sizes = sorted(photo.width * photo.height / 1e6 for photo in self.photos)
        size = sum(photo.path.stat().st_size for photo in self.photos)
        return {
            "count": len(self.photos),
            # Decoding these is most of the work, whoever does it.
            "progressive": sum(_is_progressive(photo.path) for photo in self.photos),
            "megapixels_median": round(sizes[len(sizes) // 2], 1),
            "megapixels_max": round(sizes[-1], 1),
            "megabytes": round(size / 1e6, 1),
        }


def _is_progressive(path: Path) -> bool:
    image = pyvips.Image.new_from_file(str(path))
    return "jpeg-multiscan" in image.get_fields() and bool(image.get("jpeg-multiscan"))


def prepare(build: Path, directory: Path | None, quick: bool) -> Photos:
    """Fetches what is not there yet; `quick` takes every fifth picture."""
    sources = list(_of_directory(directory)) if directory else list(_of_packages(build))
    found = [(source, image) for source in sources if (image := _opened(source))]
    if not found:
        where = str(directory) if directory else "the wallpaper packages"
        raise BenchError(f"no JPEG of {MEGAPIXELS[0]:.0f} to {MEGAPIXELS[1]:.0f} megapixels in {where}")
    if quick:
        # Every fifth by size: small and large ones as in the whole.
        found = sorted(found, key=lambda one: one[1][0] * one[1][1])[2::5]
    # Named by what is in it: another choice of pictures does not find the old one's files.
    names = "\n".join(f"{source} {source.stat().st_size}" for source, _ in found)
    result = Photos(build / "pictures" / hashlib.sha256(names.encode()).hexdigest()[:12])
    for kind in ("photos", "web"):
        (result.root / kind).mkdir(parents=True, exist_ok=True)
    for index, (source, size) in enumerate(found):
        name = f"{index:03d}-{re.sub('[^A-Za-z0-9_-]+', '-', source.stem)[:40]}.jpg"
        photo = Photo(result.root / "photos" / name, *size)
        if not photo.path.exists():
            shutil.copyfile(source, photo.path)
        result.photos.append(photo)
        result.web.append(_web(photo, result.root / "web" / name))
    return result


def _web(photo: Photo, path: Path) -> Photo:
    """The same picture with a longer side of 800 pixels."""
    if not path.exists():
        profile = "icc-profile-data" in pyvips.Image.new_from_file(str(photo.path)).get_fields()
        colours = {"export_profile": "srgb"} if profile else {}
        image = pyvips.Image.thumbnail(str(photo.path), WEB_SIZE, height=WEB_SIZE, size="down", **colours)
        partial = path.with_suffix(".part")
        partial.write_bytes(image.jpegsave_buffer(Q=WEB_QUALITY, strip=True, subsample_mode="on"))
        partial.rename(path)
    image = pyvips.Image.new_from_file(str(path))
    return Photo(path, image.width, image.height)


def _opened(path: Path) -> tuple[int, int] | None:
    """Width and height as it is shown, or None for what is no JPEG of the sizes that are wanted."""
    try:
        if path.read_bytes()[:3] != b"\xff\xd8\xff":
            return None
        image = pyvips.Image.new_from_file(str(path))
    except (OSError, pyvips.Error):
        return None
    if not MEGAPIXELS[0] <= image.width * image.height / 1e6 <= MEGAPIXELS[1]:
        return None
    turned = "orientation" in image.get_fields() and image.get("orientation") >= 5
    return (image.height, image.width) if turned else (image.width, image.height)


def _of_directory(directory: Path) -> Iterable[Path]:
    if not directory.is_dir():
        raise BenchError(f"{directory} is no directory")
    return sorted(path for path in directory.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))


def _of_packages(build: Path) -> Iterable[Path]:
    for package in PACKAGES:
        unpacked = build / "packages" / package
        if not unpacked.exists():
            _download(package, unpacked)
        yield from sorted(path for path in unpacked.rglob("*.jp*g") if path.is_file() and not path.is_symlink())


def _download(package: str, unpacked: Path) -> None:
    """Downloads a package and unpacks it, whole or not at all."""
    print(f"downloading {package}", file=sys.stderr)
    directory = unpacked.parent / f"{package}.part"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for command in (
        # As the user who asked: apt's own may not write here, and warns of it.
        ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package],
        ["sh", "-c", "dpkg-deb -x ./*.deb . && rm -f ./*.deb"],
    ):
        result = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if result.returncode:
            shutil.rmtree(directory, ignore_errors=True)
            raise BenchError(
                f"{package} cannot be fetched: {result.stderr.strip() or result.stdout.strip()}\n"
                "Is there a network, and has apt-get update run? --photos DIR takes pictures of your own."
            )
    directory.rename(unpacked)
