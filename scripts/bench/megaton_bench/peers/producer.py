"""A producer that is warm before the clock starts: imports, then waits for lines.

- `load FILE` reads a batch, and is answered by `loaded`;
- `go` submits it, and is answered by `submitted`.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def main(module: str, split: bool) -> None:
    """Each job is one task, or with `split` one task for each of its outputs."""
    submit = importlib.import_module(f"{__package__}.{module}").submit
    tasks: list[tuple[str, list[list[Any]], list[Any]]] = []
    for line in sys.stdin:
        command, _, path = line.strip().partition(" ")
        if command == "load":
            with open(path) as file:
                batch = json.load(file)
            tasks = []
            for job in batch["jobs"]:
                parts = [[output] for output in job["outputs"]] if split else [job["outputs"]]
                tasks += [(job["url"], part, batch["encoding"]) for part in parts]
            print("loaded", flush=True)
        elif command == "go":
            submit(tasks)
            print("submitted", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], split="--split" in sys.argv)
