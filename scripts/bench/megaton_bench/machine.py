"""The machine and the versions of a measurement, without which figures mean nothing."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from .errors import BenchError

PYTHON_PACKAGES = (
    "celery", "rq", "dramatiq", "img2dataset", "thumbor", "pyvips", "pillow", "opencv-python-headless", "redis",
    "urllib3", "numpy", "ssimulacra2",
)  # fmt: skip
#: Packages of the environment with the newest libvips, where their versions may be others.
NEWEST_PACKAGES = ("pyvips-binary", "pillow", "opencv-python-headless")
DEBIAN_PACKAGES = ("libvips42", "libjpeg62-turbo", "libturbojpeg0")


def machine() -> dict[str, object]:
    """Processor, cores, memory, kernel."""
    information = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.*)$", information, re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    system = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    return {
        "cpu": model.group(1) if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory.group(1)) / 2**20, 1) if memory else None,
        "kernel": platform.release(),
        "system": system.get("PRETTY_NAME", platform.system()),
    }


def versions(program: Path, newest: Path | None = None) -> dict[str, str]:
    """Versions of all programs and libraries that influence the figures; `newest` is the environment of the queues."""
    found = {
        "megaton": _output([str(program), "--version"]),
        "redis-server": _match(r"v=(\S+)", _output(["redis-server", "--version"])),
        "nginx": _match(r"nginx/(\S+)", _output([shutil.which("nginx") or "/usr/sbin/nginx", "-v"])),
        "libvips": _match(r"vips[- ](\S+)", _output(["vips", "--version"])),
        "python": platform.python_version(),
    }
    for package in PYTHON_PACKAGES:
        found[package] = importlib.metadata.version(package)
    if newest:
        found |= {f"{package} (newest)": version for package, version in _versions_in(newest).items()}
    for package in DEBIAN_PACKAGES:
        version = _output(["dpkg-query", "-W", "-f", "${Version}", package])
        if version and "no packages" not in version:
            found[package] = version
    commit = _output(["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"])
    if re.fullmatch(r"[0-9a-f]{7,40}", commit):
        found["commit"] = commit
    return found


def _versions_in(environment: Path) -> dict[str, str]:
    """Versions of the packages of another environment."""
    program = "import importlib.metadata, json, sys\n"
    program += "print(json.dumps({name: importlib.metadata.version(name) for name in sys.argv[1:]}))"
    output = _output([str(environment / "bin/python"), "-c", program, *NEWEST_PACKAGES])
    try:
        found: dict[str, str] = json.loads(output)
    except ValueError as error:
        raise BenchError(f"{environment} is not complete; remove it, and run the benchmark again: {output}") from error
    return found


def _output(command: list[str]) -> str:
    """Output of a command on both streams; empty if the command does not exist."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return (result.stdout + result.stderr).strip()


def _match(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found.group(1) if found else text
