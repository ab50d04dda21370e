"""PINGs to Redis servers in a process of its own, so that the work of the harness does not delay them.

Usage: python3 -m megaton_pace.latency FILE HOST:PORT …

Writes the latencies in milliseconds to FILE as JSON (one list for each server) when it receives SIGTERM.
"""

import json
import signal
import sys
import time

from megaton_pace.redis import Redis, RedisFault

INTERVAL = 0.005


def percentile(values, part):
    """The value that a share `part` (0 to 1) of the values does not exceed; 0 if there are none."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else 0.0


def main(file, addresses):
    clients = [Redis(host, int(port), timeout=60) for host, port in (name.rsplit(":", 1) for name in addresses)]
    latencies = [[] for _ in clients]
    running = True

    def end(*_):
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, end)
    while running:
        for client, values in zip(clients, latencies):
            start = time.monotonic()
            try:
                client.send("PING")
            except RedisFault:
                continue
            values.append((time.monotonic() - start) * 1000)
        time.sleep(INTERVAL)
    with open(file, "w", encoding="utf-8") as output:
        json.dump(latencies, output)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
