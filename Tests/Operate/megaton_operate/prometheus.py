"""Prometheus on loopback, with the rules of deploy, and a record of the states of each alert."""

import json
import os
import re
import threading
import time

from megaton_operate.site import ROOT, ask

from megaton_pace.processes import free_port
from megaton_pace.result import Broken

RULES = os.path.join(ROOT, "deploy", "prometheus", "megaton.rules.yml")
UNITS = {"s": 1, "m": 60, "h": 3600}


def _seconds(text):
    return int(text[:-1]) * UNITS[text[-1]]


def shortened(text, factor, least):
    """The rules with all durations divided by a factor: `for`, the ranges, and the age of a backlog.

    `least` is the shortest range in seconds: it must hold several scrapes.
    """

    def duration(found, minimum):
        return f"{max(int(_seconds(found) * 1000 / factor), int(minimum * 1000))}ms"

    text = re.sub(r"(?m)^( +for: )(\d+[smh])$", lambda part: part[1] + duration(part[2], 1), text)
    text = re.sub(r"\[(\d+[smh])\]", lambda part: f"[{duration(part[1], least)}]", text)
    age = r"(megaton_queue_oldest_ready_seconds\) > )(\d+)"
    return re.sub(age, lambda part: f"{part[1]}{max(int(int(part[2]) / factor), 1)}", text)


def alerts_of(text):
    """The names of all alerts, and whether they have a `for`."""
    parts = re.split(r"(?m)^ +- alert: ", text)[1:]
    return {part.split("\n", 1)[0]: bool(re.search(r"(?m)^ +for: ", part)) for part in parts}


class Prometheus:
    """A server that scrapes some ports, and a thread that notes when the state of an alert changes."""

    def __init__(self, site, ports, rules, interval):
        self.site, self.port = site, free_port()
        targets = json.dumps([f"127.0.0.1:{port}" for port in ports])
        # `scrape_timeout` must not exceed the interval; a scrape takes up to 5 s while Redis is away.
        timing = f"scrape_interval: {interval}s\n  scrape_timeout: {min(interval, 10)}s"
        configuration = (
            f"global:\n  {timing}\n  evaluation_interval: {interval}s\nrule_files: [{json.dumps(rules)}]\n"
            f"scrape_configs:\n  - job_name: megaton\n    static_configs:\n      - targets: {targets}\n"
        )
        file = site.write("prometheus.yml", configuration.splitlines())
        self.process = site.processes.start("prometheus", [
            "/usr/bin/prometheus", f"--config.file={file}", f"--web.listen-address=127.0.0.1:{self.port}",
            f"--storage.tsdb.path={os.path.join(site.directory, 'prometheus')}", "--log.level=warn",
        ])
        site.reach("an answer of Prometheus", 60, self._is_ready)
        self._lock = threading.Lock()
        self._seen = {}
        self._now = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(min(interval / 2, 1),), daemon=True)
        self._thread.start()

    def _is_ready(self):
        if self.process.code is not None:
            raise Broken(f"Prometheus ended with {self.process.code}: {self.process.errors[-500:]}")
        try:
            return ask(f"http://127.0.0.1:{self.port}/-/ready", seconds=2)[0] == 200
        except OSError:
            return False

    def end(self):
        self._ends.set()
        self._thread.join()

    def query(self, path):
        return json.loads(ask(f"http://127.0.0.1:{self.port}/api/v1/{path}")[2])["data"]

    def targets_up(self):
        """The number of targets whose last scrape was answered."""
        return sum(target["health"] == "up" for target in self.query("targets?state=active")["activeTargets"])

    def _watch(self, pause):
        while not self._ends.wait(pause):
            try:
                states = {}
                for alert in self.query("alerts")["alerts"]:
                    name = alert["labels"]["alertname"]
                    # Firing, if one of several with this name is.
                    states[name] = "firing" if "firing" in (alert["state"], states.get(name)) else "pending"
            except (OSError, ValueError, KeyError):
                continue
            with self._lock:
                for name in states.keys() | self._now.keys():
                    state = states.get(name, "inactive")
                    if state != self._now.get(name, "inactive"):
                        self._seen.setdefault(name, []).append((state, time.monotonic()))
                self._now = states

    def state(self, name):
        with self._lock:
            return self._now.get(name, "inactive")

    def first(self, name, state, since):
        """The time of the first change to a state since a time; None before it."""
        with self._lock:
            return next((at for seen, at in self._seen.get(name, []) if seen == state and at >= since), None)
