"""The cases: which images become which outputs, and how many of them make a batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Encoding:
    """Format of the outputs, the quality and effort that the task names, and the ending of their files."""

    format: str
    extension: str
    quality: int | None = None
    effort: int | None = None

    @property
    def fields(self) -> list[str | int | None]:
        """For the messages of the queues."""
        return [self.format, self.quality, self.effort]

    @property
    def vips_suffix(self) -> str:
        """Ending of a file with the options of libvips."""
        options = [f"Q={self.quality}"] if self.quality else []
        options += [f"effort={self.effort}"] if self.effort is not None else []
        options += ["strip"] + (["background=255"] if self.format == "jpeg" else [])
        return f".{self.extension}[{','.join(options)}]"


#: The defaults of `megaton run`.
JPEG = Encoding("jpeg", "jpg", 80)
PNG = Encoding("png", "png")
WEBP = Encoding("webp", "webp", 80)
AVIF = Encoding("avif", "avif", 60, 4)

#: The box that every output fits in, in pixels, unless the case has another one: the default of `megaton run`.
SIZE = 256


@dataclass(frozen=True)
class Plan:
    """A case that all contestants have in common; the number of jobs is some seconds of work."""

    title: str
    #: The set of images.
    kind: str
    jobs: int
    quick_jobs: int
    sizes: tuple[int, ...] = (SIZE,)
    encoding: Encoding = JPEG


PLANS = {
    "photos": Plan("JPEG photographs to 256 px, in images a second", "photos", 680, 96),
    "shipped": Plan("JPEG files as they come to 256 px, in images a second", "shipped", 400, 96),
    "progressive": Plan("the progressive files of shipped to 256 px, in images a second", "progressive", 190, 32),
    "web": Plan("the same photographs at 800 px to 256 px, in images a second", "web", 2300, 960),
    "2k": Plan("JPEGs of 2000 px to 512 px, in images a second", "2k", 460, 96, (512,)),
    "png": Plan("PNGs of 800 px to JPEGs of 256 px, in images a second", "png", 800, 120),
    "to-png": Plan("PNGs of 800 px to PNGs of 256 px, in images a second", "png", 800, 120, encoding=PNG),
    "webp": Plan("WebPs of 800 px to JPEGs of 256 px, in images a second", "webp", 800, 120),
    "to-webp": Plan("JPEGs of 800 px to WebPs of 256 px, in images a second", "web", 800, 120, encoding=WEBP),
    "to-avif": Plan("JPEGs of 800 px to AVIFs of 256 px, in images a second", "web", 230, 48, encoding=AVIF),
    "mixed": Plan("formats of the web at 800 px to JPEGs of 256 px, in images a second", "mixed", 800, 120),
    "four": Plan(
        "1280, 640, 320 and 128 px of each photograph, in photographs a second", "photos", 170, 48,
        (1280, 640, 320, 128),
    ),
}  # fmt: skip
#: Cases of Megaton alone.
ALONE = ("again", "repeat")
CASES = (*PLANS, *ALONE)
#: Cases of `--quick`, unless others are named.
QUICK = ("photos", "web", *ALONE)
#: Sets that are only there if the packages are the source.
OF_PACKAGES = ("shipped", "progressive")


def default_cases(quick: bool, own_images: bool, with_megaton: bool) -> tuple[str, ...]:
    """Cases of a run that names none."""
    found = QUICK if quick else CASES
    if own_images:
        found = tuple(name for name in found if name not in OF_PACKAGES)
    return found if with_megaton else tuple(name for name in found if name not in ALONE)
