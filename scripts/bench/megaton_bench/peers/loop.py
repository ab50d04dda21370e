"""Bare loops in Python: processes that only make thumbnails, encode and write, with files in memory.

    python -m megaton_bench.peers.loop LIBRARY PROCESSES FORMAT QUALITY EFFORT JOBS

It has the protocol and the file of jobs of `bare/vips_loop.c`. A quality or effort of -1 is the library's default.
Processes, not threads, so that Python's lock is no part of the measurement.
"""

from __future__ import annotations

import io
import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any

from . import thumbnail

Render = Callable[[bytes, int], bytes]

#: Jobs that a process gets at a time.
JOBS_EACH = 4
#: As Pillow's own reducing_gap: a decoder may shrink an image to twice the size of the thumbnail.
REDUCING_GAP = 2.0
#: Seconds for the imports of a library.
READY_SECONDS = 60

_render: Render
_jobs: list[tuple[bytes, list[tuple[int, str]]]] = []


def pillow(form: str, quality: int | None, effort: int | None) -> Render:
    """`Image.thumbnail`, which uses `draft` for JPEGs, with Lanczos3."""
    from PIL import Image, ImageOps

    options: dict[str, Any] = {} if quality is None else {"quality": quality}
    if form == "avif":
        # The speed that libvips derives from this effort; one thread, as every process has.
        options |= {"speed": 9 - (effort or 0), "max_threads": 1}

    def render(data: bytes, size: int) -> bytes:
        image: Image.Image = Image.open(io.BytesIO(data))
        image.thumbnail((size, size), Image.Resampling.LANCZOS, reducing_gap=REDUCING_GAP)
        ImageOps.exif_transpose(image, in_place=True)
        if form == "jpeg" and image.has_transparency_data:
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, (255,) * 4), image)
        if form == "jpeg" and image.mode not in ("RGB", "L"):
            image = image.convert("RGB")
        file = io.BytesIO()
        image.save(file, form.upper(), **options)
        return file.getvalue()

    return render


def opencv(form: str, quality: int | None, _: int | None) -> Render:
    """Shrink on load, then `INTER_AREA`; images without alpha."""
    import cv2
    import numpy as np
    from PIL import Image

    cv2.setNumThreads(1)
    key = {"jpeg": cv2.IMWRITE_JPEG_QUALITY, "webp": cv2.IMWRITE_WEBP_QUALITY}[form]
    reductions = {8: cv2.IMREAD_REDUCED_COLOR_8, 4: cv2.IMREAD_REDUCED_COLOR_4, 2: cv2.IMREAD_REDUCED_COLOR_2}

    def render(data: bytes, size: int) -> bytes:
        # OpenCV has no function that reads only the header. The longer side is the same in any orientation.
        longer = max(Image.open(io.BytesIO(data)).size)
        factor = next((one for one in reductions if longer >= one * size * REDUCING_GAP), 1)
        image = cv2.imdecode(np.frombuffer(data, np.uint8), reductions.get(factor, cv2.IMREAD_COLOR))
        if image is None:
            raise ValueError("OpenCV cannot read it")
        height, width = image.shape[:2]
        scale = min(1.0, size / max(height, width))
        shape = (max(1, round(width * scale)), max(1, round(height * scale)))
        image = cv2.resize(image, shape, interpolation=cv2.INTER_AREA)
        return bytes(cv2.imencode("." + form, image, [key, quality or -1])[1])

    return render


def libvips(form: str, quality: int | None, effort: int | None) -> Render:
    """The task of the queues, without queue and network."""
    return lambda data, size: thumbnail.render(data, size, [form, quality, effort])


LIBRARIES = {"pillow": pillow, "opencv": opencv, "pyvips": libvips}


def load(path: str) -> None:
    """Reads the jobs, and each different file once."""
    files: dict[str, bytes] = {}
    with open(path) as lines:
        for line in lines:
            source, *fields = line.rstrip("\n").split("\t")
            if source not in files:
                with open(source, "rb") as file:
                    files[source] = file.read()
            outputs = [(int(size), output) for size, output in zip(fields[::2], fields[1::2], strict=True)]
            _jobs.append((files[source], outputs))


def prepare(ready: Barrier, library: str, form: str, quality: int | None, effort: int | None) -> None:
    """Imports in the process that renders, because libvips must not be initialized before a fork; then waits."""
    global _render
    if library == "pyvips":
        thumbnail.prepare()
    _render = LIBRARIES[library](form, quality, effort)
    _render(_jobs[0][0], _jobs[0][1][0][0])
    ready.wait(READY_SECONDS)


def work(index: int) -> None:
    data, outputs = _jobs[index]
    for size, output in outputs:
        encoded = _render(data, size)
        with open(output, "wb", buffering=0) as file:
            file.write(encoded)


def main(library: str, processes: int, form: str, quality: int, effort: int, path: str) -> None:
    load(path)
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(processes + 1)
    options = (ready, library, form, *(None if value < 0 else value for value in (quality, effort)))
    sys.stdin.readline()
    with context.Pool(processes, prepare, options) as pool:
        ready.wait(READY_SECONDS)
        print("loaded", flush=True)
        sys.stdin.readline()
        for _ in pool.imap_unordered(work, range(len(_jobs)), chunksize=JOBS_EACH):
            pass
        print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
