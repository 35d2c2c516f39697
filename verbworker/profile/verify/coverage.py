"""Coverage: whether every job in the models has a verb, and every registered verb is used."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticUserError

from verblint.contracts.contract import DirectVerb
from verblint.names import nearest
from verblint.report import Finding
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Mode, Verb
from verbworker.contract.workflow import WorkflowVerb
from verbworker.model.outline import Use, verbs_in
from verbworker.profile.verify.location import Location, display_path
from verbworker.profile.verify.policy_files import PolicyFiles
from verbworker.profile.verify.rules import (
    POLICY_DIFFERS,
    VERB_CONTRACT_DIFFERS,
    VERB_UNCALLED,
    VERB_UNREGISTERED,
    WRITES_UNKNOWN,
)
from verbworker.profile.verify.sources import Sources


@dataclass(frozen=True, slots=True)
class _Asked:
    """A requested verb, and where it is requested."""

    verb: str
    by: str
    spot: Location
    process: str = ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The policies that a process runs under, and the catalogue that holds them."""

    process: str
    names: tuple[str, ...]
    catalogue: PolicyFiles


def coverage(
    registry: Registry, sources: Sources, uses: Iterable[Use], resolved: Iterable[Resolved]
) -> Iterator[Finding]:
    """Yield every difference between the registered verbs and policies and those of models and contracts."""
    asked = [*_iterate_requests(sources, uses)]
    yield from _find_missing(registry, asked)
    yield from _find_unused_verbs(registry, sources, {ask.verb for ask in asked})
    yield from _find_differences(registry, sources)
    yield from _find_unknown_writes(registry)
    # Two processes may share a policy, which is reported once.
    differing = {(found.file, found.line, found.message): found for found in _policy_differences(registry, resolved)}
    yield from differing.values()


def _iterate_requests(sources: Sources, uses: Iterable[Use]) -> Iterator[_Asked]:
    """Yield each requested verb: models before contracts, because people look there first."""
    for use in verbs_in(uses):
        yield _Asked(use.verb, f"{use.element_id} calls", Location.at(use.resource, use.line), use.process_id)
    for workflow in sources.workflows:
        spot = _contract_spot(sources, workflow.name)
        for name in workflow.sub_verbs:
            yield _Asked(name, f"the allow-list of {workflow.name} names", spot, workflow.process)
        for step, undo in workflow.compensation.items():
            yield _Asked(undo, f"{workflow.name} has {step} undone by", spot, workflow.process)


def _find_missing(registry: Registry, asked: Iterable[_Asked]) -> Iterator[Finding]:
    names = [verb.name for verb in registry]
    served = {*names, *registry.tasks}
    seen: set[tuple[str, str]] = set()
    told: set[str] = set()
    for ask in asked:
        place = (ask.verb, ask.spot.file)
        if ask.verb in served or place in seen or (not ask.by.endswith("calls") and ask.verb in told):
            continue
        seen.add(place)
        told.add(ask.verb)
        near = nearest(ask.verb, names)
        hint = f"Write {near}, or register {ask.verb}" if near else f"Register a function as {ask.verb}"
        words = f"{ask.by} {ask.verb}, and no verb of that name is registered"
        yield ask.spot.finding(VERB_UNREGISTERED, words, hint=hint, process=ask.process, detail=ask.verb)


def _find_unused_verbs(registry: Registry, sources: Sources, called: set[str]) -> Iterator[Finding]:
    for verb in registry:
        contract = sources.contracts.directs.get(verb.name)
        if verb.name in called or (contract is not None and (contract.sentences is not None or contract.args)):
            continue
        words = f"{verb.name} is registered, and no model and no contract uses it"
        hint = "Call it from a model, give its contract sentences for callers, or remove it"
        spot = _contract_spot(sources, verb.name) if contract is not None else _code_spot(verb)
        yield spot.finding(VERB_UNCALLED, words, hint=hint, detail=verb.name)


def _find_differences(registry: Registry, sources: Sources) -> Iterator[Finding]:
    for name, contract in sources.contracts.directs.items():
        verb = registry.find(name)
        for field, written, registered in _direct_differences(contract, verb) if verb is not None else ():
            words = f"{field} of {name} is {written} in its contract and {registered} where it is registered"
            yield _contract_spot(sources, name).finding(
                VERB_CONTRACT_DIFFERS, words, hint="Write the same in both", detail=f"{name} {field}"
            )
    for workflow in sources.workflows:
        yield from _workflow_differences(registry, sources, workflow)


