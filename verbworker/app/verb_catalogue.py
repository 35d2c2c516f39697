"""The verb catalogue: every verb with its parameters and the models that use it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, PydanticUserError

from verbworker.contract.policy import DEFAULT_POLICY
from verbworker.contract.registry import Registry
from verbworker.contract.task import PlainTask
from verbworker.contract.verb import Verb
from verbworker.contract.workflow import WorkflowVerb
from verbworker.model.outline import Outline, Use

_FEW = 3  # optional parameters that still fit into a table cell; more are only counted


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a verb: an argument of the caller, or a field of the case."""

    name: str
    type: str
    is_required: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.type}{'' if self.is_required else '?'}"


@dataclass(frozen=True, slots=True)
class VerbCard:
    """The catalogue entry of one verb."""

    verb: str
    kind: str
    sentence: str
    arguments: tuple[Parameter, ...]
    policy: str
    errors: tuple[str, ...] | None = None
    callers: tuple[str, ...] = ()
    process: str | None = None
    models: tuple[str, ...] = ()
    uses: tuple[Use, ...] = ()

    @property
    def takes(self) -> str:
        """Return its parameters in short form: a case may have dozens of optional fields."""
        named = [argument for argument in self.arguments if argument.is_required]
        others = [argument for argument in self.arguments if not argument.is_required]
        if len(others) <= _FEW:
            return ", ".join(map(str, (*named, *others)))
        return ", ".join([*map(str, named), f"and {len(others)} that may be left out"])

    @property
    def ends_with(self) -> str:
        """Return the error codes it may end with; empty if it does not declare them."""
        return "" if self.errors is None else ", ".join(self.errors) or "none"

    @property
    def used_by(self) -> str:
        """Return what uses it, in the shortest known form: elements of models, their files, or workflow verbs."""
        places = (f"{use.process_id}/{use.element_id}" for use in self.uses)
        return ", ".join(places) or ", ".join(self.models) or ", ".join(self.callers)


def cards(registry: Registry, outlines: Sequence[Outline] = ()) -> list[VerbCard]:
    """Return a card for every verb, sorted by name; given outlines of models, also where each is used."""
    uses = [use for outline in outlines for use in outline.uses]
    direct = (_direct(verb, registry, uses) for verb in registry)
    workflows = (_workflow(verb, outlines) for verb in registry.workflows.values())
    plain = (_plain(task, registry, uses) for task in registry.tasks.values())
    return sorted([*direct, *workflows, *plain], key=lambda card: card.verb)


def _plain(task: PlainTask, registry: Registry, uses: Iterable[Use]) -> VerbCard:
    return VerbCard(
        verb=task.name,
        kind="plain task",
        sentence=task.sentence,
        arguments=tuple(Parameter(name, "any", is_required=False) for name in task.variable_names),
        policy=registry.policy_of(task).name if task.policy else "the model's retries",
        uses=tuple(use for use in uses if use.verb == task.name),
    )


def _direct(verb: Verb, registry: Registry, uses: Iterable[Use]) -> VerbCard:
    callers = registry.callers(verb.name)
    policies = {registry.policy_of(verb, caller).name for caller in callers} or {registry.policy_of(verb).name}
    return VerbCard(
        verb=verb.name,
        kind=verb.mode.value,
        sentence=verb.sentence,
        arguments=tuple(_fields(verb.model)),
        policy=", ".join(sorted(policies)),
        errors=verb.errors,
        callers=tuple(sorted(caller.name for caller in callers)),
        uses=tuple(use for use in uses if use.verb == verb.name),
    )


def _workflow(verb: WorkflowVerb, outlines: Iterable[Outline]) -> VerbCard:
    return VerbCard(
        verb=verb.name,
        kind="workflow",
        sentence=verb.name if verb.sentences is None else verb.sentences.step,
        arguments=tuple(
            Parameter(name, "|".join(argument.values) or argument.type, argument.required)
            for name, argument in verb.args.items()
        ),
        policy=verb.policy or DEFAULT_POLICY.name,
        process=verb.process,
        models=tuple(outline.resource for outline in outlines if verb.process in outline.processes),
    )


def _fields(model: type[BaseModel]) -> Iterable[Parameter]:
    try:
        schema = model.model_json_schema()
    except PydanticUserError:
        # A type that JSON schema cannot express: the verb works, only its types are unknown.
        yield from (
            Parameter(info.alias or name, "any", info.is_required()) for name, info in model.model_fields.items()
        )
        return
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        yield Parameter(name, _type(field), name in required)


def _type(field: Mapping[str, Any]) -> str:
    if "anyOf" in field:
        # The `?` of an optional field already shows that it may be null.
        return "|".join(named for named in map(_type, field["anyOf"]) if named != "null") or "null"
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "enum" in field:
        return "|".join(str(choice) for choice in field["enum"])
    return str(field.get("format") or field.get("type") or "any")
