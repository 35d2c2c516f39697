"""Task profiles: what a model's profile promised about each task, as compiled at deployment.

Jobs of such a model carry the digest of their profile, so that an instance keeps the profile it started with, even if
the files change.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from verblint.contracts.templates import Template, TemplateEmpty, TemplateError, TemplateMissingPath, parse
from verbworker.contract.policy import Policy
from verbworker.errors import PermanentContract
from verbworker.job.job import Job
from verbworker.payload.canonical import canonical
from verbworker.profile.mapping import IoMapping

HEADER = "verbworker.terms"
"""The header in which a job names its profile; it is woven in when a model is deployed."""

LONGEST_KEY = 255  # characters; what providers accept as an idempotency key
_STEP_INSTANCE = "step_instance_id"


@dataclass(frozen=True, slots=True)
class TaskProfile:
    """The profile of one task. None leaves a field to the runtime's own rules."""

    policy: Policy | None = None
    key: Template | None = None
    mapping: IoMapping | None = None
    keys: Mapping[str, Template] = field(default_factory=dict)
    ripe_keys: Mapping[str, Template] = field(default_factory=dict)

    @property
    def counts_steps(self) -> bool:
        """Whether its idempotency key distinguishes repeated visits of the step."""
        return self.key is not None and any(place.name == _STEP_INSTANCE for place in self.key.placeholders)

    def idempotency_key(self, job: Job, state: Mapping[str, Any], *, visit: int) -> str | None:
        """Return the external key, or None if the task leaves it to the runtime; raises `PermanentContract`."""
        if self.key is None:
            return None
        made = evaluate(self.key, state, variables(job, visit), "the idempotency key")
        if len(made) > LONGEST_KEY:
            raise PermanentContract(f"the idempotency key is longer than {LONGEST_KEY} characters", code="KeyTooLong")
        return made

    def correlation(self, state: Mapping[str, Any]) -> dict[str, str]:
        """Return the keys of the next waits; raises `PermanentContract` if a required one cannot be made."""
        made = {name: evaluate(template, state, {}, f"the key {name}") for name, template in self.keys.items()}
        for name, template in self.ripe_keys.items():
            # Another branch has not written it yet; the last branch will have it.
            with suppress(TemplateMissingPath, TemplateEmpty):
                if (key := template.evaluate(state, {})).strip():
                    made[name] = key
        return made


NO_TASK_PROFILE = TaskProfile()


@dataclass(frozen=True, slots=True)
class ProcessProfile:
    """The task profiles of one process definition, by task id."""

    digest: str
    definition_id: str
    tasks: Mapping[str, TaskProfile]

    @classmethod
    def of(cls, digest: str, ir: Mapping[str, Any], policies: Mapping[str, Any]) -> "ProcessProfile":
        """Build the profile from a compiled process."""
        # Through JSON, where pydantic's strict mode accepts a list for a tuple.
        resolved = {
            name: Policy.model_validate_json(canonical({"name": name, **fields})) for name, fields in policies.items()
        }
        templates = {
            message["key"]: _parse(message["template"])
            for message in ir["messages"]
            if "key" in message and "template" in message
        }
        tasks = {node["id"]: _task(node, resolved, templates) for node in ir["nodes"] if "task" in node}
        return cls(digest, ir["process"]["definition_id"], tasks)

    def task(self, element_id: str) -> TaskProfile:
        """Return the profile of a task; a task without one gets `NO_TASK_PROFILE`."""
        return self.tasks.get(element_id, NO_TASK_PROFILE)


def variables(job: Job, visit: int) -> dict[str, str]:
    """Return the run's values that a template may use."""
    return {
        "process_instance_id": str(job.process_instance_key),
        "process_run_id": str(job.process_definition_key),
        "step_id": job.element_id,
        _STEP_INSTANCE: f"{job.element_id}/{visit}",
    }


def evaluate(template: Template, state: Mapping[str, Any], known: Mapping[str, str], what: str) -> str:
    """Evaluate a template; raises `PermanentContract` with the profile's own error codes."""
    try:
        made = template.evaluate(state, known)
    except TemplateMissingPath as error:
        raise PermanentContract(f"{what} cannot be made: {error}", code="AmeideTemplateMissingPath") from None
    except TemplateEmpty:
        raise PermanentContract(f"{what} came out empty", code="AmeideTemplateEmpty") from None
    if not made.strip():
        # The profile's language accepts spaces. As a key they would join unrelated cases.
        raise PermanentContract(f"{what} came out blank", code="AmeideTemplateEmpty")
    return made


def _task(node: Mapping[str, Any], policies: Mapping[str, Policy], templates: Mapping[str, Template]) -> TaskProfile:
    task, mapping = node["task"], node.get("mapping")
    return TaskProfile(
        policy=policies.get(task.get("policy", "")),
        key=_parse(task["idempotency_key_template"]) if "idempotency_key_template" in task else None,
        mapping=None if mapping is None else IoMapping.of(tuple(step) for step in mapping),
        keys=_pick(node.get("keys", ()), templates),
        ripe_keys=_pick(node.get("ripe_keys", ()), templates),
    )


def _pick(names: Iterable[str], templates: Mapping[str, Template]) -> dict[str, Template]:
    return {name: templates[name] for name in names if name in templates}


def _parse(text: str) -> Template:
    try:
        return parse(text)
    except TemplateError as error:
        raise PermanentContract(f"{text!a} is no template: {error.message}", code="TermsInvalid") from error
