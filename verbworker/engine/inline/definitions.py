"""The definitions of an inline engine: every version of every process."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from verbworker.engine.embedded.kernel.definition import Definition, compile_models
from verbworker.engine.protocol import Deployed, Resource, Start
from verbworker.errors import CommandInvalid


@dataclass(frozen=True, slots=True)
class InlineDefinition:
    """One version of a process."""

    definition: Definition
    deployed: Deployed
    content: bytes


class InlineDefinitions:
    """Versions by process, the latest last."""

    def __init__(self) -> None:
        self._versions: dict[str, list[InlineDefinition]] = {}
        self._keys = 0

    def put(self, resources: Sequence[Resource]) -> list[Deployed]:
        """Add new definitions, all or none; the same bytes under the same name keep their version."""
        compiled = [(resource, compile_models(resource.content, resource.name)) for resource in resources]
        ids = [definition.process_id for _, definitions in compiled for definition in definitions]
        twice = next((name for name in ids if ids.count(name) > 1), None)
        if twice is not None:
            raise CommandInvalid(f"the process {twice} is in this deployment twice")
        return [self._put(resource, known).deployed for resource, definitions in compiled for known in definitions]

    def find(self, start: Start) -> InlineDefinition:
        """Return the version that a start requests."""
        for versions in self._versions.values():
            for known in versions:
                if start.definition_key is not None and known.deployed.definition_key == start.definition_key:
                    return known
        versions = self._versions.get(start.process_id, [])
        if start.definition_key is None and start.version == -1 and versions:
            return versions[-1]
        for known in versions:
            if start.definition_key is None and known.deployed.version == start.version:
                return known
        raise CommandInvalid(f"no process {start.process_id} is defined")

    def content(self, definition_key: int) -> bytes | None:
        """Return the bytes a definition was deployed with."""
        known = (one for versions in self._versions.values() for one in versions)
        return next((one.content for one in known if one.deployed.definition_key == definition_key), None)

    def latest(self) -> Iterator[InlineDefinition]:
        """Return the latest version of each process."""
        return (versions[-1] for versions in self._versions.values())

    def _put(self, resource: Resource, definition: Definition) -> InlineDefinition:
        versions = self._versions.setdefault(definition.process_id, [])
        last = versions[-1] if versions else None
        if last is not None and (last.content, last.deployed.resource) == (resource.content, resource.name):
            return last
        self._keys += 1
        deployed = Deployed(definition.process_id, len(versions) + 1, self._keys, resource.name)
        versions.append(InlineDefinition(definition, deployed, resource.content))
        return versions[-1]
