"""The work of the Python peers: fetch, thumbnail with libvips, write. One function for all of them.

The libvips is that of the environment: of the wheel `pyvips-binary`, or of the system.

Written with care: kept connections, `thumbnail_buffer` with its shrink on load, no enlarging, no metadata, and the
cache of libvips off. No `export_profile` either: the images are sRGB, and for images without a profile libvips would
convert anyway, which costs 10 ms and 6 dB.
"""

from __future__ import annotations

import os
from typing import Any

_pool: Any = None
_vips: Any = None


def prepare() -> None:
    """Imports and connects in the worker process: libvips must not be initialized before a fork."""
    global _pool, _vips
    if _pool is None:
        import pyvips
        import urllib3

        pyvips.cache_set_max(0)
        report = os.environ.get("MEGATON_BENCH_LIBVIPS")
        if report:
            # The benchmark checks which libvips this process really has.
            with open(report, "a") as file:
                file.write(".".join(str(pyvips.version(part)) for part in range(3)) + "\n")
        _vips = pyvips
        _pool = urllib3.PoolManager(maxsize=16)


def fetch(url: str) -> bytes:
    response = _pool.request("GET", url, timeout=30, retries=2)
    if response.status != 200:
        raise RuntimeError(f"{url}: {response.status}")
    return response.data


def thumbnail(url: str, outputs: list[list[Any]], encoding: list[Any]) -> None:
    """Fetches once, and writes each of the outputs, which are pairs of path and box."""
    prepare()
    data = fetch(url)
    for path, size in outputs:
        encoded = render(data, size, encoding)
        with open(path, "wb", buffering=0) as file:
            file.write(encoded)


def render(data: bytes, size: int, encoding: list[Any]) -> bytes:
    """The thumbnail, encoded with the defaults of libvips except for quality and effort."""
    form, quality, effort = encoding
    image = _vips.Image.thumbnail_buffer(data, size, height=size, size="down")
    if form == "jpeg":
        return image.jpegsave_buffer(Q=quality, strip=True, background=255)
    if form == "png":
        return image.pngsave_buffer(strip=True)
    if form == "webp":
        return image.webpsave_buffer(Q=quality, strip=True)
    return image.heifsave_buffer(compression="av1", Q=quality, effort=effort, strip=True)


def broker_url() -> str:
    """The Redis that is the broker."""
    return os.environ["MEGATON_BENCH_REDIS"]
