"""Start instances: find the definition, allocate a key, and move the first tokens."""

from verbworker.engine.embedded.activation import DEFAULT_TENANT
from verbworker.engine.embedded.definition_cache import DefinitionCache
from verbworker.engine.embedded.instance_step import InstanceStep, to_plain_json
from verbworker.engine.embedded.kernel import commands as told
from verbworker.engine.embedded.kernel.commands import NothingThere
from verbworker.engine.protocol import Start, Started
from verbworker.errors import CommandInvalid
from verbworker.stores.database import Database
from verbworker.stores.embedded.tokens import Opening, Tokens, new_instance


class Starts:
    """Creates instances. Nothing is stored before the first step is saved."""

    def __init__(self, database: Database, tokens: Tokens, library: DefinitionCache) -> None:
        self._database = database
        self._tokens = tokens
        self._library = library

    async def open(self, start: Start) -> Opening:
        """Allocate a key for an instance of the requested definition; raises `CommandInvalid`."""
        if start.definition_key is not None:
            opening = await self._tokens.open_key(self._database, start.definition_key)
            wanted = f"key '{start.definition_key}'"
        elif start.version >= 0:
            opening = await self._tokens.open_version(start.process_id, start.version)
            wanted = f"process ID '{start.process_id}' and version '{start.version}'"
        else:
            opening = await self._tokens.open_latest(start.process_id)
            wanted = f"process ID '{start.process_id}'"
        if opening is None:
            raise CommandInvalid(f"expected to find a process definition with {wanted}, but none found")
        return opening

    async def begin(self, start: Start, opening: Opening) -> InstanceStep:
        """Return the step that starts the instance; raises `CommandInvalid`."""
        book = await self._library.find(opening.definition_key)
        if not book.definition.root.starts:
            raise CommandInvalid(f"the process {opening.process_id} has no none start event; a message starts it")
        turn = InstanceStep(book.definition, new_instance(opening, start.tenant_id or DEFAULT_TENANT))
        try:
            turn.tell(told.Begin(to_plain_json(start.variables)), opening.now)
        except NothingThere as error:
            raise CommandInvalid(f"the process {opening.process_id} cannot be started: {error}") from error
        return turn


def answer(opening: Opening) -> Started:
    """Return the answer for the caller of a start."""
    return Started(opening.instance_key, opening.definition_key, opening.process_id, opening.version)
