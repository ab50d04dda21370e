"""The origin: a private nginx on loopback, which counts requests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from .batch import Photo
from .errors import BenchError, PeerFailed
from .processes import Child, free_port, wait_until

CONFIGURATION = """
{user}
worker_processes 1;
daemon off;
pid {home}/nginx.pid;
error_log {home}/error.log warn;
worker_rlimit_nofile 16384;
events {{ worker_connections 4096; }}
http {{
    log_format short '$msec $status $request_uri $host $request_time';
    access_log {home}/access.log short;
    types {{ image/jpeg jpg jpeg; image/png png; image/webp webp; image/gif gif; image/avif avif; }}
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    open_file_cache max=10000;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    server {{
        {listen}
        expires 1h;
        # One file under as many URLs as there are jobs.
        location ~ ^/[a-z0-9-]+/([a-z0-9-]+)/(.+)$ {{ alias {root}/$1/$2; }}
    }}
}}
"""


class Origin:
    """nginx with the images beneath `root`, in a directory for each set; it listens on addresses of loopback."""

    def __init__(self, root: Path, home: Path, addresses: Sequence[str] = ("127.0.0.1",)) -> None:
        self.root = root
        self.home = home
        self.addresses = addresses
        self.port = 0
        self._child: Child | None = None

    def start(self) -> None:
        """Starts it on a free port; on another one if the port is taken meanwhile."""
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
        if not program:
            raise BenchError("nginx is missing: apt-get install nginx-light")
        self.home.mkdir(parents=True)
        for attempt in range(3):
            self.port = free_port()
            configuration = self.home / "nginx.conf"
            # Otherwise its workers run as the user nobody, which may not read a home directory.
            user = "user root;" if os.geteuid() == 0 else ""
            listen = " ".join(f"listen {address}:{self.port};" for address in self.addresses)
            configuration.write_text(CONFIGURATION.format(user=user, home=self.home, root=self.root, listen=listen))
            arguments = [program, "-p", str(self.home), "-e", str(self.home / "error.log"), "-c", str(configuration)]
            self._child = Child("nginx", arguments, self.home / "nginx.log")
            try:
                # nginx writes the file when it listens; another server could answer on the port.
                wait_until((self.home / "nginx.pid").exists, self._child)
                return
            except PeerFailed as error:
                self.stop()
                if attempt == 2 or "Address already in use" not in str(error):
                    raise BenchError(str(error)) from error

    def stop(self) -> None:
        if self._child:
            self._child.end()
            self._child = None

    def url(self, kind: str) -> Callable[[Photo, str], str]:
        """Creates URLs of the images of a set, made distinct by a number."""
        return lambda photo, number: f"http://127.0.0.1:{self.port}/{number}/{kind}/{photo.path.name}"

    def mark(self) -> int:
        """Current end of the access log, for `gets`."""
        try:
            return (self.home / "access.log").stat().st_size
        except FileNotFoundError:
            return 0

    def gets(self, mark: int) -> int:
        """GETs since the mark that returned an image; a revalidation (304) returns none."""
        with open(self.home / "access.log", "rb") as log:
            log.seek(mark)
            return sum(line.split(b" ", 2)[1] == b"200" for line in log)
