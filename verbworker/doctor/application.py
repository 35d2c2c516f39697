"""Checks of the application: its verbs, its keys, and whether the deployed models match the files."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

from verbworker.app import selfcheck
from verbworker.contract.registry import Registry
from verbworker.doctor.check_result import CheckResult, ok, unknown, warn, wrong
from verbworker.doctor.subject import Subject
from verbworker.engine.protocol import Resource
from verbworker.errors import Refused, VerbworkerError
from verbworker.model.outline import Use, outline, verbs_in
from verbworker.model.weave import PLAIN_PROCESS, take_plain, weave
from verbworker.profile.verify.models import read_models
from verbworker.stores.checkup import Checkup
from verbworker.stores.deployments import Deployment, Deployments

_PASS_APP = "pass --app module:attribute"


async def load(subject: Subject) -> Sequence[CheckResult]:
    """Check that the verbs can be imported."""
    registry = subject.registry()
    if registry is None:
        return [unknown("application", "no registry is given", _PASS_APP)]
    direct, workflows = len(list(registry)), len(registry.workflows)
    plain = f", and {len(registry.tasks)} plain tasks for processes that are not hollow" if registry.tasks else ""
    return [ok("application", f"{subject.app} has {direct} direct verbs and {workflows} workflow verbs{plain}")]


async def keys(subject: Subject) -> Sequence[CheckResult]:
    """Check that the signing keys for signed payloads exist. Never shows their secrets."""
    registry = _load_registry(subject)
    ring = subject.settings.key_ring() if registry is None else selfcheck.required_ring(registry, subject.settings)
    keys = "no key is set" if ring is None else f"{ring.active} signs, {len(ring.secrets)} key(s) verify"
    if registry is None:
        fix = _PASS_APP if subject.app is None else "fix application first"
        return [unknown("keys", f"{keys}, but which verbs are signed is unknown", fix)]
    signed = sum(verb.integrity == "signed" for verb in registry.workflows.values())
    return [ok("keys", f"{signed} workflow verb(s) are signed; {keys}")]


async def models(subject: Subject) -> Sequence[CheckResult]:
    """Check that the newest version of each process was built from the current file."""
    registry, deployments = _load_registry(subject), await _deployments(subject)
    files = read_models(subject.models) if subject.models else []
    if not files and registry is None:
        return [unknown("models", "neither files nor a registry are given", "pass the folder of the models")]
    found: list[CheckResult] = []
    seen: set[str] = set()
    for file in files:
        for process_id in outline(file).processes:
            seen.add(process_id)
            latest = await deployments.latest(process_id)
            found.append(_compare(file, process_id, latest, subject))
    for verb in registry.workflows.values() if registry is not None else ():
        if verb.process not in seen and await deployments.latest(verb.process) is None:
            fix = f"deploy its model: verbworker deploy PATH --app {subject.app}"
            found.append(
                wrong(f"model {verb.process}", f"{verb.name} cannot be started: its model is not deployed", fix)
            )
    return found or [ok("models", "every workflow verb has a deployed model")]


def _compare(file: Resource, process_id: str, deployed: Deployment | None, subject: Subject) -> CheckResult:
    name, registry = f"model {process_id}", _load_registry(subject)
    fix = f"deploy it: verbworker deploy {file.name} --app {subject.app or 'module:attribute'}"
    if deployed is None:
        return wrong(name, f"{file.name} is not deployed", fix)
    which = f"version {deployed.version}, deployed {deployed.deployed_at:%Y-%m-%d %H:%M} by {deployed.deployed_by}"
    if deployed.authored_sha256 != sha256(file.content).digest():
        return warn(name, f"{file.name} differs from {which}", fix)
    if registry is not None and not _is_woven_alike(file, deployed, registry):
        return warn(name, f"{file.name} equals {which}, but its policies or the runtime changed", fix)
    hollow = "; it is plain, not hollow" if deployed.verb == PLAIN_PROCESS else ""
    return ok(name, f"{file.name} equals {which}{hollow}")


def _is_woven_alike(file: Resource, deployed: Deployment, registry: Registry) -> bool:
    take = take_plain if deployed.verb == PLAIN_PROCESS else weave
    try:
        return sha256(take(file.content, registry).content).digest() == deployed.woven_sha256
    except Refused:
        return False


async def verbs(subject: Subject) -> Sequence[CheckResult]:
    """Check that every job of a deployed model has a verb."""
    registry, deployments = _load_registry(subject), await _deployments(subject)
    assert registry is not None, "this check needs the application"
    pinned = await Checkup(await subject.database()).definitions_in_use(subject.settings.cluster())
    lost: list[tuple[Use, Deployment]] = []
    plain: list[CheckResult] = []
    total = 0
    for deployment in _in_use(await deployments.list(), pinned):
        total += 1
        plain += _tell_plain(deployment)
        lost += [(use, deployment) for use in await _find_missing_verbs(deployment, deployments, registry)]
    if not total:
        return [ok("verbs", "nothing is deployed yet")]
    if not lost:
        return [ok("verbs", f"every job of {total} deployed model(s) has a verb or a plain task"), *plain]
    return [*(_lost(use, deployment, registry) for use, deployment in lost), *plain]


def _tell_plain(deployment: Deployment) -> Iterator[CheckResult]:
    if deployment.verb == PLAIN_PROCESS:
        words = f"version {deployment.version} is not hollow: plain tasks serve it, and no entry follows it"
        yield ok(f"process {deployment.process_id}", words)


def _in_use(deployments: Sequence[Deployment], pinned: set[int]) -> Iterator[Deployment]:
    """Yield the newest version of each process, and older ones with running instances."""
    newest: set[str] = set()
    for deployment in deployments:
        if deployment.process_id not in newest or deployment.definition_key in pinned:
            yield deployment
        newest.add(deployment.process_id)


async def _find_missing_verbs(deployment: Deployment, deployments: Deployments, registry: Registry) -> list[Use]:
    content = await deployments.content(deployment.definition_key)
    uses = outline(Resource(deployment.resource, content or b"")).uses
    find = registry.find_task if deployment.verb == PLAIN_PROCESS else registry.find
    return [use for use in verbs_in(uses) if find(use.verb) is None]


def _lost(use: Use, deployment: Deployment, registry: Registry) -> CheckResult:
    where = f"{use.element_id} of {deployment.process_id}, version {deployment.version}"
    found = f"no {'plain task' if deployment.verb == PLAIN_PROCESS else 'verb'} of this registry serves {where}"
    if deployment.verb != PLAIN_PROCESS and registry.workflow_of(deployment.process_id) is None:
        return warn(f"verb {use.verb}", found, "run a worker with the registry that owns this process")
    return wrong(
        f"verb {use.verb}", found, "register it, or deploy a model without it and migrate the running instances"
    )


def _load_registry(subject: Subject) -> Registry | None:
    """Return the registry or None; `load` reports a failed import."""
    try:
        return subject.registry()
    except VerbworkerError:
        return None


async def _deployments(subject: Subject) -> Deployments:
    return Deployments(await subject.database(), engine_id=subject.settings.cluster())
