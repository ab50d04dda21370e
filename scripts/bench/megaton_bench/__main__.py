"""The command line: prepares, measures the cases, reports, and always ends the processes that it started."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from .cases import CASES, OF_PACKAGES, PLANS, default_cases
from .errors import BenchError, PeerFailed
from .settings import Settings

#: Names for `--only`; listed here, because `--help` must work before the peers are installed.
CONTESTANTS = (
    "megaton", "megaton-vips", "celery", "celery-system", "celery-one-task", "dramatiq", "dramatiq-system", "rq",
    "rq-simple", "img2dataset", "thumbor", "vipsthumbnail", "bare-loop", "bare-pyvips", "bare-pillow", "bare-opencv",
    "bare-engine",
)  # fmt: skip
#: Bytes for the outputs of a round of all cases but `to-png`, about 10 KB each: twice as much as is used.
ROUND_ROOM = 1 << 30
#: The same for `to-png` alone, whose outputs have 70 KB.
PNG_ROOM = 1 << 30


def arguments(values: list[str]) -> Settings:
    """The command line as settings."""
    parser = argparse.ArgumentParser(
        prog="./scripts/bench/run",
        description="Measures Megaton beside its peers: the same images to the same outputs, in turns.",
        epilog="scripts/bench/README.md explains what is measured, how, and what is fair.",
    )
    parser.add_argument("--quick", action="store_true", help="two rounds, a fifth of the images, few contestants")
    parser.add_argument("--photos", type=Path, metavar="DIR", help="JPEGs of your own instead of Debian's wallpapers")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each case; 5, with --quick 2")
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="approximate number of jobs of a batch; by default some seconds of work"
    )
    parser.add_argument(
        "--only", metavar="NAME,…", default="",
        help=f"only these cases ({', '.join(CASES)}) and contestants ({', '.join(CONTESTANTS)})",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements to this file")
    parser.add_argument("--chart", type=Path, metavar="FILE.svg", help="draw the medians in this file")
    parser.add_argument("--megaton", type=Path, metavar="PATH", help="measure this program instead of building one")
    options = parser.parse_args(values)
    names = [name for name in options.only.split(",") if name]
    unknown = [name for name in names if name not in CASES + CONTESTANTS]
    if unknown:
        parser.error(f"--only has unknown names: {', '.join(unknown)}")
    if any(number is not None and number < 1 for number in (options.rounds, options.jobs)):
        parser.error("--rounds and --jobs must be at least 1")
    root = Path(__file__).resolve().parents[3]
    only = tuple(name for name in names if name in CONTESTANTS)
    if options.photos and any(name in OF_PACKAGES for name in names):
        parser.error(f"with --photos there is no case {' or '.join(OF_PACKAGES)}: `photos` has your images as they are")
    default = default_cases(options.quick, bool(options.photos), not only or "megaton" in only)
    return Settings(
        program=(options.megaton or root / ".build/release/megaton").resolve(),
        build=root / ".build/bench",
        photos=options.photos,
        rounds=options.rounds or (2 if options.quick else 5),
        batch=options.jobs,
        quick=options.quick,
        cases=tuple(name for name in CASES if name in names) or default,
        only=only,
        json=options.json,
        chart=options.chart,
    )


def check_room(settings: Settings, home: Path) -> None:
    """Raises an error if there is no room for the outputs, which stay until the end."""
    wanted = (ROUND_ROOM + (PNG_ROOM if "to-png" in settings.cases else 0)) * settings.rounds
    if shutil.disk_usage(home).free < wanted:
        raise BenchError(
            f"outputs may need {wanted >> 30} GiB, more than {home.parent} has free; name another directory in TMPDIR"
        )


def measure(settings: Settings, home: Path, report: dict[str, Any]) -> None:
    """Starts the servers, runs the cases and stops the servers; the report grows with each case."""
    from . import machine, photos, sharing
    from .origin import Origin
    from .peers import Stage, contestants
    from .quality import Judge
    from .redis_server import RedisServer
    from .rounds import Case, run_case

    pictures = photos.prepare(settings.build, settings.photos, settings.quick)
    # As in deploy/, without the append-only file: the queue of no contestant is on disk.
    broker = RedisServer("broker", home / "broker", ["--maxmemory-policy", "noeviction"])
    cache = RedisServer("cache", home / "cache", ["--maxmemory", "4gb", "--maxmemory-policy", "allkeys-lru"])
    origin = Origin(pictures.root, home / "origin")
    stage = Stage(settings, home, origin, broker, cache, machine.versions(settings.program, settings.newest))
    cases: dict[str, Any] = {}
    report |= {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine.machine(),
        "versions": stage.versions,
        "pictures": pictures.summary(),
        "rounds": settings.rounds,
        "quick": settings.quick,
        "cases": cases,
    }
    judge = Judge()
    try:
        for server in (broker, cache, origin):
            server.start()
        for name in settings.cases:
            if name == "repeat":
                cases[name] = sharing.repeat(stage, pictures.kinds["web"], settings.rounds)
                continue
            plan = PLANS.get(name)
            kind = plan.kind if plan else "photos"
            jobs = settings.jobs(name, len(pictures.kinds[kind]))
            if plan is None:
                cases[name] = sharing.again(stage, pictures.kinds[kind], jobs, settings.rounds)
                continue
            chosen = contestants(stage, name)
            if not chosen:
                print(f"{name}: none of the chosen contestants can do it", file=sys.stderr)
                continue
            case = Case(name, kind, pictures.kinds[kind], plan.sizes, jobs, plan.encoding)
            rows = run_case(stage, case, chosen, settings.rounds, judge)
            cases[name] = [row.summary() for row in rows]
    finally:
        for server in (origin, cache, broker):
            server.stop()


def show(settings: Settings, report: dict[str, Any]) -> None:
    """Prints the tables, and writes the files."""
    from . import chart
    from .report import TITLES, text

    print(text(report))
    if settings.json:
        settings.json.write_text(json.dumps(report, indent=2) + "\n")
    if settings.chart:
        settings.chart.write_text(chart.svg(report, TITLES))


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
        if not os.access(settings.program, os.X_OK):
            raise BenchError(f"the program {settings.program} does not exist")
        with tempfile.TemporaryDirectory(prefix="megaton-bench-") as home:
            check_room(settings, Path(home))
            measure(settings, Path(home), report)
    except (BenchError, PeerFailed) as error:
        print(f"bench: {error}", file=sys.stderr)
        if report.get("cases"):
            show(settings, report)
        return 1
    except KeyboardInterrupt:
        print("\nbench: interrupted", file=sys.stderr)
        if report.get("cases"):
            show(settings, report)
        return 130
    except Exception:
        # A fault of the benchmark itself must not lose the measurements.
        if report.get("cases"):
            show(settings, report)
        raise
    show(settings, report)
    return 2 if failures(report) else 0


def failures(report: dict[str, Any]) -> list[str]:
    """The failures of all cases."""
    rows = [row for case in report["cases"].values() for row in (case if isinstance(case, list) else [case])]
    return [row["failure"] for row in rows if "failure" in row]


if __name__ == "__main__":
    sys.exit(main())
