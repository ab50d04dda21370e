#!/usr/bin/env python3
"""Submits jobs to `megaton serve`, shows their progress as it comes, and prints their outcomes; needs Python alone.

    API_TOKEN=… submit_http.py SERVER OUTPUT SOURCE...

The token has the scopes `read` and `submit`; docs/api.md describes the requests. The jobs continue if this ends early.
"""

import http.client
import json
import os
import sys
import urllib.request


def ask(url, data=None):
    fields = {"Authorization": f"Bearer {os.environ['API_TOKEN']}", "Content-Type": "application/x-ndjson"}
    # A stream of events has a comment every 15 s, so that a silence of a minute is a fault.
    return urllib.request.urlopen(urllib.request.Request(url, data, fields), timeout=60)


def main(server, output, *sources):
    jobs = "\n".join(json.dumps({"source": source, "output": output}) for source in sources)
    batch = server + ask(f"{server}/api/v1/batches", jobs.encode()).headers["Location"]
    for line in ask(f"{batch}/events"):
        field, _, value = line.decode().strip().partition(": ")
        if field == "data" and "submitted" in (counters := json.loads(value)):  # The events `progress` and `end`.
            print(f"{counters['done']} of {counters['submitted']} done", file=sys.stderr)
    position, is_over, failed = "1", False, 0
    while not is_over:  # Also if the stream ended early, as the server was shut down.
        page = ask(f"{batch}/outcomes?from={position}&wait=30")
        position, is_over = page.headers["Megaton-Next"], page.headers["Megaton-Finished"] == "true"
        for outcome in map(json.loads, page):
            failed += outcome["status"] != "done"
            paths = [file["path"] for file in outcome["outputs"]]
            print(outcome["status"], outcome["source"], *paths, outcome.get("error", {}).get("message", ""))
    return 2 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 3 else __doc__)
    except urllib.request.HTTPError as error:
        sys.exit(f"{error.url}: {json.load(error)['detail']}")
    except (OSError, http.client.HTTPException) as error:  # The latter if the server ends in the middle of an answer.
        sys.exit(f"{sys.argv[1]}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
