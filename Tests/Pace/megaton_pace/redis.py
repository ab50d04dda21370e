"""A client of Redis, and redis-server."""

import os
import socket
import time

from megaton_pace.processes import free_port


class RedisFault(Exception):
    """Redis replied with an error, or is unreachable."""


class Redis:
    """A connection that is opened when it is needed and closed after a fault. One thread at a time."""

    def __init__(self, host, port, timeout=5.0):
        self.host, self.port, self.timeout = host, port, timeout
        self._socket = self._reader = None

    @property
    def url(self):
        return f"redis://{self.host}:{self.port}"

    def close(self):
        if self._socket:
            self._reader.close()
            self._socket.close()
        self._socket = self._reader = None

    def send(self, *arguments):
        """The reply of one command."""
        return self.pipeline([arguments])[0]

    def pipeline(self, commands):
        """The replies of several commands that are sent together."""
        try:
            if not self._socket:
                self._socket = socket.create_connection((self.host, self.port), self.timeout)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._reader = self._socket.makefile("rb")
            self._socket.sendall(b"".join(_encode(command) for command in commands))
            # All of them, or the next command would read the rest.
            replies = [self._reply() for _ in commands]
        except OSError as error:
            self.close()
            raise RedisFault(f"{self.url}: {error}") from error
        for reply in replies:
            if isinstance(reply, RedisFault):
                raise reply
        return replies

    def _reply(self):
        line = self._reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the connection was closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"-":
            return RedisFault(rest.decode())
        if kind == b"$":
            length = int(rest)
            return None if length < 0 else self._reader.read(length + 2)[:-2].decode(errors="replace")
        return [self._reply() for _ in range(max(int(rest), 0))]

    # Statistics of the server

    def info(self, section):
        """The fields of a section of INFO."""
        lines = self.send("INFO", section).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def calls(self):
        """The number of calls of each command since the start, or since CONFIG RESETSTAT."""
        stats = self.info("commandstats")
        return {
            name.removeprefix("cmdstat_").split("|")[0]: int(value.split("calls=")[1].split(",")[0])
            for name, value in stats.items()
        }

    def slow_scripts(self, milliseconds):
        """Durations in milliseconds of the scripts in SLOWLOG that took longer, the shortest first."""
        found = []
        for entry in self.send("SLOWLOG", "GET", "10000"):
            command = entry[3][0].upper()
            if command in ("EVALSHA", "EVAL", "FCALL", "EVALSHA_RO", "EVAL_RO") and entry[2] > milliseconds * 1000:
                found.append(entry[2] / 1000)
        return sorted(found)


def _encode(arguments):
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        data = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


class Server:
    """A redis-server of a scenario."""

    def __init__(self, processes, name, *settings, port=None, address="127.0.0.1", prefix=(), environment=None):
        """Settings are lines of redis.conf. `prefix` are words before the command: ip netns exec NAME."""
        self.name, self.processes, self.prefix, self.environment = name, processes, list(prefix), environment
        self.port, self.address = port or free_port(), address
        self.directory = os.path.join(processes.directory, "redis-" + name)
        os.makedirs(self.directory, exist_ok=True)
        self.settings = [
            f"port {self.port}",
            f"bind {address}",
            f"dir {self.directory}",
            'save ""',
            "protected-mode no",
            "slowlog-log-slower-than 5000",
            "slowlog-max-len 10000",
            *settings,
        ]
        self.client = Redis(address, self.port)
        self.start()

    @property
    def url(self):
        return self.client.url

    def start(self):
        """Starts the server, again after `kill`."""
        file = os.path.join(self.directory, "redis.conf")
        with open(file, "w", encoding="utf-8") as configuration:
            configuration.write("\n".join(self.settings) + "\n")
        command = [*self.prefix, "redis-server", file]
        # The control Redis of a fleet has its machine to itself. Here it would wait for the processors with all others,
        # and the scenarios would measure that.
        self.process = self.processes.start("redis-" + self.name, command, self.environment, is_urgent=True)
        self.wait()

    def kill(self):
        self.process.kill()
        self.client.close()

    def wait(self, seconds=20):
        """Returns once the server answers."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.client.send("PING")
                return
            except RedisFault as fault:
                if self.process.code is not None or time.monotonic() > deadline:
                    output = self.process.output[-500:]
                    raise RedisFault(f"redis-server {self.name} did not start: {fault}\n{output}") from fault
                time.sleep(0.05)