def _direct_differences(contract: DirectVerb, verb: Verb) -> Iterator[tuple[str, object, object]]:
    if contract.mode is not None and contract.mode != verb.mode.value:
        yield "mode", contract.mode, verb.mode.value
    if contract.writes is not None and set(contract.writes) != set(verb.writes or ()):
        yield (
            "writes",
            _format_names(contract.writes),
            "everything" if verb.writes is None else _format_names(verb.writes),
        )
    # The outcome of a transactional verb is never unknown.
    matters = verb.mode is Mode.EXTERNAL
    if matters and contract.on_unknown is not None and contract.on_unknown != verb.on_unknown.value:
        yield "on_unknown", contract.on_unknown, verb.on_unknown.value
    if contract.policy is not None and verb.policy is not None and contract.policy != verb.policy:
        yield "policy", contract.policy, verb.policy


def _find_unknown_writes(registry: Registry) -> Iterator[Finding]:
    for verb in registry:
        for field in verb.writes or ():
            unknown = _find_unknown_step(verb.model, field)
            if unknown is None:
                continue
            words = f"{verb.name} declares that it writes {field}, and {verb.model.__name__} has no field {unknown[0]}"
            near = nearest(unknown[0], unknown[1])
            hint = f"Write {near}" if near else "Write a field of the model, as it is called in the data"
            yield _code_spot(verb).finding(WRITES_UNKNOWN, words, hint=hint, detail=f"{verb.name} {field}")


def _find_unknown_step(model: type[BaseModel], field: str) -> tuple[str, list[str]] | None:
    """Return the step of a field's path that a model does not have, with those it has there; None if it may have it."""
    try:
        schema = model.model_json_schema(by_alias=True, mode="serialization")
    except PydanticUserError:
        return None  # it has no schema, so nothing is known of its fields
    here = schema
    for step in field.split("."):
        known = here.get("properties")
        # Open mappings, unions and lists may hold anything.
        if not isinstance(known, dict) or here.get("additionalProperties"):
            return None
        if step not in known:
            return step, [*known]
        here = known[step]
        while "$ref" in here:
            here = schema["$defs"][here["$ref"].rpartition("/")[2]]
    return None


def _workflow_differences(registry: Registry, sources: Sources, written: WorkflowVerb) -> Iterator[Finding]:
    spot = _contract_spot(sources, written.name)
    known = registry.workflows.get(written.name)
    if known is None:
        words = f"the workflow verb {written.name} is in no registry, so {written.process} cannot be started"
        hint = "Load its contract: registry.load(folder)"
        yield spot.finding(VERB_UNREGISTERED, words, hint=hint, process=written.process, detail=written.name)
        return
    differing = [part.name for part in fields(written) if getattr(known, part.name) != getattr(written, part.name)]
    if differing:
        words = f"the registry has another contract of {written.name}: {', '.join(differing)} differ"
        hint = "Load the contracts from the folder that is verified"
        yield spot.finding(VERB_CONTRACT_DIFFERS, words, hint=hint, process=written.process, detail=written.name)


def _policy_differences(registry: Registry, resolved: Iterable[Resolved]) -> Iterator[Finding]:
    """Yield where the registry's values differ from the files; deployments use the registry's."""
    for process in resolved:
        for name in process.names:
            known = registry.policies.get(name)
            if known is None:
                yield _of_policy(process, name, f"the policy {name} is not in the registry")
                continue
            registered = _values(known.model_dump(mode="json"), name)
            for path, value in _values(process.catalogue.policies[name].model_dump(mode="json"), name).items():
                if registered[path] != value:
                    words = f"policies.{path} is {value}, and {registered[path]} in the registry"
                    yield _of_policy(process, path, words)


def _of_policy(process: Resolved, path: str, words: str) -> Finding:
    spot = process.catalogue.spot(path)
    assert spot is not None, "a policy that was resolved is in the catalogue"
    return spot.finding(POLICY_DIFFERS, words, hint="Have the registry load this file", detail=path)


def _values(part: Any, path: str) -> dict[str, Any]:
    """Return every value of a policy by its path."""
    if not isinstance(part, dict):
        return {path: part}
    return {at: value for key, inner in part.items() for at, value in _values(inner, f"{path}.{key}").items()}


def _contract_spot(sources: Sources, verb: str) -> Location:
    found = sources.contracts.workflows.get(verb) or sources.contracts.directs.get(verb)
    assert found is not None, "the verb was read from these contracts"
    return Location.origin(found.origin)


def _code_spot(verb: Verb) -> Location:
    """Return where the function of a verb is defined."""
    code = getattr(verb.act.function, "__code__", None)
    return (
        Location.at("<unknown>") if code is None else Location.at(display_path(code.co_filename), code.co_firstlineno)
    )


def _format_names(names: Iterable[str]) -> str:
    return f"[{', '.join(sorted(names))}]"
