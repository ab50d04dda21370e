"""The commands of scripts/operate."""

import importlib
import signal
import sys

COMMANDS = ("alerts", "api", "dashboard", "faults", "route")

if __name__ == "__main__":
    # A parent with threads may block signals; then the processes that are started would not hear SIGTERM.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(f"usage: scripts/operate {'|'.join(COMMANDS)} [--help]", file=sys.stderr)
        sys.exit(64)
    command = importlib.import_module(f"megaton_operate.{sys.argv[1]}")
    try:
        sys.exit(command.main(sys.argv[2:]))
    except SystemExit as end:
        # argparse ends with 2 for options that it does not know.
        sys.exit(64 if end.code == 2 else end.code)
