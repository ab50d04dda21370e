"""A batch that a process of `megaton submit` pushes, and the ledger that it writes."""

import json
import re
import time

# So many missing jobs are named.
NAMED = 20


class Batch:
    """A submitted batch. Its pace is that of its ledger, which is what a user sees."""

    def __init__(self, name, process, ledger):
        self.name, self.process, self.ledger = name, process, ledger
        self.start = time.monotonic()
        self._read, self._lines = 0, 0

    @property
    def count(self):
        """The number of outcomes so far. Reads only what the ledger has gained."""
        try:
            with open(self.ledger, "rb") as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            return 0
        self._read += len(data)
        self._lines += data.count(b"\n")
        return self._lines

    def outcomes(self):
        """The outcomes of all complete lines of the ledger."""
        try:
            with open(self.ledger, "rb") as file:
                return [json.loads(line) for line in file.read().split(b"\n")[:-1]]
        except FileNotFoundError:
            return []

    def pace(self, seconds):
        """Outcomes per second from now on, measured for this time."""
        before, start = self.count, time.monotonic()
        time.sleep(seconds)
        return (self.count - before) / (time.monotonic() - start)

    def wait(self, seconds):
        """The exit code, and the seconds since the start of the process. None if it has not ended in time."""
        code = self.process.wait(seconds)
        return code, time.monotonic() - self.start

    def check(self, result, jobs, done=True, code=0, what=None):
        """Each of `jobs` ids has exactly one outcome, and the process ended with this code."""
        outcomes = self.outcomes()
        ids = [outcome.get("id") for outcome in outcomes]
        bad = sum(outcome["status"] != "done" for outcome in outcomes) if done else 0
        holds = len(ids) == jobs and len(set(ids)) == jobs and bad == 0 and self.process.code == code
        result.require(
            f"{what or 'batch ' + self.name}: each of {jobs} jobs once, exit {code}",
            holds,
            f"exit {self.process.code}, {len(ids)} lines, {len(set(ids))} ids, {bad} not done; "
            + self.process.errors.strip()[-300:].replace("\n", " | "),
        )

    def check_losses(self, result, jobs):
        """After a failover: each of `jobs` jobs once and exit 0, or the missing ones are named, and exit 69."""
        code, ids = self.process.code, [outcome["id"] for outcome in self.outcomes()]
        seen = set(ids)
        missing, doubles = jobs - len(seen), len(ids) - len(seen)
        result.note(f"exit {code}; {len(ids)} lines, {len(seen)} different, {missing} missing")
        result.require("no job twice in the ledger", doubles == 0, f"{doubles} doubles")
        if missing == 0:
            result.require(f"all {jobs} jobs, exit 0", code == 0, f"exit {code}: {self.process.errors[-200:]!r}")
            return
        result.require("missing jobs: exit 69", code == 69, f"exit {code}")
        text = self.process.errors
        named = set(re.findall(re.escape(self.name) + r"\.\d+", text))
        holds = str(missing) in text.replace(",", "") and len(named) == min(missing, NAMED) and not named & seen
        result.require(f"their number and the first {NAMED} are named", holds,
                       f"{len(named)} named, {len(named & seen)} of them in the ledger: {text[-200:]!r}")

    def check_doubles(self, result):
        """No job has two outcomes, for batches that are not waited for."""
        ids = [outcome.get("id") for outcome in self.outcomes()]
        doubles = len(ids) - len(set(ids))
        result.require("no job twice in the ledger", doubles == 0, f"{doubles} of {len(ids)} lines are doubles")
