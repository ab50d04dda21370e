"""Hooks of schemathesis for the API: lists of jobs, waits, and a record of all answers.

schemathesis loads it by SCHEMATHESIS_HOOKS. MEGATON_API_RECORD is the file of the answers, a line of JSON for each.
"""

import json
import os

import schemathesis

LISTS = ("application/x-ndjson", "application/jsonl")
_record = open(os.environ["MEGATON_API_RECORD"], "a", encoding="utf-8", buffering=1)


@schemathesis.hook
def before_load_schema(context, schema):
    """A list of jobs is described as text. Generated jobs reach further than generated text."""
    content = schema["paths"]["/api/v1/batches"]["post"]["requestBody"]["content"]
    job = schema["paths"]["/api/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    for media_type in LISTS:
        content[media_type] = {"schema": {"type": "array", "items": job, "maxItems": 5}}


@schemathesis.serializer(*LISTS)
def lines_of_json(context, value):
    """A line for each element of a list. Other values are sent as they are."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode(errors="replace")
    if not isinstance(value, list):
        value = [value]
    return "".join(json.dumps(one) + "\n" for one in value).encode()


@schemathesis.hook
def map_query(context, query):
    """Waits of up to a minute would use the time up. Wrong values stay."""
    if query and str(query.get("wait", "")).isdigit() and 1 < int(query["wait"]) <= 60:
        return {**query, "wait": 1}
    return query


@schemathesis.hook
def before_call(context, case, **_):
    """Behind the relay each connection is another client, and so each request shall be."""
    if "MEGATON_API_CLOSE" in os.environ:
        case.headers = {**(case.headers or {}), "Connection": "close"}


@schemathesis.hook
def after_call(context, case, response):
    operation = f"{case.operation.method.upper()} {case.operation.path}"
    line = {"operation": operation, "method": case.method.upper(), "status": response.status_code,
            "body": case.body if isinstance(case.body, (dict, list, str)) else None,
            "answer": response.content[:300].decode(errors="replace") if response.status_code >= 500 else None}
    _record.write(json.dumps(line, default=str) + "\n")
