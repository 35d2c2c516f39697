"""The Helm chart: its values are checked, and what helm renders of it are objects that Kubernetes knows."""

import json
import subprocess
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic_settings import BaseSettings

from tests.support.cli_walk import misuse
from tests.support.errors import Unavailable
from tests.support.helm import find_helm, find_strict_reader
from tests.support.promql import exported
from verbworker.api.settings import IngressSettings
from verbworker.app.settings import Settings
from verbworker.console.settings import ConsoleSettings

pytestmark = pytest.mark.timeout(1800)  # the first run builds helm, which has a limit of its own

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "verbworker"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
EVERYTHING = {
    "image": {"repository": "registry.example/team/app", "digest": "sha256:" + "a" * 64},
    "imagePullSecrets": [{"name": "pull"}],
    "settings": {"VERBWORKER_OTEL": "true", "ZEEBE_ADDRESS": "zeebe:26500"},
    "secrets": {"camunda": "camunda", "integrity": "integrity"},
    "serviceAccount": {"annotations": {"team": "claims"}},
    "worker": {
        "graceSeconds": 120,
        "autoscaling": {"enabled": True},
        "nodeSelector": {"pool": "verbs"},
        "tolerations": [{"key": "verbs", "operator": "Exists"}],
    },
    "console": {"podAnnotations": {"note": "console"}},
}
LITTLE = {
    "engine": {"kind": "embedded", "id": "small"},
    "serviceAccount": {"create": False, "name": "mine"},
    "migrate": {"enabled": False},
    "worker": {"disruptionBudget": {"enabled": False}},
    "console": {"enabled": False},
    "ingress": {"enabled": False},
}
REFUSED = [
    {"image": {"repository": ""}},
    {"image": {"repository": "verbworker", "digest": "latest"}},
    {"app": "verbs"},
    {"engine": {"kind": "camunda7", "id": "x"}},
    {"engine": {"kind": "zeebe", "id": ""}},
    {"settings": {"VERBWORKER_DSN": "postgresql://user:secret@host/db"}},
    {"settings": {"CAMUNDA_CLIENT_SECRET": "secret"}},
    {"settings": {"VERBWORKER_OTEL": True}},
    {"secrets": {"database": ""}},
    {"secrets": {"databse": "typo"}},
    {"worker": {"replicas": "two"}},
    {"worker": {"graceSeconds": 0}},
    {"console": {"publicUrl": "runbook"}},
    {"workers": {}},
]


# ---- the values -----------------------------------------------------------------------------------------------------


def merged(*changes: Mapping[str, Any]) -> dict[str, Any]:
    """The chart's values with changes, as helm merges them."""

    def join(old: Any, new: Any) -> Any:
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            return {**old, **{name: join(old.get(name), value) for name, value in new.items()}}
        return new

    whole: dict[str, Any] = VALUES
    for change in changes:
        whole = join(whole, change)
    return whole


@pytest.mark.parametrize("change", [{}, EVERYTHING, LITTLE], ids=["default", "everything", "little"])
def test_good_values_pass(change: dict[str, Any]) -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)

    assert [error.message for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(merged(change))] == []


@pytest.mark.parametrize("change", REFUSED, ids=json.dumps)
def test_wrong_values_are_refused(change: dict[str, Any]) -> None:
    assert not jsonschema.Draft7Validator(SCHEMA).is_valid(merged(change))


def test_every_value_has_its_place_in_the_schema() -> None:
    assert set(SCHEMA["properties"]) == {*VALUES, "global"}
    for name, value in VALUES.items():
        if isinstance(value, dict) and "properties" in SCHEMA["properties"][name]:
            assert set(SCHEMA["properties"][name]["properties"]) == set(value), name


def test_the_chart_has_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (version, version)


# ---- what helm makes of them ----------------------------------------------------------------------------------------


