"""scripts/chaos pace: measured scenarios, and a table of their bounds."""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback

from megaton_pace import (
    scenarios_batches,
    scenarios_bytes,
    scenarios_cache,
    scenarios_fleet,
    scenarios_hosts,
    scenarios_redis_cluster,
)
from megaton_pace.processes import listen_for_signals
from megaton_pace.redis import RedisFault
from megaton_pace.result import Broken, NotBuilt, Result, table
from megaton_pace.stage import Stage

SCENARIOS = {
    **scenarios_fleet.SCENARIOS,
    **scenarios_hosts.SCENARIOS,
    **scenarios_batches.SCENARIOS,
    **scenarios_bytes.SCENARIOS,
    **scenarios_cache.SCENARIOS,
    **scenarios_redis_cluster.SCENARIOS,
}
# Seconds that a scenario may take, whatever hangs.
LIMIT = 420


def _too_long(*_):
    raise Broken(f"it was not over after {LIMIT} s")


def describe():
    width = max(map(len, SCENARIOS))
    return "\n".join(f"  {name.ljust(width)}  {run.__doc__}" for name, run in SCENARIOS.items())


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/chaos pace",
        description="Measures the pace of a cluster before, during and after a fault, as ratios within one run.",
        epilog=f"Scenarios:\n{describe()}\n\nExit codes: 0 all bounds hold, 1 a bound is broken, 64 wrong options, "
        "130 ended by Ctrl-C.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--program", metavar="FILE", help="the program megaton; by default it is built")
    parser.add_argument("--only", action="extend", nargs="+", metavar="NAME", help="run these scenarios; repeatable")
    parser.add_argument("--list", action="store_true", help="show the scenarios")
    parser.add_argument("--keep", action="store_true", help="keep the directories of broken scenarios")
    options = parser.parse_args(arguments)
    if options.list:
        print(describe())
        return 0
    unknown = [name for name in options.only or [] if name not in SCENARIOS]
    if unknown:
        print(f"no scenario {', '.join(unknown)}; --list shows them", file=sys.stderr)
        return 64
    if not options.program:
        print("--program is missing", file=sys.stderr)
        return 64
    listen_for_signals(True)
    # All without a name, but for the smoke, whose faults the others have.
    names = options.only or [name for name in SCENARIOS if name != "smoke"]
    results = []
    try:
        for name in names:
            results.append(run(name, options))
    except KeyboardInterrupt:
        print("ended; all processes of the scenario were ended", file=sys.stderr)
        return 130
    print("\n" + "\n".join(table(results)))
    return 1 if any(result.is_broken for result in results) else 0


def run(name, options):
    """Runs one scenario in a directory of its own, and ends all that it started."""
    print(f"{name}: {SCENARIOS[name].__doc__}", flush=True)
    load = os.getloadavg()[0]
    if load > os.cpu_count():
        print(f"  busy machine: load average {load:.1f} on {os.cpu_count()} processors before the start", flush=True)
    result, directory = Result(name), tempfile.mkdtemp(prefix="megaton-pace-")
    start = time.monotonic()
    stage = Stage(options.program, directory)
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LIMIT)
    try:
        SCENARIOS[name](stage, result)
    except NotBuilt as lack:
        result.not_built(str(lack))
    except (Broken, RedisFault) as fault:
        result.broken(str(fault))
    except Exception:
        result.broken(traceback.format_exc(limit=-3).strip().replace("\n", " | "))
    finally:
        # A second Ctrl-C must not leave processes behind; ending them takes at most 20 s.
        signal.alarm(0)
        listen_for_signals(False)
        try:
            stage.end()
        except Broken as fault:
            result.broken(str(fault))
        listen_for_signals(True)
        result.seconds = time.monotonic() - start
        if options.keep and result.is_broken:
            result.note(f"kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return result
