#!/usr/bin/env python3
"""Submits images to `megaton serve`, follows them, and downloads their thumbnails; needs Python alone.

    API_TOKEN=… MEGATON_KEY=… MEGATON_SALT=… submit_http.py SERVER DIRECTORY SOURCE...

The token has the scopes `read` and `submit`; docs/api.md describes the requests. Key and salt, in hex digits, sign the
URLs of images (docs/image-urls.md). The workers make the thumbnails, and the server has them in the cache.
"""

import base64
import hmac
import json
import os
import pathlib
import sys
import urllib.parse
import urllib.request


def ask(url, data=None):
    fields = {"Authorization": f"Bearer {os.environ['API_TOKEN']}", "Content-Type": "application/x-ndjson"}
    # A stream of events has a comment every 15 s, so that a silence of a minute is a fault.
    return urllib.request.urlopen(urllib.request.Request(url, data, fields), timeout=60)


def image(source):  # The path of the thumbnail of the jobs below.
    path = f"/rs:fit:256:256/q:80/f:jpg/plain/{urllib.parse.quote(source, safe='')}"
    key, salt = (bytes.fromhex(os.environ[name]) for name in ("MEGATON_KEY", "MEGATON_SALT"))
    signature = base64.urlsafe_b64encode(hmac.digest(key, salt + path.encode(), "sha256")).decode()
    return f"/image/{signature.rstrip('=')}{path}"


def main(server, directory, *sources):
    work = {"renditions": [{"width": 256, "height": 256, "quality": 80, "format": "jpeg"}]}
    jobs = "\n".join(json.dumps({"id": f"{id}", "source": source, **work}) for id, source in enumerate(sources))
    batch, event = server + ask(f"{server}/api/v1/batches", jobs.encode()).headers["Location"], {"id": "1"}
    while event.get("event") not in ("end", "error"):  # The stream also ends if the server is shut down.
        for line in ask(f"{batch}/events?from={event['id']}"):
            field, _, event[field] = line.decode().strip().partition(": ")
            data = json.loads(event["data"]) if field == "data" else {}
            if "submitted" in data:  # The events `progress` and `end`.
                print(f"{data['done']} of {data['submitted']} done", file=sys.stderr)
            elif "status" in data:  # The event `outcome`.
                print(data["status"], data["source"], data.get("error", {}).get("message", ""))
                if data["status"] == "done":
                    pathlib.Path(directory, f"{data['id']}.jpg").write_bytes(ask(server + image(data["source"])).read())
    return 0 if json.loads(event["data"]).get("done") == len(sources) else 2


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 3 else __doc__)
    except urllib.request.HTTPError as error:
        sys.exit(f"{error.url}: {json.load(error)['detail']}")
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error}")
