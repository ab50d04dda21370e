#!/usr/bin/env python3
"""Pushes a job for each line of standard input and waits for all outcomes in a list (Debian: python3-redis).

    replies.py REDIS-URL OUTPUT < sources.txt
"""

import json
import sys
import uuid

import redis

JOBS = "megaton:{default}:jobs"
TIMEOUT = 60  # Seconds without an outcome.


def main(url, output):
    client = redis.Redis.from_url(url)
    reply = {"list": f"replies:{uuid.uuid4().hex}", "ttl": 3600}
    sources = sys.stdin.read().split()
    for id, source in enumerate(sources):
        client.lpush(JOBS, json.dumps({"id": f"{id}", "source": source, "output": output, "batch": reply["list"],
                                       "batchSize": len(sources), "reply": reply}))
    outcomes = {}  # By id: an outcome may come twice.
    while len(outcomes) < len(sources):
        entry = client.blpop(reply["list"], timeout=TIMEOUT)
        if entry is None:
            sys.exit(f"{len(sources) - len(outcomes)} outcomes are missing after {TIMEOUT} s: is a worker running?")
        outcome = json.loads(entry[1])
        outcomes[outcome["id"]] = outcome
    facts = [outcome.get("facts", {}) for outcome in outcomes.values() if outcome["status"] == "done"]
    print(f"{len(facts)} of {len(sources)} done, {sum(each.get('bytes', 0) for each in facts)} bytes of sources")
    failed = sorted((o for o in outcomes.values() if o["status"] != "done"), key=lambda o: int(o["id"]))
    for outcome in failed:
        print(outcome["id"], outcome.get("error", {}).get("message", outcome["status"]))
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 3 else __doc__)
