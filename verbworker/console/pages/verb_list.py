"""The verbs of a registry in a form that can be shown and passed to another process."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from verbworker.contract.registry import Registry
from verbworker.contract.verb import Verb
from verbworker.contract.workflow import WorkflowVerb


@dataclass(frozen=True, slots=True)
class ListedVerb:
    """One verb as people see it."""

    name: str
    strategy: str
    sentence: str
    facts: dict[str, str] = field(default_factory=dict)
    args: list[dict[str, str]] = field(default_factory=list)
    sub_verbs: list[str] = field(default_factory=list)
    schema: dict[str, Any] | None = None


def cards(registry: Registry) -> list[ListedVerb]:
    """Return all verbs, sorted by name."""
    found = [_direct(verb) for verb in registry] + [_workflow(verb) for verb in registry.workflows.values()]
    return sorted(found, key=lambda card: card.name)


def write(registry: Registry, place: Path) -> None:
    """Write the verbs to a file for another process to read."""
    fresh = place.with_suffix(".new")
    fresh.write_text(json.dumps([asdict(card) for card in cards(registry)]), encoding="utf-8")
    fresh.replace(place)


def reader(place: Path) -> Callable[[], list[ListedVerb] | None]:
    """Return a function that reads what the other process wrote last; it returns None while there is nothing."""

    def read() -> list[ListedVerb] | None:
        try:
            return [ListedVerb(**card) for card in json.loads(place.read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError):
            return None

    return read


def _direct(verb: Verb) -> ListedVerb:
    writes = "any field it returns" if verb.writes is None else ", ".join(verb.writes) or "nothing"
    facts = {"mode": verb.mode.value, "writes": writes, "policy": verb.policy or "default"}
    if verb.errors is not None:
        facts["errors"] = ", ".join(verb.errors) or "none"
    return ListedVerb(verb.name, "direct", verb.sentence, facts, schema=verb.model.model_json_schema())


def _workflow(verb: WorkflowVerb) -> ListedVerb:
    clarify = {} if verb.sentences is None else verb.sentences.clarify
    sentence = verb.summary or ("" if verb.sentences is None else verb.sentences.step)
    facts = {"version": str(verb.version), "process": verb.process, "payload schema": verb.schema}
    if verb.sentences is not None:
        facts["said as"] = verb.sentences.step
    if verb.owner:
        facts["owner"] = verb.owner
    if verb.messages:
        facts["messages"] = ", ".join(verb.messages)
    facts |= {f"gate {gate.name}": ", ".join(gate.decisions) or "any word" for gate in verb.gates.values()}
    args = [
        {
            "name": name,
            "type": argument.type if not argument.values else f"one of {', '.join(argument.values)}",
            "required": "yes" if argument.required else "no",
            "summary": argument.summary or "",
            "question": clarify.get(name, ""),
        }
        for name, argument in verb.args.items()
    ]
    return ListedVerb(verb.name, "workflow", sentence, facts, args, list(verb.sub_verbs))
