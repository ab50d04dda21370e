"""The command line of the world: builds it, runs both programs in turns, reports, and ends all processes."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..errors import BenchError, PeerFailed
from . import settings as defaults
from .settings import GOAL, IMAGE_QUALITY, IMAGE_SIZE, SET, WorldSettings

NAMES = ("megaton", "img2dataset")
#: Bytes for the shards of a line of one program: several times as much as is used.
LINE_ROOM = 64 << 10
#: Lines of the warm-up.
WARM_LINES = 64


def arguments(values: list[str]) -> WorldSettings:
    """The command line as settings."""
    parser = argparse.ArgumentParser(
        prog="./scripts/bench/world",
        description="Measures one command from a CSV to tar shards, on hosts of which 15 % are dead, slow, redirecting "
        "or lying, beside img2dataset: the same list, in turns.",
        epilog="scripts/bench/README.md explains what is measured, how, and what is fair.",
    )
    parser.add_argument("--program", "--megaton", type=Path, metavar="FILE", help="measure this program instead of "
                        "building one")  # fmt: skip
    parser.add_argument("--lines", type=int, default=defaults.LINES, metavar="N", help="lines of the list; %(default)s")
    parser.add_argument("--hosts", type=int, default=defaults.HOSTS, metavar="N", help="hosts; %(default)s")
    parser.add_argument("--rounds", type=int, default=defaults.ROUNDS, metavar="N", help="rounds; %(default)s")
    parser.add_argument("--photos", type=Path, metavar="DIR", help="JPEGs of your own instead of Debian's wallpapers")
    parser.add_argument("--only", choices=NAMES, metavar="NAME", help=f"one program only: {' or '.join(NAMES)}")
    parser.add_argument("--host-concurrency", type=int, default=defaults.HOST_CONCURRENCY, metavar="N",
                        help="limit of requests at a time to one host; %(default)s")  # fmt: skip
    parser.add_argument("--host-rate", type=float, metavar="N", help="limit of requests a second to one host; none")
    parser.add_argument("--threads", type=int, default=defaults.THREADS, metavar="N",
                        help="threads of each process of img2dataset; %(default)s")  # fmt: skip
    parser.add_argument("--options", default="", metavar="TEXT", help="further options for megaton run, to compare")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements to this file")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep list, outputs and logs in this new directory")
    options = parser.parse_args(values)
    least = min(options.lines, options.hosts, options.rounds, options.host_concurrency, options.threads)
    if least < 1 or (options.host_rate is not None and options.host_rate <= 0):
        parser.error("numbers must be at least 1")
    if options.hosts < 10 or options.hosts > 10_000 or options.lines < options.hosts:
        parser.error("--hosts must be 10 to 10000, and --lines at least as many")
    if options.keep and options.keep.exists():
        parser.error(f"{options.keep} exists")
    root = Path(__file__).resolve().parents[4]
    return WorldSettings(
        program=(options.program or root / ".build/release/megaton").resolve(),
        build=root / ".build/bench",
        photos=options.photos,
        lines=options.lines,
        hosts=options.hosts,
        rounds=options.rounds,
        only=(options.only,) if options.only else NAMES,
        host_concurrency=options.host_concurrency,
        host_rate=options.host_rate,
        threads=options.threads,
        options=tuple(shlex.split(options.options)),
        json=options.json,
        keep=options.keep,
    )


def measure(settings: WorldSettings, home: Path, report: dict[str, Any]) -> None:
    """Builds the world and runs the programs in turns; the report grows with each run."""
    from .. import machine, photos
    from .hosts import make_world, write_list
    from .names import Names
    from .origin import WorldOrigin
    from .programs import PROGRAMS, Stage

    pictures = photos.prepare_set(settings.build, settings.photos, SET, IMAGE_SIZE, IMAGE_QUALITY)
    world = make_world(settings.hosts, settings.lines, pictures.kinds[SET])
    names = Names(home / "names", [host for host in world.hosts if host.kind != "gone"])
    names.check(world.hosts[-1])
    origin = WorldOrigin(world, pictures.root, home / "origin")
    programs = [program for program in PROGRAMS if program.name in settings.only]
    report |= {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine.machine(),
        "versions": {
            name: version
            for name, version in machine.versions(settings.program).items()
            if name in ("megaton", "commit", "img2dataset", "opencv-python-headless", "python", "nginx", "redis-server",
                        "libvips", "libturbojpeg0")
        },
        "world": {
            "lines": settings.lines,
            "hosts": settings.hosts,
            "odd_hosts": sum(host.kind != "healthy" for host in world.hosts),
            "image_size": IMAGE_SIZE,
            **pictures.summary()[SET],
            "kinds": _kinds(world),
        },
        "rounds": settings.rounds,
        "threads": settings.threads,
        "host_concurrency": settings.host_concurrency,
        "host_rate": settings.host_rate,
        "options": list(settings.options),
        "programs": {program.name: {"title": program.title, "runs": [], "failure": None} for program in programs},
    }  # fmt: skip
    try:
        origin.start()
        write_list(home / "list.csv", world, origin.url)
        stage = Stage(settings, world, origin, names, home / "list.csv", home)
        warm_up(stage, programs)
        for number in range(settings.rounds):
            # Each round begins with another program, so that none is always the first on the machine.
            first = number % len(programs)
            for program in programs[first:] + programs[:first]:
                row = report["programs"][program.name]
                if row["failure"]:
                    continue
                _say(f"round {number + 1} of {settings.rounds}: {program.title} ")
                try:
                    result = program(stage).measure()
                except PeerFailed as error:
                    row["failure"] = str(error)
                    _say(f"failed: {error}\n")
                    continue
                row["runs"].append(asdict(result))
                _say(f"{result.seconds:.1f} s, {result.successes} successes\n")
    finally:
        origin.stop()


def warm_up(stage: Any, programs: Any) -> None:
    """Runs each program once on a short list without odd hosts: its files are in memory then, as after a first use."""
    from .hosts import HEALTHY, write_list

    lines = tuple(line for line in stage.world.lines if line.host.kind == HEALTHY)[:WARM_LINES]
    path = stage.home / "warm.csv"
    write_list(path, replace(stage.world, lines=lines), stage.origin.url)
    for program in programs:
        _say(f"warm-up: {program.title}\n")
        program(replace(stage, list=path)).run()


def _kinds(world: Any) -> dict[str, dict[str, int]]:
    """Number of hosts and lines of each kind, healthy hosts first."""
    hosts = Counter(host.kind for host in world.hosts)
    lines = Counter(line.host.kind for line in world.lines)
    from .hosts import DESCRIPTIONS

    return {kind: {"hosts": hosts[kind], "lines": lines[kind]} for kind in DESCRIPTIONS if kind in hosts}


def show(settings: WorldSettings, report: dict[str, Any]) -> None:
    """Prints the report, and writes the file."""
    from .report import ratio, text

    if not any(runs["runs"] or runs["failure"] for runs in report.get("programs", {}).values()):
        return
    report["ratio"], report["goal"] = ratio(report), GOAL
    print(text(report))
    if settings.json:
        settings.json.write_text(json.dumps(report, indent=2) + "\n")


def check_room(settings: WorldSettings, home: Path) -> None:
    """Raises an error if there is no room for the outputs, which stay until the end."""
    wanted = LINE_ROOM * settings.lines * settings.rounds * len(settings.only)
    if shutil.disk_usage(home).free < wanted:
        raise BenchError(
            f"outputs may need {wanted >> 20} MiB, more than {home.parent} has free; name another directory in TMPDIR"
        )


def main() -> int:
    settings = arguments(sys.argv[1:])
    report: dict[str, Any] = {}

    def stop(*_: object) -> None:
        # Once: a second signal would leave processes behind that are being ended.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        if not os.access(settings.program, os.X_OK) and "megaton" in settings.only:
            raise BenchError(f"the program {settings.program} does not exist")
        if settings.keep:
            settings.keep.mkdir(parents=True)
            check_room(settings, settings.keep)
            measure(settings, settings.keep.resolve(), report)
        else:
            with tempfile.TemporaryDirectory(prefix="megaton-world-") as home:
                check_room(settings, Path(home))
                measure(settings, Path(home), report)
    except (BenchError, PeerFailed) as error:
        print(f"bench: {error}", file=sys.stderr)
        show(settings, report)
        return 1
    except KeyboardInterrupt:
        print("\nbench: interrupted", file=sys.stderr)
        show(settings, report)
        return 130
    except Exception:
        # A fault of the benchmark itself must not lose the measurements.
        show(settings, report)
        raise
    show(settings, report)
    from .report import failures

    return 2 if failures(report) else 0


def _say(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
