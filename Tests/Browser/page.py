#!/usr/bin/env python3
"""Opens a page in Debian's Chromium without a display, and prints the words that a reader sees as JSON.

page.py URL DIRECTORY WIDTH [STEP …]

DIRECTORY is for the browser's profile. A step is `wait:EXPRESSION`, which waits until the JavaScript is true,
`run:STATEMENT`, `scheme:dark` or `scheme:light`, or `shot:FILE`, which writes the whole page as a PNG. The object that
is printed has `text`, the visible text; `width`, the width of the page's content; and `problems`, the messages of the
page and of the browser, such as those of a refused script. The exit code is 1 if a wait is not over within 60 seconds;
the object then has the `step`.

The browser is driven by the DevTools protocol over two pipes: messages are JSON with a NUL behind each.
"""

import base64
import json
import os
import select
import subprocess
import sys
import time

LIMIT = 60
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-pipe"]
# Ends as soon as the expression is true: whatever changes it changes the document too.
WAIT = """new Promise(end => {
    const look = () => { if (%s) { observer.disconnect(); end(true); } };
    const observer = new MutationObserver(look);
    observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
    look();
})"""


class Browser:
    def __init__(self, directory, errors=None):
        """`errors` is a file for the messages of the browser's own process; without it they go to standard error."""
        # The shell gives the browser its two pipes as the descriptors 3 and 4.
        script = 'exec /usr/bin/chromium "$@" 3<&0 4>&1 </dev/null >/dev/null'
        arguments = ARGUMENTS + [f"--user-data-dir={directory}/browser", "about:blank"]
        self.process = subprocess.Popen(["/bin/sh", "-c", script, "sh"] + arguments, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=errors,
                                        env={**os.environ, "HOME": directory})
        self.buffer, self.number, self.session, self.problems = b"", 0, None, []

    def read(self, deadline):
        """The next message."""
        while b"\0" not in self.buffer:
            rest = deadline - time.monotonic()
            if rest <= 0 or not select.select([self.process.stdout], [], [], rest)[0]:
                raise TimeoutError
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                raise RuntimeError("the browser has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def send(self, method, **parameters):
        """The result of a command."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.process.stdin.write(json.dumps(message).encode() + b"\0")
        self.process.stdin.flush()
        deadline = time.monotonic() + LIMIT
        while True:
            answer = self.read(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def note(self, event):
        """Keeps the messages of the page, and of the browser about it."""
        parameters = event.get("params", {})
        if event.get("method") == "Log.entryAdded":
            if parameters["entry"]["level"] in ("error", "warning"):
                self.problems.append(parameters["entry"]["text"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"]))
        elif event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.problems.append(json.dumps(parameters["args"]))

    def evaluate(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True,
                           userGesture=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def open(self, width):
        """Opens an empty page whose messages are kept."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.send(f"{domain}.enable")
        self.resize(width)

    def resize(self, width):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)

    def go(self, url):
        self.send("Page.navigate", url=url)

    def wait(self, expression):
        """Returns once the JavaScript is true; raises ``TimeoutError`` after the limit."""
        self.evaluate(WAIT % expression)

    def prefer(self, scheme):
        """Sets the color scheme that the reader prefers: dark or light."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def shoot(self, path, height=None):
        """Writes the whole page as a PNG, or its first pixels, also those below the window."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        rows = min(size["height"], height or size["height"])
        clip = {"x": 0, "y": 0, "width": size["width"], "height": rows, "scale": 1}
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def paint(self):
        """Milliseconds from the navigation to the first paint with content; None before it."""
        return self.evaluate("performance.getEntriesByName('first-contentful-paint').map(one => one.startTime)[0]")

    def heap(self):
        """Bytes of the page's objects after a garbage collection, and the number of its nodes."""
        self.send("HeapProfiler.collectGarbage")
        used = self.send("Runtime.getHeapUsage")["usedSize"]
        return used, self.send("Memory.getDOMCounters")["nodes"]

    def end(self):
        self.process.kill()
        self.process.wait()


def main():
    url, directory, width, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    browser = Browser(directory)
    failed = None
    try:
        browser.open(width)
        browser.go(url)
        actions = {"wait": browser.wait, "run": lambda text: browser.evaluate(f"{{ {text} }}"),
                   "scheme": browser.prefer, "shot": browser.shoot}
        for step in steps:
            kind, argument = step.split(":", 1)
            try:
                actions[kind](argument)
            except TimeoutError:
                failed = step
                break
        result = {
            "text": browser.evaluate("document.body.innerText"),
            "width": browser.evaluate("document.documentElement.scrollWidth"),
            "problems": browser.problems,
        }
    finally:
        browser.end()
    if failed:
        result["step"] = failed
    print(json.dumps(result))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
