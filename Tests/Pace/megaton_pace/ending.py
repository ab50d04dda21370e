"""How a command ends: its processes, its directory, its table and its exit code."""

import shutil
import signal
import sys
import time

from megaton_pace.processes import listen_for_signals
from megaton_pace.result import Broken, table


def clean_up(result, directory, keep, *ends):
    """Ends what a command has started, and removes its directory unless it is kept for a broken bound.

    A second Ctrl-C must not leave processes behind; their end takes at most 20 s.
    """
    signal.alarm(0)
    listen_for_signals(False)
    for end in ends:
        try:
            end()
        except Broken as fault:
            result.broken(str(fault))
    if keep and result.is_broken:
        result.note(f"kept: {directory}")
    else:
        shutil.rmtree(directory, ignore_errors=True)


def verdict(result, start, is_ended, ended="all processes were ended"):
    """Prints the table of a command that began at `start`, and returns its exit code."""
    result.seconds = time.monotonic() - start
    if is_ended:
        print(f"ended; {ended}", file=sys.stderr)
        return 130
    print("\n" + "\n".join(table([result])))
    return 1 if result.is_broken else 0
