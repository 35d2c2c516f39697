"""Coverage: whether every job in the models has a verb, and every registered verb is used."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from verblint.contracts.contract import DirectVerb
from verblint.names import nearest
from verblint.report import Finding
from verbworker.contract.model_fields import find_missing_fields, find_unknown_step
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Mode, Verb
from verbworker.contract.workflow import WorkflowVerb
from verbworker.model.outline import Use, verbs_in
from verbworker.profile.verify.location import Location, display_path
from verbworker.profile.verify.policy_files import PolicyFiles
from verbworker.profile.verify.rules import (
    INITIAL_INCOMPLETE,
    OUTCOME_UNKNOWN,
    POLICY_DIFFERS,
    VERB_CONTRACT_DIFFERS,
    VERB_UNCALLED,
    VERB_UNREGISTERED,
    WRITES_UNKNOWN,
)
from verbworker.profile.verify.sources import Sources


@dataclass(frozen=True, slots=True)
class _Request:
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
    registry: Registry, sources: Sources, uses: Sequence[Use], resolved: Iterable[Resolved]
) -> Iterator[Finding]:
    """Yield every difference between the registered verbs and policies and those of models and contracts."""
    requests = [*_iterate_requests(sources, uses)]
    yield from _find_missing(registry, requests)
    yield from _find_unused_verbs(registry, sources, {request.verb for request in requests})
    yield from _find_differences(registry, sources)
    yield from _find_unknown_writes(registry)
    yield from _find_incomplete_starts(registry, sources, uses)
    yield from _find_unknown_outcomes(registry, sources, uses)
    # Two processes may share a policy, which is reported once.
    differing = {(found.file, found.line, found.message): found for found in _policy_differences(registry, resolved)}
    yield from differing.values()


def _iterate_requests(sources: Sources, uses: Iterable[Use]) -> Iterator[_Request]:
    """Yield each requested verb: models before contracts, because people look there first."""
    for use in verbs_in(uses):
        yield _Request(use.verb, f"{use.element_id} calls", Location.at(use.resource, use.line), use.process_id)
    for workflow in sources.workflows:
        spot = _contract_spot(sources, workflow.name)
        for name in workflow.sub_verbs:
            yield _Request(name, f"the allow-list of {workflow.name} names", spot, workflow.process)
        for step, undo in workflow.compensation.items():
            yield _Request(undo, f"{workflow.name} has {step} undone by", spot, workflow.process)


def _find_missing(registry: Registry, requests: Iterable[_Request]) -> Iterator[Finding]:
    names = [verb.name for verb in registry]
    served = {*names, *registry.tasks}
    seen: set[tuple[str, str]] = set()
    reported: set[str] = set()
    for request in requests:
        place = (request.verb, request.spot.file)
        if request.verb in served or place in seen or (not request.by.endswith("calls") and request.verb in reported):
            continue
        seen.add(place)
        reported.add(request.verb)
        near = nearest(request.verb, names)
        hint = f"Write {near}, or register {request.verb}" if near else f"Register a function as {request.verb}"
        words = f"{request.by} {request.verb}, and no verb of that name is registered"
        yield request.spot.finding(VERB_UNREGISTERED, words, hint=hint, process=request.process, detail=request.verb)


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
            unknown = find_unknown_step(verb.model, field)
            if unknown is None:
                continue
            words = f"{verb.name} declares that it writes {field}, and {verb.model.__name__} has no field {unknown[0]}"
            near = nearest(unknown[0], unknown[1])
            hint = f"Write {near}" if near else "Write a field of the model, as it is called in the data"
            yield _code_spot(verb).finding(WRITES_UNKNOWN, words, hint=hint, detail=f"{verb.name} {field}")


def _find_incomplete_starts(registry: Registry, sources: Sources, uses: Iterable[Use]) -> Iterator[Finding]:
    """Yield the required fields of the first verbs' models that no new case would have."""
    reported: set[tuple[str, str]] = set()
    for use in uses:
        workflow, verb = sources.workflow_of(use.process_id), registry.find(use.verb)
        if workflow is None or verb is None or not use.is_first:
            continue
        origin = sources.contracts.workflows[workflow.name].origin.at("payload", "initial")
        given = {target.partition(".")[0]: target for target in workflow.initial}
        received = _input_fields(use, given)
        for field in () if received is None else find_missing_fields(verb.model, received):
            if (workflow.name, field) in reported:
                continue
            reported.add((workflow.name, field))
            words = f"payload.initial of {workflow.name} does not give {field}, which {verb.name} requires, the first"
            near = nearest(field, given)
            hint = f"Write {field} in place of {near}" if near else "Add it, or give the field a default in the model"
            yield Location.origin(origin.at(given[near]) if near else origin).finding(
                INITIAL_INCOMPLETE,
                f"{words} verb at {use.element_id}",
                hint=hint,
                process=use.process_id,
                detail=f"{workflow.name} {field}",
            )


def _input_fields(use: Use, given: Collection[str]) -> Collection[str] | None:
    """Return the fields that a verb receives of those a case has; None if it is unclear."""
    if not use.mapping:
        return given
    inputs = [(source.split("."), target.split(".")) for way, source, target in use.mapping if way == "input"]
    if any(len(source) == 1 or len(target) == 1 for source, target in inputs):
        return None  # the whole state, or the whole request
    return {target[1] for source, target in inputs if source[1] in given}


def _find_unknown_outcomes(registry: Registry, sources: Sources, uses: Sequence[Use]) -> Iterator[Finding]:
    """Yield the fields of outcomes that no verb of the process has; a process without a model here is left out."""
    for workflow in sources.workflows:
        own = [use for use in uses if use.process_id == workflow.process]
        names = {*workflow.sub_verbs, *workflow.compensation.values()}
        models = [verb.model for verb in map(registry.find, names) if verb is not None]
        if not own or len(models) < len(names):
            continue
        stored = {*workflow.initial, *_stored_by_mappings(own)}
        for target, source in workflow.outcome.items():
            path = source.partition(".")[2]
            unknown = [find_unknown_step(model, path) for model in models]
            if None in unknown or any(_overlap(path, one) for one in stored):
                continue
            steps = [step for step in unknown if step is not None]
            step = max((step for step, _ in steps), key=path.split(".").index)
            known = {name for at, names in steps if at == step for name in names}
            near = nearest(step, known if step != path.split(".")[0] else {*known, *stored})
            words = (
                f"the outcome {target} of {workflow.name} is {source}, and no verb of its process has a field {step}"
            )
            hint = f"Write {near} in place of {step}" if near else "Write a field of the verbs' models"
            origin = sources.contracts.workflows[workflow.name].origin.at("payload", "outcome", target)
            yield Location.origin(origin).finding(
                OUTCOME_UNKNOWN, words, hint=hint, process=workflow.process, detail=f"{workflow.name} {target}"
            )


def _stored_by_mappings(uses: Iterable[Use]) -> Iterator[str]:
    for use in uses:
        yield from (target.partition(".")[2] for way, _, target in use.mapping if way == "output")


def _overlap(one: str, other: str) -> bool:
    """Return whether one path is the other, or leads to it or into it; the whole data is an empty path."""
    steps = [*zip(one.split("."), other.split("."), strict=False)]
    return not other or all(first == second for first, second in steps)


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
