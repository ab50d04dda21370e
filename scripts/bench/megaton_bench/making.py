"""Creates the files of the sets from photographs, with the libvips of the system."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyvips

from .settings import PHOTO_MEGAPIXELS, PHOTO_QUALITY, PHOTO_SIZE, TWO_K_QUALITY, TWO_K_SIZE, WEB_QUALITY, WEB_SIZE

#: Shares of the formats in `mixed`; scripts/bench/README.md has their source.
SHARES = {"jpg": 32.4, "png": 28.4, "webp": 12.0, "gif": 5.0, "avif": 1.0}
#: Quality of the AVIFs in `mixed`.
AVIF_QUALITY = 60
#: Every nth PNG is transparent around a rounded rectangle.
ALPHA_EVERY = 3


@dataclass(frozen=True)
class Source:
    """An image file; width and height as shown."""

    path: Path
    width: int
    height: int

    @property
    def megapixels(self) -> float:
        return self.width * self.height / 1e6


@dataclass(frozen=True)
class Recipe:
    """How a file of a set is created, and its ending."""

    make: Callable[[Source], bytes]
    extension: str = "jpg"


def copy(source: Source) -> bytes:
    return source.path.read_bytes()


def photo(source: Source) -> bytes:
    """The image as the user of a camera uploads it: within the limits of side and area, never enlarged."""
    longer = max(source.width, source.height)
    box = min(PHOTO_SIZE, int(longer * math.sqrt(PHOTO_MEGAPIXELS[1] / source.megapixels)))
    return jpeg(source, box, PHOTO_QUALITY)


def web(source: Source) -> bytes:
    """The image as a web site has it."""
    return jpeg(source, WEB_SIZE, WEB_QUALITY)


def two_k(source: Source) -> bytes:
    return jpeg(source, TWO_K_SIZE, TWO_K_QUALITY)


def png(source: Source) -> bytes:
    """As libpng writes it by default: all filters, chosen for each row, and level 6 of zlib."""
    return bytes(_scaled(source, WEB_SIZE).pngsave_buffer(compression=6, filter="all", strip=True))


def png_with_alpha(source: Source) -> bytes:
    """The same, transparent around a rounded rectangle with a soft edge; the colors are black there."""
    image = _scaled(source, WEB_SIZE).colourspace("srgb")
    mask = _rounded(image.width, image.height)
    # Unassociated alpha: at the soft edge the colors are those of the photograph.
    visible = (mask > 0).ifthenelse(image, 0)
    return bytes(visible.bandjoin(mask).pngsave_buffer(compression=6, filter="all", strip=True))


def webp(source: Source) -> bytes:
    return bytes(_scaled(source, WEB_SIZE).webpsave_buffer(Q=WEB_QUALITY, strip=True))


def gif(source: Source) -> bytes:
    """A palette of 256 colors, dithered."""
    return bytes(_scaled(source, WEB_SIZE).gifsave_buffer(strip=True))


def avif(source: Source) -> bytes:
    return bytes(_scaled(source, WEB_SIZE).heifsave_buffer(compression="av1", Q=AVIF_QUALITY, strip=True))


def pngs(sources: list[Source]) -> list[tuple[Source, Recipe]]:
    """PNGs, a third of them with alpha."""
    return [(source, _png_recipe(index)) for index, source in enumerate(sources)]


def mixed(sources: list[Source]) -> list[tuple[Source, Recipe]]:
    """One file of each source, in formats whose numbers are as near to their shares as possible."""
    others = {"jpg": Recipe(web), "webp": Recipe(webp, "webp"), "gif": Recipe(gif, "gif"), "avif": Recipe(avif, "avif")}
    counts = dict.fromkeys(SHARES, 0)
    result = []
    for index, source in enumerate(sources):
        # The format that is furthest behind its share is next, so that each has large and small images.
        scale = (index + 1) / sum(SHARES.values())
        name = max(SHARES, key=lambda one: SHARES[one] * scale - counts[one])
        result.append((source, others.get(name) or _png_recipe(counts["png"])))
        counts[name] += 1
    return result


def _png_recipe(index: int) -> Recipe:
    return Recipe(png_with_alpha if index % ALPHA_EVERY == ALPHA_EVERY - 1 else png, "png")


def jpeg(source: Source, box: int, quality: int) -> bytes:
    """A baseline JPEG of 4:2:0."""
    return bytes(_scaled(source, box).jpegsave_buffer(Q=quality, strip=True, subsample_mode="on"))


def _scaled(source: Source, box: int) -> pyvips.Image:
    """Within a square box, in sRGB or gray, without metadata and profile when it is saved."""
    profile = "icc-profile-data" in pyvips.Image.new_from_file(str(source.path)).get_fields()
    colors = {"export_profile": "srgb"} if profile else {}
    return pyvips.Image.thumbnail(str(source.path), box, height=box, size="down", **colors)


def _rounded(width: int, height: int) -> pyvips.Image:
    """A mask: 255 within a rounded rectangle, 0 around it, and a few pixels in between."""
    margin, radius = min(width, height) // 16, min(width, height) // 6
    place = pyvips.Image.xyz(width, height)
    half = ((width - 1) / 2, (height - 1) / 2)
    inner = [max(0.0, side - margin - radius) for side in half]
    across, down = (((place[axis] - half[axis]).abs() - inner[axis]) for axis in (0, 1))
    across, down = (across > 0).ifthenelse(across, 0), (down > 0).ifthenelse(down, 0)
    distance = (across**2 + down**2) ** 0.5
    return ((radius - distance) * 64 + 128).cast("uchar")
