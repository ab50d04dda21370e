"""The commands of scripts/chaos that this package has: pace, hosts and upgrade."""

import signal
import sys

from megaton_pace import hosts, pace, upgrade

COMMANDS = {"pace": pace.main, "hosts": hosts.main, "upgrade": upgrade.main}

if __name__ == "__main__":
    # A parent with threads may block signals; then the processes of the scenarios would not hear SIGTERM.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(f"usage: python3 -m megaton_pace {'|'.join(COMMANDS)} [--help]", file=sys.stderr)
        sys.exit(64)
    sys.exit(COMMANDS[sys.argv[1]](sys.argv[2:]))
