"""The cluster of an operator: what a stage of Tests/Pace has, with an HTTP server and listeners of metrics."""

import json
import os
import re
import secrets
import signal
import sys
import urllib.error
import urllib.request

from megaton_pace.processes import free_port
from megaton_pace.result import Broken
from megaton_pace.stage import ROOT, Stage

OPERATE = os.path.join(ROOT, "Tests", "Operate")


def ask(url, method="GET", body=None, token=None, seconds=30):
    """The status, the header fields and the body of a response, also of an error."""
    fields = {"Authorization": f"Bearer {token}"} if token else {}
    if body is not None:
        fields["Content-Type"] = "application/json"
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, body, fields, method=method)
    try:
        with urllib.request.urlopen(request, timeout=seconds) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


class Site(Stage):
    """Coordinators and workers with listeners of metrics, and HTTP servers."""

    def __init__(self, program, directory):
        super().__init__(program, directory)
        self.url = None
        self.forking = []

    def end(self):
        # Processes that such a one has forked do not end with it. Its group is its own as long as it runs.
        for process in self.forking:
            if process.code is None:
                os.killpg(process.pid, signal.SIGKILL)
        super().end()

    def module(self, name, module, *arguments):
        """Starts a module of this package, or of Tests/Pace, as a process."""
        path = os.pathsep.join([OPERATE, os.path.join(ROOT, "Tests", "Pace")])
        environment = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        return self.processes.start(name, [sys.executable, "-m", module, *map(str, arguments)], environment)

    def coordinate(self, port):
        """Starts a coordinator with metrics at a port."""
        health = ("--health", f"127.0.0.1:{port}")
        return self.launch("coordinator", "coordinator", *health, "--log-level", "warning")

    def work(self, port, *arguments):
        """Starts a worker with metrics at a port."""
        return self.launch(
            "worker",
            *("worker", "--health", f"127.0.0.1:{port}", "--render-threads", 1, "--allow-private"),
            *("--allow-root", self.outputs, "--log-level", "warning", "--drain-timeout", 2, *arguments),
        )

    def serve(self, *arguments, environment=None, metrics=None):
        """Starts an HTTP server at a port that the system chooses, and waits until it is ready."""
        listener = ("--metrics-listen", f"127.0.0.1:{metrics}") if metrics else ()
        command = ["serve", "--listen", "127.0.0.1:0", *listener, *arguments]
        variables = {**self.environment, **(environment or {})}
        server = self.processes.start("serve", [self.program, *map(str, command)], variables)
        server.url = None

        def is_ready():
            if server.code is not None:
                raise Broken(f"megaton serve ended with {server.code}: {server.errors[-500:]}")
            found = re.search(r"address=(127\.0\.0\.1:\d+).*serving HTTP", server.errors + server.output)
            server.url = f"http://{found[1]}" if found else None
            try:
                return server.url and ask(f"{server.url}/ready", seconds=2)[0] == 200
            except OSError:
                return False

        self.reach("a ready HTTP server", 30, is_ready)
        self.url = server.url
        return server

    def tokens(self, **scopes):
        """Writes a file of tokens, each with a list of scopes or further fields; returns its path, and the tokens."""
        entries, made = [], {}
        for name, value in scopes.items():
            made[name] = secrets.token_hex(32)
            fields = value if isinstance(value, dict) else {"scopes": value}
            entries.append({"name": name, "token": made[name], **fields})
        path = os.path.join(self.directory, "tokens.json")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump({"tokens": entries}, file)
        return path, made

    def dashboard(self, token=None):
        """The snapshot of the dashboard."""
        status, _, body = ask(f"{self.url}/api/v1/dashboard", token=token)
        if status != 200:
            raise Broken(f"/api/v1/dashboard answered {status}: {body[:300]!r}")
        return json.loads(body)["snapshot"]

    def metrics(self, port):
        """The metrics of a listener by their name with labels, as a text of Prometheus has it."""
        _, _, body = ask(f"http://127.0.0.1:{port}/metrics")
        lines = [line.rsplit(" ", 1) for line in body.decode().splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def free_ports(self, count):
        return [free_port() for _ in range(count)]
