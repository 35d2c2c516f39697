"""The manifests: each reference has its other end, and every pod is one that a strict namespace lets in."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic_settings import BaseSettings

from tests.support.cli_walk import misuse
from tests.support.promql import exported
from verbworker.api.settings import IngressSettings
from verbworker.app.settings import Settings
from verbworker.console.settings import ConsoleSettings

ROOT = Path(__file__).parents[2]
BASE = ROOT / "deploy" / "kubernetes"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((BASE / "kustomization.yaml").read_text())
OBJECTS: list[dict[str, Any]] = [
    document
    for path in sorted(BASE.glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for document in yaml.safe_load_all(path.read_text())
]
WORKLOADS = {one["metadata"]["name"]: one for one in OBJECTS if one["kind"] in ("Deployment", "Job")}
VERSIONS = {
    "Namespace": "v1",
    "ConfigMap": "v1",
    "ServiceAccount": "v1",
    "Service": "v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "PodDisruptionBudget": "policy/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "NetworkPolicy": "networking.k8s.io/v1",
}


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [one for one in OBJECTS if one["kind"] == kind]


def pod(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = WORKLOADS[name]["spec"]["template"]["spec"]
    return spec


def container(name: str) -> dict[str, Any]:
    (only,) = pod(name)["containers"]
    assert isinstance(only, dict)
    return only


def labels(name: str) -> dict[str, str]:
    found: dict[str, str] = WORKLOADS[name]["spec"]["template"]["metadata"]["labels"]
    return found


def chosen(selector: dict[str, str]) -> list[str]:
    """The workloads whose pods have these labels."""
    return [name for name in WORKLOADS if selector.items() <= labels(name).items()]


def test_the_base_lists_every_file_and_each_object_has_its_version() -> None:
    files = {path.name for path in BASE.glob("*.yaml")} - {"kustomization.yaml"}

    assert sorted(KUSTOMIZATION["resources"]) == sorted(files)
    assert {one["kind"]: one["apiVersion"] for one in OBJECTS} == VERSIONS
    names = [(one["kind"], one["metadata"]["name"]) for one in OBJECTS]
    assert len(set(names)) == len(names)


def test_the_image_has_a_version() -> None:
    (image,) = KUSTOMIZATION["images"]

    assert (image["name"], image["newTag"]) == ("verbworker", "0.1.0")
    assert {container(name)["image"] for name in WORKLOADS} == {"verbworker"}


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pod_is_let_into_a_restricted_namespace(name: str) -> None:
    outer, inner = pod(name)["securityContext"], container(name)["securityContext"]

    assert outer["runAsNonRoot"] is True
    assert outer["runAsUser"] == 10001
    assert outer["seccompProfile"] == {"type": "RuntimeDefault"}
    assert inner == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod(name)["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod(name).keys()
    assert {kind for volume in pod(name)["volumes"] for kind in volume if kind != "name"} <= {"secret", "emptyDir"}
    (namespace,) = of_kind("Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_user_is_the_images() -> None:
    assert re.search(r"^USER 10001:10001$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pod_runs_a_command_that_exists(name: str) -> None:
    assert misuse(container(name)["args"]) is None


@pytest.mark.parametrize("name", WORKLOADS)
def test_what_a_pod_mounts_is_there(name: str) -> None:
    volumes = {volume["name"] for volume in pod(name)["volumes"]}
    mounts = {mount["name"] for mount in container(name)["volumeMounts"]}
    accounts = {one["metadata"]["name"] for one in of_kind("ServiceAccount")}

    assert mounts == volumes
    assert pod(name)["serviceAccountName"] in accounts


@pytest.mark.parametrize("name", [name for name, one in WORKLOADS.items() if one["kind"] == "Deployment"])
def test_a_probe_asks_a_port_that_is_open(name: str) -> None:
    ports = {port["name"]: port["containerPort"] for port in container(name)["ports"]}
    asked = {probe: container(name)[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}
    default = {
        "verbworker-worker": Settings.model_fields["http_port"].default,
        "verbworker-console": ConsoleSettings.model_fields["port"].default,
        "verbworker-ingress": IngressSettings.model_fields["port"].default,
    }

    assert {probe: get["path"] for probe, get in asked.items()} == {
        "startup": "/live",
        "liveness": "/live",
        "readiness": "/ready",
    }
    own = [one["value"] for one in container(name).get("env", []) if one["name"].endswith("_PROBE_PORT")]
    (port,) = {get["port"] for get in asked.values()}
    assert [ports.pop(port)] == ([int(value) for value in own] or [default[name]])
    assert set(ports.values()) == ({default[name]} if own else set())


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pod_selects_itself(name: str) -> None:
    if WORKLOADS[name]["kind"] == "Deployment":
        assert WORKLOADS[name]["spec"]["selector"]["matchLabels"] == labels(name)
    assert WORKLOADS[name]["metadata"]["labels"] == labels(name)
    assert name == f"verbworker-{labels(name)['app.kubernetes.io/component']}"


def test_what_others_select_is_there() -> None:
    for budget in of_kind("PodDisruptionBudget"):
        assert chosen(budget["spec"]["selector"]["matchLabels"]) == [budget["metadata"]["name"]]
    for service in of_kind("Service"):
        (name,) = chosen(service["spec"]["selector"])
        assert service["spec"]["ports"][0]["targetPort"] in {port["name"] for port in container(name)["ports"]}
    (scaler,) = of_kind("HorizontalPodAutoscaler")
    assert scaler["spec"]["scaleTargetRef"]["name"] in WORKLOADS
    assert "replicas" not in WORKLOADS[scaler["spec"]["scaleTargetRef"]["name"]]["spec"]


def test_the_settings_are_settings() -> None:
    kinds: dict[str, type[BaseSettings]] = {"": Settings, "CONSOLE_": ConsoleSettings, "INGRESS_": IngressSettings}
    known = {f"VERBWORKER_{prefix}{field.upper()}" for prefix, kind in kinds.items() for field in kind.model_fields}
    (settings,) = of_kind("ConfigMap")
    given = set(settings["data"]) | {
        variable["name"] for name in WORKLOADS for variable in container(name).get("env", [])
    }

    assert {name for name in given if name.startswith("VERBWORKER_")} <= known
    assert all(isinstance(text, str) for text in settings["data"].values())
    Settings.model_validate(
        {
            name.removeprefix("VERBWORKER_").lower(): text
            for name, text in settings["data"].items()
            if name.startswith("VERBWORKER_")
        }
    )


def secrets_named() -> set[str]:
    found = set()
    for name in WORKLOADS:
        found |= {volume["secret"]["secretName"] for volume in pod(name)["volumes"] if "secret" in volume}
        found |= {source["secretRef"]["name"] for source in container(name)["envFrom"] if "secretRef" in source}
        for variable in container(name).get("env", []):
            if "secretKeyRef" in variable.get("valueFrom", {}):
                found.add(variable["valueFrom"]["secretKeyRef"]["name"])
    return found


def test_every_secret_is_named_on_the_operators_page_and_none_is_here() -> None:
    page = (ROOT / "deploy/README.md").read_text()

    assert of_kind("Secret") == []
    assert secrets_named() == set(re.findall(r"^\| `(verbworker-[a-z-]+)`", page, re.MULTILINE))


def test_every_file_that_a_setting_names_is_mounted() -> None:
    (settings,) = of_kind("ConfigMap")
    for name in WORKLOADS:
        mounts = [mount["mountPath"] for mount in container(name)["volumeMounts"]]
        files = [settings["data"]["VERBWORKER_DSN_FILE"]]
        files += [one["value"] for one in container(name).get("env", []) if one["name"].endswith("_FILE")]
        assert all(str(Path(file).parent) in mounts for file in files), name


def test_a_worker_has_time_to_drain() -> None:
    (settings,) = of_kind("ConfigMap")
    poll = Settings.model_fields["poll_wait"].default.total_seconds()

    # A poll and its deadline, the verbs that run, five seconds for last words.
    longest = poll + 5 + float(settings["data"]["VERBWORKER_GRACE"]) + 5

    assert pod("verbworker-worker")["terminationGracePeriodSeconds"] >= longest + 10
    for name, kind in (("verbworker-console", ConsoleSettings), ("verbworker-ingress", IngressSettings)):
        drain = kind.model_fields["drain"].default.total_seconds()
        assert pod(name)["terminationGracePeriodSeconds"] >= drain + 5


def test_the_autoscaler_asks_for_what_is_exported_and_adapted() -> None:
    (scaler,) = of_kind("HorizontalPodAutoscaler")
    adapter = yaml.safe_load((ROOT / "deploy/prometheus/adapter.yaml").read_text())["rules"]
    asked: dict[str, set[str]] = {"Pods": set(), "External": set()}
    for metric in scaler["spec"]["metrics"]:
        asked[metric["type"]].add(metric[metric["type"].lower()]["metric"]["name"])

    assert asked["Pods"] == {rule["name"]["as"] for rule in adapter["custom"]}
    assert asked["External"] == {rule["name"]["as"] for rule in adapter["external"]}
    assert asked["Pods"] | asked["External"] <= exported().keys()


def test_everything_is_forbidden_but_for_what_is_needed() -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind("NetworkPolicy")}
    closed = policies.pop("verbworker-nothing")

    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for name, spec in policies.items():
        (way,) = (way for way in ("ingress", "egress") if way in spec)
        assert spec["policyTypes"] == [way.capitalize()], name
        for rule in spec[way]:
            # A rule without a peer or without ports would open everything.
            assert rule["from" if way == "ingress" else "to"], name
            assert rule["ports"], name


def test_the_open_ports_are_the_ones_that_listen() -> None:
    opened = {
        port["port"]
        for one in of_kind("NetworkPolicy")
        for rule in one["spec"].get("ingress", [])
        for port in rule["ports"]
    }
    # A node asks the probes of its pods whatever a policy says.
    listening = {
        port["containerPort"]
        for name in WORKLOADS
        for port in container(name).get("ports", [])
        if port["name"] != "probes"
    }

    assert opened == listening
