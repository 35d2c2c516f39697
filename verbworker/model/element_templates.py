"""Element templates for Camunda Modeler, one for each verb, gate and wait.

They write into a model exactly what the linter requires. They leave out retries, which are added at deployment.
"""

import json
from collections.abc import Iterator
from typing import Any

from verblint.bpmn.event_cause import TimerKind
from verblint.contracts.contract import Flag, FlagType, Gate
from verblint.flow.timer_text import is_literal
from verblint.names import COMPENSATE, OWN_TEMPLATES
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Verb
from verbworker.contract.workflow import WorkflowVerb

# The schema by which the modelers recognise a Camunda 8 template. Web Modeler accepts it only without a version.
SCHEMA = "https://unpkg.com/@camunda/zeebe-element-templates-json-schema/resources/schema.json"
FILE = "verbworker.json"

_ENGINES = ">=8.6"
_LONGEST_NAME = 80  # characters; a longer name does not fit on a shape or in the modeler's list
_MESSAGE = "bpmn:MessageEventDefinition"
_MESSAGES = (
    ("catch", "Wait for {}", ("bpmn:IntermediateCatchEvent", "bpmn:IntermediateThrowEvent"), _MESSAGE),
    ("boundary", "When {} comes", ("bpmn:BoundaryEvent",), _MESSAGE),
    ("receive", "Receive {}", ("bpmn:ReceiveTask", "bpmn:Task"), None),
)
_TIMER = "bpmn:TimerEventDefinition"
_TIMERS = (
    ("timer", "Wait until {} is over", ("bpmn:IntermediateCatchEvent", "bpmn:IntermediateThrowEvent")),
    ("deadline", "When {} is over", ("bpmn:BoundaryEvent",)),
)
_TIMES = ((TimerKind.DURATION, "timeDuration"), (TimerKind.DATE, "timeDate"))

Template = dict[str, Any]


def templates(registry: Registry) -> list[Template]:
    """Return a template for every sub-verb, gate and wait of a registry, by ID; deterministic."""
    found = [_verb(verb) for verb in registry]
    for workflow in registry.workflows.values():
        found += [_gate(gate, workflow) for gate in workflow.gates.values()]
        found += [wait for message, key in workflow.messages.items() for wait in _messages(message, key, workflow)]
        found += [wait for flag in workflow.flag_contract.flags.values() for wait in _timers(flag, workflow)]
    if any(workflow.compensation for workflow in registry.workflows.values()):
        found.append(_make_undo_template())
    # Two workflow verbs that wait with the same key or flag share one template.
    return [template for _, template in sorted({str(template["id"]): template for template in found}.items())]


def format_file(found: list[Template]) -> str:
    """Return the templates as the content of their file."""
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _verb(verb: Verb) -> Template:
    task = _hidden(verb.name, {"type": "zeebe:taskDefinition", "property": "type"})
    codes = f" It may end with the error {' or '.join(verb.errors)}." if verb.errors else ""
    return _template(
        f"verb.{verb.name}",
        verb.name,
        # What a modeller must catch: a task template cannot include boundary events.
        f"{verb.sentence}{codes}",
        ("bpmn:ServiceTask", "bpmn:Task"),
        properties=[_name_property(verb.sentence), task],
    )


def _make_undo_template() -> Template:
    words = "Undo what this case has done, the newest step first"
    task = _hidden(COMPENSATE, {"type": "zeebe:taskDefinition", "property": "type"})
    return _template(
        "undo", COMPENSATE, words, ("bpmn:ServiceTask", "bpmn:Task"), properties=[_name_property(words), task]
    )


def _gate(gate: Gate, workflow: WorkflowVerb) -> Template:
    whose = f" by {' or '.join(gate.roles)}" if gate.roles else ""
    answers = f" It takes {' or '.join(gate.decisions)}." if gate.decisions else ""
    return _template(
        f"gate.{workflow.name}.{gate.name}",
        f"Gate {gate.name} of {workflow.name}",
        # A template cannot set an element's ID, by which the gate is identified.
        f"A decision{whose}.{answers} Give the task the id {gate.task}.",
        ("bpmn:UserTask", "bpmn:Task"),
        version=workflow.version,
        properties=[_name_property(f"Decide: {gate.name}")],
    )


def _messages(message: str, key: str, workflow: WorkflowVerb) -> Iterator[Template]:
    for short, words, kinds, event in _MESSAGES:
        yield _template(
            f"wait.{short}.{_slug(message)}.{key}",
            words.format(message),
            f"The message {message}, for the case whose key {key} it carries.",
            kinds,
            event=event,
            version=workflow.version,
            properties=[
                _name_property(words.format(message)),
                _hidden(message, {"type": "bpmn:Message#property", "name": "name"}),
                _hidden(f"={key}", {"type": "bpmn:Message#zeebe:subscription#property", "name": "correlationKey"}),
            ],
        )


def _timers(flag: Flag, workflow: WorkflowVerb) -> Iterator[Template]:
    """Yield templates for a flag whose initial value is a time: it is meant for timers."""
    field = next((field for kind, field in _TIMES if is_literal(kind, str(flag.initial))), None)
    if field is None or flag.type is not FlagType.STRING:
        return
    for short, words, kinds in _TIMERS:
        yield _template(
            f"wait.{short}.{flag.name}",
            words.format(flag.name),
            f"The time in the flag {flag.name}; its initial value is {flag.initial}.",
            kinds,
            event=_TIMER,
            version=workflow.version,
            properties=[
                _name_property(words.format(flag.name)),
                _hidden(f"={flag.name}", {"type": f"{_TIMER}#property", "name": field}),
            ],
        )


def _template(
    short: str,
    name: str,
    description: str,
    kinds: tuple[str, ...],
    *,
    properties: list[dict[str, Any]],
    event: str | None = None,
    version: int = 1,
) -> Template:
    """Return a template for the first of some element kinds; it converts elements of the other kinds."""
    element = {"value": kinds[0]} if event is None else {"value": kinds[0], "eventDefinition": event}
    return {
        "$schema": SCHEMA,
        "name": name[:_LONGEST_NAME],
        "id": f"{OWN_TEMPLATES}{short}",
        "description": description,
        "version": version,
        "engines": {"camunda": _ENGINES},
        "category": {"id": "verbworker", "name": "verbworker"},
        "appliesTo": list(kinds),
        "elementType": element,
        "properties": properties,
    }


def _name_property(words: str) -> dict[str, Any]:
    """Return the element's name, which a modeller may change."""
    return {
        "label": "Name",
        "type": "String",
        "value": words[:_LONGEST_NAME],
        "binding": {"type": "property", "name": "name"},
    }


def _hidden(text: str, binding: dict[str, str]) -> dict[str, Any]:
    return {"type": "Hidden", "value": text, "binding": binding}


def _slug(message: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in message)
