"""Quality of the outputs, compared with an exact reference.

The reference is the fully decoded image, upright and in sRGB, scaled with Lanczos3 over every pixel to exactly
the size of the output. It is created once for each image and size.
"""

from __future__ import annotations

import io
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyvips
from PIL import Image
from ssimulacra2 import compute_ssimulacra2

from .batch import Photo


@dataclass(frozen=True)
class Quality:
    """Medians over the images: PSNR in dB, SSIMULACRA2 of at most 100."""

    psnr: float
    ssimulacra2: float


class Judge:
    """Compares outputs with references, which it stores."""

    def __init__(self) -> None:
        self._references: dict[tuple[Path, int, int], np.ndarray] = {}

    def judge(self, outputs: list[tuple[Photo, Path]]) -> Quality:
        """The medians over these outputs."""
        psnr, score = [], []
        for photo, path in outputs:
            output = np.asarray(Image.open(path).convert("RGB"))
            reference = self._reference(photo, output.shape[1], output.shape[0])
            error = np.mean((reference.astype(np.float64) - output) ** 2)
            psnr.append(99.0 if error == 0 else 10 * np.log10(255**2 / error))
            score.append(compute_ssimulacra2(_png(reference), _png(output)))
        return Quality(float(statistics.median(psnr)), float(statistics.median(score)))

    def _reference(self, photo: Photo, width: int, height: int) -> np.ndarray:
        key = (photo.path, width, height)
        if key not in self._references:
            image = pyvips.Image.new_from_file(str(photo.path)).autorot()
            if "icc-profile-data" in image.get_fields():
                image = image.icc_transform("srgb", embedded=True)
            image = image.colourspace("srgb")
            # A gap of 0: no box filter before the Lanczos kernel.
            image = image.resize(width / image.width, vscale=height / image.height, kernel="lanczos3", gap=0)
            self._references[key] = np.asarray(image.numpy()).reshape(height, width, 3)
        return self._references[key]


def _png(pixels: np.ndarray) -> io.BytesIO:
    """A file for the metric, which accepts only files."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=0)
    file.seek(0)
    return file


def wrong_size(photo: Photo, path: Path, box: int) -> str | None:
    """The fault of an output's size; None if it is correct.

    The shorter side may be rounded either way, by less than a pixel; no side may exceed the box.
    """
    try:
        with Image.open(path) as image:
            kind, (width, height) = image.format, image.size
            # The data after the header may be damaged.
            image.load()
    except OSError as error:
        return f"{path.name} cannot be read: {error}"
    expected = photo.fitted(box)
    if kind != "JPEG":
        return f"{path.name} is a {kind}"
    if max(width, height) > box or abs(width - expected[0]) > 1 or abs(height - expected[1]) > 1:
        return (
            f"{path.name} is {width} x {height} instead of {expected[0]:.1f} x {expected[1]:.1f} "
            f"({photo.path.name}, {photo.width} x {photo.height})"
        )
    return None
