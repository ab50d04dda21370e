"""Quality of the outputs, compared with an exact reference.

The reference is the fully decoded image, upright and in sRGB, scaled with Lanczos3 over every pixel to exactly
the size of the output: once with the values of sRGB, as all contestants scale, and once in linear light, as light mixes
in a lens. Transparent images are compared before white. A reference is created once for each image and size.
"""

from __future__ import annotations

import hashlib
import io
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyvips
from PIL import Image
from ssimulacra2 import compute_ssimulacra2

from .batch import Photo
from .cases import Encoding

WHITE = 255


@dataclass(frozen=True)
class Quality:
    """Medians over the images: PSNR in dB, SSIMULACRA2 of at most 100; also by the reference in linear light."""

    psnr: float
    ssimulacra2: float
    psnr_linear: float
    ssimulacra2_linear: float


class Judge:
    """Compares outputs with references; stores both the references and the results."""

    def __init__(self) -> None:
        self._references: dict[tuple[Path, int, int, bool], np.ndarray] = {}
        self._results: dict[tuple[Path, str], tuple[float, ...]] = {}

    def judge(self, outputs: list[tuple[Photo, Path]]) -> Quality:
        """The medians over these outputs."""
        results = [self._result(photo, path) for photo, path in outputs]
        return Quality(*(float(statistics.median(values)) for values in zip(*results, strict=True)))

    def _result(self, photo: Photo, path: Path) -> tuple[float, ...]:
        """Figures of one output in the order of `Quality`; several contestants often write the same file."""
        key = (photo.path, hashlib.sha256(path.read_bytes()).hexdigest())
        if key not in self._results:
            output = _pixels(path)
            values: list[float] = []
            for linear in (False, True):
                reference = self._reference(photo, output.shape[1], output.shape[0], linear)
                error = np.mean((reference.astype(np.float64) - output) ** 2)
                values.append(99.0 if error == 0 else 10 * np.log10(255**2 / error))
                values.append(compute_ssimulacra2(_png(reference), _png(output)))
            self._results[key] = tuple(values)
        return self._results[key]

    def _reference(self, photo: Photo, width: int, height: int, linear: bool) -> np.ndarray:
        key = (photo.path, width, height, linear)
        if key not in self._references:
            image = pyvips.Image.new_from_file(str(photo.path)).autorot()
            if "icc-profile-data" in image.get_fields():
                image = image.icc_transform("srgb", embedded=True)
            image = image.colourspace("srgb")
            if image.hasalpha():
                image = image.flatten(background=WHITE)
            if linear:
                image = image.colourspace("scrgb")
            # A gap of 0: no box filter before the Lanczos kernel.
            image = image.resize(width / image.width, vscale=height / image.height, kernel="lanczos3", gap=0)
            if linear:
                image = image.colourspace("srgb")
            self._references[key] = np.asarray(image.numpy()).reshape(height, width, 3)
        return self._references[key]


def _pixels(path: Path) -> np.ndarray:
    """The colors of a file, before white if it is transparent."""
    image: Image.Image = Image.open(path)
    if not image.has_transparency_data:
        return np.asarray(image.convert("RGB"))
    image = image.convert("RGBA")
    return np.asarray(Image.alpha_composite(Image.new("RGBA", image.size, (WHITE,) * 4), image).convert("RGB"))


def _png(pixels: np.ndarray) -> io.BytesIO:
    """A file for the metric, which accepts only files."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=0)
    file.seek(0)
    return file


def fault(photo: Photo, path: Path, box: int, encoding: Encoding) -> str | None:
    """The fault of an output's format or size; None if it is correct.

    A transparent image stays transparent if the format can be. The shorter side may be rounded either way, by less than
    a pixel; no side may exceed the box.
    """
    try:
        with Image.open(path) as image:
            kind, (width, height) = image.format, image.size
            opaque = photo.alpha and encoding.format != "jpeg" and not image.has_transparency_data
            # The data after the header may be damaged.
            image.load()
    except OSError as error:
        return f"{path.name} cannot be read: {error}"
    expected = photo.fitted(box)
    if kind != encoding.format.upper():
        return f"{path.name} is a {kind}"
    if opaque:
        return f"{path.name} is opaque, although {photo.path.name} has alpha"
    if max(width, height) > box or abs(width - expected[0]) > 1 or abs(height - expected[1]) > 1:
        return (
            f"{path.name} is {width} x {height} instead of {expected[0]:.1f} x {expected[1]:.1f} "
            f"({photo.path.name}, {photo.width} x {photo.height})"
        )
    return None
