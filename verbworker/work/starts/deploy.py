"""Deployment: models are linted and woven, and become definitions of the engine, each with the hashes of its bytes.

The deployed model is made from the very bytes that passed the linter: a file is read once and never again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from verblint.report import Report
from verbworker.contract.registry import Registry
from verbworker.engine.known_faults import version_number
from verbworker.engine.protocol import Engine, Resource
from verbworker.errors import CannotRun, CommandInvalid, EngineError, Refused
from verbworker.model.engine_need import read_need
from verbworker.model.outline import outline, verbs_in
from verbworker.model.weave import Woven, take_plain, weave
from verbworker.profile.verify.models import ModelLinter
from verbworker.stores.deployments import Deployment, Deployments


@dataclass(frozen=True, slots=True)
class ReadyModel:
    """A model that passed: its woven form, its source file, and the hash of the authored bytes."""

    woven: Woven
    name: str
    authored_sha256: bytes

    @property
    def woven_sha256(self) -> bytes:
        """Return the hash of the bytes that are deployed."""
        return sha256(self.woven.content).digest()


@dataclass(frozen=True, slots=True)
class PreparedModels:
    """The result of linting and weaving: all models are ready, or there are reasons why none is."""

    report: Report
    ready: tuple[ReadyModel, ...] = ()
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeployedModel:
    """What the engine and the database now have of a model."""

    deployment: Deployment
    is_new: bool


def prepare(models: Sequence[Resource], lint: ModelLinter, registry: Registry) -> PreparedModels:
    """Lint every model, then weave every hollow one; one failure prevents all deployments. Warnings pass."""
    report = Report.of(lint(model.content, model.name) for model in models)
    if report.errors or report.problems:
        return PreparedModels(report)
    ready: list[ReadyModel] = []
    refusals: list[str] = []
    for model in models:
        try:
            if lint.is_plain(model.name):
                woven = take_plain(model.content, registry)
            else:
                woven = weave(model.content, registry, engine=lint.engine_version)
            ready.append(ReadyModel(woven, model.name, sha256(model.content).digest()))
        except Refused as refusal:
            missing = [] if lint.is_plain(model.name) else _missing_verbs(model, registry)
            refusals += missing or [f"{model.name}: {refusal}"]
    refusals += _rivals(ready)
    return PreparedModels(report, () if refusals else tuple(ready), tuple(refusals))


def _missing_verbs(model: Resource, registry: Registry) -> list[str]:
    """Return the jobs of a model without a verb: a registry without them lacks more, such as their policies."""
    return [
        f"{model.name}:{use.line}: {use.element_id} calls {use.verb}, and no verb of that name is registered;"
        " add the package that has it to the registry"
        for use in verbs_in(outline(model).uses)
        if registry.find(use.verb) is None
    ]


def _rivals(ready: Sequence[ReadyModel]) -> Iterator[str]:
    """Yield a refusal for each process in two models: they would alternate as its latest version."""
    first: dict[str, str] = {}
    for model in ready:
        other = first.setdefault(model.woven.process_id, model.name)
        if other != model.name:
            yield f"{model.name}: the process {model.woven.process_id} is also in {other}; keep one of them"


class Deploy:
    """Deploys prepared models to one engine and records the result."""

    def __init__(self, engine: Engine, deployments: Deployments) -> None:
        self._engine = engine
        self._deployments = deployments

    async def deploy(self, ready: ReadyModel, *, by: str) -> DeployedModel:
        """Deploy one model and record it. Bytes that are deployed already change nothing.

        Raises `EngineError` with the engine's own reason, or before anything is sent if the cluster is too old for the
        model. Each model is deployed alone: in a deployment of several, one that changed gives all a new version.
        """
        woven = ready.woven
        await self._require_version(woven)
        # The engine distinguishes versions by name and bytes, so the name must not depend on the working directory.
        resource = Resource(f"{woven.process_id}.bpmn", woven.content)
        # Recorded first: its jobs may arrive as soon as the engine has the model.
        await self._deployments.record_task_profiles(woven.compiled)
        await self._deployments.request(woven, resource=ready.name, authored_sha256=ready.authored_sha256, by=by)
        answers = await self._engine.deploy([resource])
        deployed = next((answer for answer in answers if answer.process_id == woven.process_id), None)
        if deployed is None:
            raise EngineError(f"the engine took {resource.name} and did not report its version")
        is_new = await self._deployments.record(
            deployed, woven, resource=ready.name, authored_sha256=ready.authored_sha256, by=by
        )
        deployment = await self._deployments.find(deployed.definition_key)
        if deployment is None or deployment.woven_sha256 != ready.woven_sha256:
            raise CannotRun(
                f"the engine gave {woven.process_id} the key {deployed.definition_key}, under which engine"
                f" {self._engine.engine_id} has other bytes on record; a recreated cluster needs another engine id"
            )
        return DeployedModel(deployment, is_new)

    async def _require_version(self, woven: Woven) -> None:
        """Raise `CommandInvalid` for a model that the cluster's version cannot take; an unknown version may try."""
        need = read_need(woven.content)
        if need is None:
            return
        version = (await self._engine.facts()).version
        number = version_number(version)
        refusal = None if number is None else need.refusal(version, number[:2])
        if refusal is not None:
            raise CommandInvalid(refusal)
