"""Upgrades: convert data of an older schema to the current schema of a workflow verb."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from verbworker.errors import ContractInvalid, PermanentContract
from verbworker.payload.envelope import SCHEMA, DomainPayload

Change = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Upgrade:
    """One upgrade step: a pure function from the data of one schema to that of a later one."""

    source: str
    target: str
    change: Change

    @classmethod
    def of(cls, source: str, to: str, change: Change) -> "Upgrade":
        """Return the step from `source` ("kyc.open-case/v1") to the version `to` ("v2"), or raise `ContractInvalid`."""
        target = f"{source.rpartition('/')[0]}/{to}"
        for schema in (source, target):
            if not SCHEMA.fullmatch(schema):
                raise ContractInvalid(
                    f"the upgrade of {source!r} to {to!r}: write it as upgrade('kyc.open-case/v1', to='v2')"
                )
        if _split(target)[1] <= _split(source)[1]:
            raise ContractInvalid(f"the upgrade of {source} leads to {to}; data is never taken back to an older schema")
        if inspect.iscoroutinefunction(change):
            raise ContractInvalid(f"the upgrade of {source} is async; it is a pure function of the data")
        return cls(source, target, change)


class Upgrades:
    """The upgrades of a registry: at most one from each schema."""

    def __init__(self, steps: Iterable[Upgrade] = ()) -> None:
        self._steps: dict[str, Upgrade] = {}
        for step in steps:
            self.add(step)

    def __iter__(self) -> Iterator[Upgrade]:
        return iter(self._steps.values())

    def add(self, step: Upgrade) -> None:
        """Add a step; a second one from the same schema would be ambiguous."""
        if step.source in self._steps:
            raise ContractInvalid(f"there are two upgrades of {step.source}")
        self._steps[step.source] = step

    def check(self, schemas: Iterable[str]) -> None:
        """Raise `ContractInvalid` unless every step leads, directly or through others, to one of `schemas`."""
        current = {_split(schema)[0]: schema for schema in schemas}
        for step in self:
            name, version = _split(step.target)
            goal = current.get(name)
            if goal is None:
                raise ContractInvalid(f"the upgrade of {step.source} belongs to no workflow verb: none has {name} data")
            if version > _split(goal)[1]:
                raise ContractInvalid(f"the upgrade of {step.source} leads to v{version}, but the verb has {goal}")
            if step.target != goal and step.target not in self._steps:
                raise ContractInvalid(f"data of {step.target} can become no {goal}: there is no upgrade of it")

    def bring(self, payload: DomainPayload, schema: str) -> DomainPayload:
        """Upgrade a payload to `schema`; raise `PermanentContract` when there is no path."""
        while payload.schema != schema:
            (name, version), (wanted, goal) = _split(payload.schema), _split(schema)
            if name != wanted or version > goal:
                # An instance may outlive its schema.
                raise PermanentContract(
                    f"the payload has schema {payload.schema!r}; this worker knows {schema}", code="SchemaUnknown"
                )
            step = self._steps.get(payload.schema)
            if step is None or _split(step.target)[1] > goal:
                raise PermanentContract(
                    f"the payload has schema {payload.schema} and the verb has {schema}; there is no upgrade of"
                    f" {payload.schema}",
                    code="SchemaUnsupported",
                )
            payload = payload.under(step.target, _apply(step, payload))
        return payload


def _apply(step: Upgrade, payload: DomainPayload) -> dict[str, Any]:
    try:
        # A copy: the function may modify its input, and other versions are made from the same data.
        return step.change(deepcopy(dict(payload.data)))
    except Exception as error:
        raise PermanentContract(
            f"the upgrade of {step.source} to {step.target} raised {type(error).__name__}", code="UpgradeFailed"
        ) from error


def _split(schema: str) -> tuple[str, int]:
    found = SCHEMA.fullmatch(schema)
    if found is None:
        raise ContractInvalid(f"{schema!r} is not a schema; write it as kyc.open-case/v1")
    return found["verb"], int(found["version"])
