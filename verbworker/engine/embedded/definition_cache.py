"""Definitions that this process has used, each compiled once."""

from collections.abc import Sequence
from dataclasses import dataclass

from verbworker.engine.embedded.kernel.definition import Definition, compile_models
from verbworker.engine.protocol import Deployed, Resource
from verbworker.errors import CommandInvalid, EngineError
from verbworker.stores.database import Connection, Database
from verbworker.stores.embedded.tokens import Tokens


@dataclass(frozen=True, slots=True)
class CompiledVersion:
    """A compiled definition and its version."""

    definition: Definition
    version: int


class DefinitionCache:
    """Deploys definitions and caches those in use. A key's definition never changes, so no entry becomes stale."""

    def __init__(self, database: Database, tokens: Tokens) -> None:
        self._database = database
        self._tokens = tokens
        self._compiled: dict[int, CompiledVersion] = {}

    async def find(self, definition_key: int, connection: Connection | None = None) -> CompiledVersion:
        """Return a key's definition. Callers with a connection pass it: waiting for a second one could block."""
        compiled = self._compiled.get(definition_key)
        if compiled is None:
            compiled = self._compiled[definition_key] = await self._read(definition_key, connection or self._database)
        return compiled

    async def deploy(self, resources: Sequence[Resource]) -> list[Deployed]:
        """Deploy models together, all or none; refuses what the kernel cannot execute."""
        if not resources:
            raise CommandInvalid("there must be at least one resource to deploy")
        found = [(resource, one) for resource in resources for one in compile_models(resource.content, resource.name)]
        ids = [one.process_id for _, one in found]
        if twice := next((known for known in ids if ids.count(known) > 1), None):
            raise CommandInvalid(f"the process {twice} is in this deployment more than once")
        deployed = []
        async with self._database.transaction() as connection:
            await self._tokens.lock_deployments(connection)
            for resource, one in found:
                model = await self._tokens.deploy(connection, one.process_id, resource.name, resource.content)
                starts = [(element, wait.name) for element, wait in one.message_starts.items()]
                await self._tokens.start_by(connection, model, starts)
                deployed.append(Deployed(one.process_id, model.version, model.definition_key, resource.name))
        return deployed

    async def content(self, definition_key: int) -> bytes | None:
        """Return the bytes a definition was deployed with."""
        model = await self._tokens.model(self._database, definition_key)
        return None if model is None else model.content

    async def _read(self, definition_key: int, connection: Connection | Database) -> CompiledVersion:
        model = await self._tokens.model(connection, definition_key)
        if model is None:
            raise EngineError(f"there is no definition with the key {definition_key}")
        compiled = {one.process_id: one for one in compile_models(model.content, model.resource)}
        return CompiledVersion(compiled[model.process_id], model.version)
