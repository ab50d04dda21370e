#!/usr/bin/env python3
"""Pushes a job for each line of standard input and waits for all outcomes in a list (Debian: python3-redis).

    replies.py REDIS-URL OUTPUT < sources.txt
"""

import collections
import json
import sys
import uuid

import redis

JOBS = "megaton:{default}:jobs"
TIMEOUT = 60  # Seconds without an outcome.


def main(url, output):
    client = redis.Redis.from_url(url)
    reply = {"list": f"replies:{uuid.uuid4().hex}", "ttl": 3600}
    sources = dict(enumerate(sys.stdin.read().split()))
    waiting = {str(id) for id in sources}
    for id, source in sources.items():
        client.lpush(JOBS, json.dumps({"id": f"{id}", "source": source, "output": output, "batch": reply["list"],
                                       "batchSize": len(sources), "reply": reply}))
    done, reasons = 0, collections.Counter()
    while waiting:
        entry = client.blpop(reply["list"], timeout=TIMEOUT)
        if entry is None:
            sys.exit(f"{len(waiting)} outcomes are missing after {TIMEOUT} s: is a worker running?")
        outcome = json.loads(entry[1])
        if outcome["id"] in waiting:  # An outcome may come twice.
            waiting.remove(outcome["id"])
            done += outcome["status"] == "done"
            if outcome["status"] != "done":
                reasons[outcome.get("error", {}).get("code", outcome["status"])] += 1
    print(f"{done} of {len(sources)} done", *(f"{count} {code}" for code, count in reasons.items()), sep=", ")
    return 2 if reasons else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 3 else __doc__)
