"""Clients that send requests over kept connections, in a process of their own.

Usage: python3 -m megaton_operate.load CLIENTS SECONDS PORT[,PORT…] < PATHS > RESULT

Each client sends its next request when the response to the one before has been read, to the paths in their order; with
SECONDS above 0 they begin again at the first path until the time is over. The ports share the connections. The result
is JSON: the seconds in all, the latency of each response in ms, the statuses by number, and the bytes of the bodies.

A loop over non-blocking sockets costs a fraction of asyncio, so that the clients measure the server and not themselves.
"""

import collections
import json
import resource
import selectors
import socket
import sys
import time


class Client:
    """A connection, and the response that is being read."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.host = f"127.0.0.1:{port}"
        self.data, self.left, self.status, self.begun = b"", None, None, 0.0

    def send(self, path):
        self.data, self.left, self.begun = b"", None, time.perf_counter()
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\nAccept: */*\r\n\r\n".encode())

    def read(self):
        """Whether the response is complete; its body has then been read."""
        part = self.socket.recv(1 << 18)
        if not part:
            raise ConnectionError("the server closed a connection in the middle of a response")
        if self.left is None:
            self.data += part
            end = self.data.find(b"\r\n\r\n")
            if end < 0:
                return False
            head = self.data[:end].lower().split(b"\r\n")
            self.status = int(head[0].split()[1])
            length = [line for line in head if line.startswith(b"content-length:")]
            if not length:
                raise ConnectionError(f"a response with the status {self.status} has no Content-Length")
            self.length = int(length[0].split(b":")[1])
            self.left = self.length - (len(self.data) - end - 4)
        else:
            self.left -= len(part)
        return self.left <= 0


def run(clients, seconds, ports, paths):
    """The result of a measurement, as above."""
    selector = selectors.DefaultSelector()
    waiting = iter(paths)
    latencies, statuses, size = [], collections.Counter(), 0
    connections = [Client(ports[number % len(ports)]) for number in range(min(clients, len(paths)))]
    start = time.perf_counter()
    end = start + seconds
    open_count = 0
    for client in connections:
        selector.register(client.socket, selectors.EVENT_READ, client)
        client.send(next(waiting))
        open_count += 1
    while open_count:
        events = selector.select(60)
        if not events:
            raise TimeoutError(f"{open_count} responses did not come within 60 s")
        for key, _ in events:
            client = key.data
            if not client.read():
                continue
            now = time.perf_counter()
            latencies.append((now - client.begun) * 1000)
            statuses[client.status] += 1
            size += client.length
            path = next(waiting, None)
            if path is None and now < end:
                waiting = iter(paths)
                path = next(waiting)
            if path is None or 0 < seconds and now >= end:
                selector.unregister(client.socket)
                client.socket.close()
                open_count -= 1
            else:
                client.send(path)
    return {"seconds": time.perf_counter() - start, "latencies": latencies, "statuses": statuses, "bytes": size}


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192) if hard > 0 else 8192, hard))
    numbers = [int(port) for port in sys.argv[3].split(",")]
    json.dump(run(int(sys.argv[1]), float(sys.argv[2]), numbers, sys.stdin.read().split()), sys.stdout)
