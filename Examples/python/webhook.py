#!/usr/bin/env python3
"""Receives outcomes that a coordinator sends with --webhook-key FILE, and prints those whose signature is right.

    webhook.py KEY-FILE PORT
"""

import hashlib
import hmac
import http.server
import json
import sys
import time

TOLERANCE = 300  # Seconds by which the clocks may differ, and for which a recorded request could be sent again.


def is_genuine(key, field, body):
    """Whether the header field Megaton-Signature (t=SECONDS,v1=HEX) is that of the body, and of this time."""
    parts = [part.split("=", 1) for part in field.split(",") if "=" in part]
    seconds = next((value for name, value in parts if name == "t" and value.isascii() and value.isdigit()), "0")
    if abs(time.time() - int(seconds)) > TOLERANCE:
        return False
    expected = hmac.new(key, seconds.encode() + b"." + body, hashlib.sha256).hexdigest()
    # While the key is replaced there are two signatures. The comparison takes the same time for each text.
    return any(name == "v1" and hmac.compare_digest(value.encode(), expected.encode()) for name, value in parts)


class Receiver(http.server.BaseHTTPRequestHandler):
    key = b""
    seen = set()  # A service would keep the keys for a day, in its database.

    def do_POST(self):
        body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), 1 << 20))
        if not is_genuine(self.key, self.headers.get("Megaton-Signature", ""), body):
            self.send_error(401)
            return
        outcome = json.loads(body)
        if self.headers["Idempotency-Key"] not in self.seen:  # An outcome may come twice.
            self.seen.add(self.headers["Idempotency-Key"])
            sys.stdout.write(f"{outcome['id']} {outcome['status']}\n")
            sys.stdout.flush()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments):
        pass


def main(file, port):
    with open(file, "rb") as keys:
        Receiver.key = keys.readline().strip()
    http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Receiver).serve_forever()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 3 else __doc__)