def helm(*words: str, given: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm on the chart, with values on its standard input."""
    try:
        command = [str(find_helm()), *words, str(CHART), "--kube-version", "1.33.0", "--values", "-"]
    except Unavailable as error:
        pytest.skip(str(error))
    text = json.dumps(given or {})
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=120)


@cache
def rendered(name: str) -> str:
    """The manifests of a release called `prod`, by the name of its values."""
    changes: dict[str, Mapping[str, Any]] = {"default": {}, "everything": EVERYTHING, "little": LITTLE}
    done = helm("template", "prod", given=changes[name])
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(name: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of a release, by kind and name without the release's."""
    found = [one for one in yaml.safe_load_all(rendered(name)) if one]
    return {(one["kind"], one["metadata"]["name"].removeprefix("prod-verbworker-")): one for one in found}


def pods(name: str) -> dict[str, dict[str, Any]]:
    """The pod templates of a release."""
    return {
        part: one["spec"]["template"] for (kind, part), one in objects(name).items() if kind in ("Deployment", "Job")
    }


def test_helm_finds_nothing_to_complain_about() -> None:
    done = helm("lint", "--strict")

    assert done.returncode == 0, done.stdout
    assert "0 chart(s) failed" in done.stdout


@pytest.mark.parametrize("name", ["default", "everything", "little"])
def test_kubernetes_own_types_read_what_is_rendered(name: str) -> None:
    try:
        reader = find_strict_reader()
    except Unavailable as error:
        pytest.skip(str(error))

    read = subprocess.run([reader], input=rendered(name), capture_output=True, text=True, check=False, timeout=60)
    wrong = subprocess.run(
        [reader],
        input=rendered(name).replace("readinessProbe:", "readynessProbe:"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (read.returncode, read.stderr) == (0, "")
    assert len(read.stdout.splitlines()) == len(objects(name))
    assert (wrong.returncode, "readynessProbe" in wrong.stderr) == (1, True)


def test_what_is_rendered_is_what_was_asked_for() -> None:
    kinds = {name: sorted(kind for kind, _ in objects(name)) for name in ("default", "everything", "little")}

    budgets = ["PodDisruptionBudget"] * 3
    servers = ["ConfigMap", "Deployment", "Deployment", "Deployment"]
    rest = ["Job", *budgets, "Service", "Service", "ServiceAccount"]
    assert kinds["default"] == [*servers, *rest]
    assert kinds["everything"] == [*servers, "HorizontalPodAutoscaler", *rest]
    assert kinds["little"] == ["ConfigMap", "Deployment"]


@pytest.mark.parametrize("name", ["default", "everything", "little"])
def test_every_pod_is_let_into_a_restricted_namespace_and_runs_a_command(name: str) -> None:
    for part, template in pods(name).items():
        outer = template["spec"]
        (inner,) = outer["containers"]
        assert outer["automountServiceAccountToken"] is False, part
        assert outer["securityContext"]["runAsNonRoot"] is True, part
        assert outer["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, part
        assert inner["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, part
        assert misuse(inner["args"]) is None, part
        assert {mount["name"] for mount in inner["volumeMounts"]} == {volume["name"] for volume in outer["volumes"]}
        assert "limits" in inner["resources"], part


@pytest.mark.parametrize("name", ["default", "everything", "little"])
def test_every_server_has_probes_on_a_port_that_is_open(name: str) -> None:
    default = {
        "worker": Settings.model_fields["http_port"].default,
        "console": ConsoleSettings.model_fields["port"].default,
        "ingress": IngressSettings.model_fields["port"].default,
    }
    for part, template in pods(name).items():
        if part == "migrate":
            continue
        (inner,) = template["spec"]["containers"]
        asked = {probe: inner[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}
        assert [get["path"] for get in asked.values()] == ["/live", "/live", "/ready"]
        ports = {port["name"]: port["containerPort"] for port in inner["ports"]}
        own = [int(one["value"]) for one in inner.get("env", []) if one["name"].endswith("_PROBE_PORT")]
        (probed,) = {get["port"] for get in asked.values()}
        assert [ports.pop(probed)] == (own or [default[part]])
        assert list(ports.values()) == ([default[part]] if own else [])


@pytest.mark.parametrize("name", ["default", "everything", "little"])
def test_what_is_selected_is_there(name: str) -> None:
    for (kind, part), one in objects(name).items():
        labels = pods(name).get(part, {}).get("metadata", {}).get("labels", {})
        if kind in ("Deployment", "PodDisruptionBudget"):
            assert one["spec"]["selector"]["matchLabels"].items() <= labels.items(), part
        if kind == "Service":
            assert one["spec"]["selector"].items() <= labels.items(), part
        if kind == "HorizontalPodAutoscaler":
            assert one["spec"]["scaleTargetRef"]["name"] == f"prod-verbworker-{part}"
            assert "replicas" not in objects(name)["Deployment", part]["spec"]


@pytest.mark.parametrize("name", ["default", "everything", "little"])
def test_the_settings_are_settings_and_no_secret_is_written(name: str) -> None:
    kinds: dict[str, type[BaseSettings]] = {"": Settings, "CONSOLE_": ConsoleSettings, "INGRESS_": IngressSettings}
    known = {f"VERBWORKER_{prefix}{field.upper()}" for prefix, kind in kinds.items() for field in kind.model_fields}
    given = set(objects(name)["ConfigMap", "settings"]["data"])
    for template in pods(name).values():
        given |= {one["name"] for one in template["spec"]["containers"][0].get("env", [])}

    assert {variable for variable in given if variable.startswith("VERBWORKER_")} <= known
    assert not [kind for kind, _ in objects(name) if kind == "Secret"]


def test_a_worker_has_time_to_drain() -> None:
    poll = Settings.model_fields["poll_wait"].default.total_seconds()
    for name in ("default", "everything"):
        grace = float(objects(name)["ConfigMap", "settings"]["data"]["VERBWORKER_GRACE"])
        assert pods(name)["worker"]["spec"]["terminationGracePeriodSeconds"] >= grace + poll + 5 + 5 + 10


def test_migrations_run_before_everything_and_need_nothing_of_the_chart() -> None:
    job = objects("default")["Job", "migrate"]
    (inner,) = job["spec"]["template"]["spec"]["containers"]

    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert "envFrom" not in inner
    assert "serviceAccountName" not in job["spec"]["template"]["spec"]


def test_the_autoscaler_asks_for_what_is_exported() -> None:
    metrics = objects("everything")["HorizontalPodAutoscaler", "worker"]["spec"]["metrics"]

    assert {one[one["type"].lower()]["metric"]["name"] for one in metrics} <= exported().keys()


@pytest.mark.parametrize("change", REFUSED, ids=json.dumps)
def test_helm_refuses_wrong_values_before_it_renders(change: dict[str, Any]) -> None:
    done = helm("template", "prod", given=change)

    assert done.returncode == 1
    assert "values don't meet the specifications of the schema" in done.stderr
