"""Photographs of 2,000 px: those of Debian's wallpaper packages, or of a directory; and nginx to serve them."""

import os
import shutil
import subprocess

from megaton_pace.processes import free_port
from megaton_pace.result import Broken

from megaton_operate.site import ROOT

# 27 MB together. They are unpacked beneath the build directory, and not installed.
PACKAGES = ("lomiri-wallpapers-16.04", "lomiri-wallpapers-20.04")
SIDE = 2000
QUALITY = 88


def photographs(directory=None):
    """A directory of JPEGs whose longer side has 2,000 px, named 0.jpg and so on, and their number."""
    store = os.path.join(ROOT, ".build", "operate", "photos")
    if directory:
        sources = _jpegs(directory)
        store = os.path.join(store, "own")
        shutil.rmtree(store, ignore_errors=True)
    else:
        sources = [path for package in PACKAGES for path in _jpegs(_unpacked(store, package))]
        store = os.path.join(store, f"debian-{SIDE}-{QUALITY}")
    os.makedirs(store, exist_ok=True)
    count = 0
    for source in sources:
        if max(_size(source)) < SIDE:
            continue
        path = os.path.join(store, f"{count}.jpg")
        if not os.path.exists(path):
            # A baseline JPEG of 4:2:0 in sRGB without metadata, as a camera's after an upload.
            options = f"[Q={QUALITY},strip,subsample_mode=on]"
            _run("vipsthumbnail", source, "--size", f"{SIDE}x{SIDE}", "--output", f"{path}.part.jpg{options}")
            os.rename(f"{path}.part.jpg", path)
        count += 1
    if not count:
        raise Broken(f"no JPEG with {SIDE} px or more in {directory or 'the packages'}")
    return store, count


def _jpegs(directory):
    found = [os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names]
    return sorted(path for path in found if path.lower().endswith((".jpg", ".jpeg")) and not os.path.islink(path))


def _size(path):
    return [int(_run("vipsheader", "-f", field, path)) for field in ("width", "height")]


def _unpacked(store, package):
    """Downloads and unpacks a package; the directory is complete or missing."""
    directory = os.path.join(store, package)
    if not os.path.exists(directory):
        part = directory + ".part"
        shutil.rmtree(part, ignore_errors=True)
        os.makedirs(part)
        # As the current user: the user of apt may not write here.
        _run("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package, directory=part)
        _run("sh", "-c", "dpkg-deb -x ./*.deb . && rm -f ./*.deb", directory=part)
        os.rename(part, directory)
    return directory


def _run(*command, directory=None):
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Broken(f"{' '.join(command[:3])} … ended with {done.returncode}: {done.stderr[-300:]}")
    return done.stdout


class Files:
    """nginx with the images of a directory: /ANYTHING/NUMBER.jpg, so that each image has any number of URLs."""

    def __init__(self, site, directory):
        self.port = free_port()
        home = os.path.join(site.directory, "nginx")
        os.makedirs(home)
        self.log = os.path.join(home, "access.log")
        folders = "".join(f"{name}_temp_path {home}/{name}; " for name in
                          ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        file = site.write("nginx.conf", [
            "daemon off; worker_processes 1; error_log stderr warn; " + f"pid {home}/pid;",
            "user root;" if os.geteuid() == 0 else "",
            "events { worker_connections 1024; }",
            f"http {{ {folders} sendfile on; tcp_nopush on; keepalive_requests 1000000;",
            f"log_format path '$uri $status'; access_log {self.log} path;",
            f"server {{ listen 127.0.0.1:{self.port}; types {{ image/jpeg jpg; }}",
            f"location ~ ^/[^/]+/([0-9]+[.]jpg)$ {{ alias {directory}/$1; add_header Cache-Control max-age=86400; }}",
            "} }",
        ])
        self.process = site.processes.start("nginx", ["/usr/sbin/nginx", "-c", file, "-p", home])

    def url(self, group, number):
        return f"http://127.0.0.1:{self.port}/{group}/{number}.jpg"

    def requests(self):
        """The number of requests of each path."""
        found = {}
        with open(self.log, encoding="utf-8") as file:
            for line in file:
                path = line.split(" ", 1)[0]
                found[path] = found.get(path, 0) + 1
        return found
