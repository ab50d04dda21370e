#!/usr/bin/env python3
"""Validates lines of JSON against a JSON Schema, whose references are files beside it: validate.py SCHEMA FILE"""

import json
import pathlib
import sys

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012


def main(schema, lines):
    schema = pathlib.Path(schema)
    files = {path.name: json.loads(path.read_text()) for path in schema.parent.glob("*.schema.json")}
    for contents in files.values():
        Draft202012Validator.check_schema(contents)
    registry = Registry().with_resources(
        (name, Resource.from_contents(contents, default_specification=DRAFT202012)) for name, contents in files.items()
    )
    validator = Draft202012Validator(files[schema.name], registry=registry)
    faults = 0
    for number, line in enumerate(pathlib.Path(lines).read_text().splitlines(), 1):
        for error in validator.iter_errors(json.loads(line)):
            faults += 1
            print(f"line {number}: {error.json_path}: {error.message}")
            break
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 3 else __doc__)
