#!/usr/bin/env python3
"""Validates manifests of Kubernetes against its schemas, unknown fields included: kubernetes.py FILE …

The schemas are those of the package kubernetes-validate. It has none for KEDA's ScaledObject: its fields are checked
against KEDA's specification below, and its scaling against the schema of the autoscaler that KEDA makes of it.
"""

import sys

import kubernetes_validate
import yaml

VERSION = "1.33"
# KEDA 2: https://keda.sh/docs/latest/reference/scaledobject-spec/
SPEC = {
    "scaleTargetRef": dict, "pollingInterval": int, "cooldownPeriod": int, "initialCooldownPeriod": int,
    "idleReplicaCount": int, "minReplicaCount": int, "maxReplicaCount": int, "fallback": dict, "advanced": dict,
    "triggers": list,
}
TARGET = {"apiVersion": str, "kind": str, "name": str, "envSourceContainerName": str}
FALLBACK = {"failureThreshold": int, "replicas": int, "behavior": str}
ADVANCED = {"restoreToOriginalReplicaCount": bool, "horizontalPodAutoscalerConfig": dict, "scalingModifiers": dict}
AUTOSCALER = {"name": str, "behavior": dict}
TRIGGER = {"type": str, "name": str, "metadata": dict, "metricType": str, "useCachedMetrics": bool,
           "authenticationRef": dict}
# Of a trigger on Prometheus; all values are texts.
PROMETHEUS = {"serverAddress", "query", "threshold", "activationThreshold", "namespace", "cortexOrgID", "customHeaders",
              "ignoreNullValues", "queryParameters", "unsafeSsl", "timeout", "authModes"}


def fields(place, value, known, required=()):
    """The faults of an object: unknown fields, wrong types, and fields that are missing."""
    for name, content in value.items():
        if name not in known:
            yield f"{place}.{name}: there is no such field"
        # A bool is an int for Python.
        elif not isinstance(content, known[name]) or isinstance(content, bool) and known[name] is not bool:
            yield f"{place}.{name}: it is no {known[name].__name__}"
    yield from (f"{place}.{name}: it is missing" for name in required if name not in value)


def scaled_object(manifest):
    """The faults of a ScaledObject, as texts."""
    spec = manifest.get("spec", {})
    target, fallback, advanced = (spec.get(name, {}) for name in ("scaleTargetRef", "fallback", "advanced"))
    config = advanced.get("horizontalPodAutoscalerConfig", {})
    yield from fields("spec", spec, SPEC, ("scaleTargetRef", "triggers"))
    yield from fields("spec.scaleTargetRef", target, TARGET, ("name",))
    yield from fields("spec.fallback", fallback, FALLBACK, FALLBACK.keys() - {"behavior"} if fallback else ())
    yield from fields("spec.advanced", advanced, ADVANCED)
    yield from fields("spec.advanced.horizontalPodAutoscalerConfig", config, AUTOSCALER)
    if spec.get("minReplicaCount", 0) > spec.get("maxReplicaCount", 100):
        yield "spec.minReplicaCount: it is above maxReplicaCount"
    if not spec.get("triggers"):
        yield "spec.triggers: there is none"
    for index, trigger in enumerate(spec.get("triggers", [])):
        place = f"spec.triggers[{index}]"
        yield from fields(place, trigger, TRIGGER, ("type", "metadata"))
        metadata = trigger.get("metadata", {})
        known = {name: str for name in (PROMETHEUS if trigger.get("type") == "prometheus" else metadata)}
        yield from fields(f"{place}.metadata", metadata, known,
                          ("serverAddress", "query", "threshold") if trigger.get("type") == "prometheus" else ())
        if trigger.get("metricType", "AverageValue") not in ("AverageValue", "Value", "Utilization"):
            yield f"{place}.metricType: there is no such type"
    yield from schema({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": manifest.get("metadata", {}),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", **target},
            "minReplicas": max(spec.get("minReplicaCount", 0), 1),
            "maxReplicas": spec.get("maxReplicaCount", 100),
            **({"behavior": config["behavior"]} if "behavior" in config else {}),
        },
    })


def schema(manifest):
    """The faults of a manifest by its schema."""
    try:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        yield f"{'.'.join(map(str, error.path))}: {error.message}"
    except (kubernetes_validate.SchemaNotFoundError, kubernetes_validate.InvalidSchemaError) as error:
        yield f"there is no schema: {error}"


def main(paths):
    faults = count = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            manifests = [one for one in yaml.safe_load_all(file) if one]
        for manifest in manifests:
            count += 1
            check = scaled_object if manifest.get("kind") == "ScaledObject" else schema
            for fault in check(manifest):
                faults += 1
                print(f"{path}: {manifest.get('kind')} {manifest.get('metadata', {}).get('name')}: {fault}")
    print(f"{count} manifests, {faults} faults")
    return 1 if faults or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if len(sys.argv) > 1 else __doc__)
