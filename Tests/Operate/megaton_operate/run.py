"""Options that all commands have, and the frame in which one runs."""

import argparse
import os
import signal
import tempfile
import time
import traceback

from megaton_pace.ending import clean_up, verdict
from megaton_pace.processes import listen_for_signals
from megaton_pace.redis import RedisFault
from megaton_pace.result import Broken, Result

from megaton_operate.site import Site

CODES = "Exit codes: 0 all bounds hold, 1 a bound is broken, 64 wrong options, 130 ended by Ctrl-C."


def parser(name, description):
    """A parser with the options of all commands."""
    made = argparse.ArgumentParser(prog=f"scripts/operate {name}", description=description, epilog=CODES)
    made.add_argument("--program", metavar="FILE", required=True, help="the program megaton; by default it is built")
    made.add_argument("--keep", action="store_true", help="keep the directory with logs if a bound is broken")
    return made


def positive(text):
    """A number above 0, for argparse."""
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def execute(name, scenario, options, limit):
    """Runs a scenario in a directory of its own, ends all that it started, and prints its bounds.

    `limit` is the number of seconds that it may take, whatever hangs.
    """
    listen_for_signals(True)
    load = os.getloadavg()[0]
    if load > os.cpu_count():
        print(f"  busy machine: load average {load:.1f} on {os.cpu_count()} processors before the start", flush=True)
    result, directory = Result(name), tempfile.mkdtemp(prefix="megaton-operate-")
    start, is_ended = time.monotonic(), False
    site = Site(os.path.abspath(options.program), directory)

    def too_long(*_):
        raise Broken(f"it was not over after {limit:.0f} s")

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(int(limit))
    try:
        scenario(site, result, options)
    except KeyboardInterrupt:
        is_ended = True
    except (Broken, RedisFault) as fault:
        result.broken(str(fault))
    except Exception:
        result.broken(traceback.format_exc(limit=-2).strip().replace("\n", " | "))
    finally:
        clean_up(result, directory, options.keep, site.end)
    return verdict(result, start, is_ended)
