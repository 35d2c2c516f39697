"""The subject of the checks: resources opened on first use and closed at the end."""

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Self

from verbworker.app.settings import Settings
from verbworker.app.wiring import choose_engine, load_app
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Engine
from verbworker.errors import VerbworkerError
from verbworker.stores.database import Database


class Subject:
    """A worker's settings, and its database, engine, verbs and models."""

    def __init__(self, settings: Settings, *, app: str | None, models: Sequence[str]) -> None:
        self.settings = settings
        self.app = app
        self.models = tuple(models)
        self._stack = AsyncExitStack()
        self._database: Database | None = None
        self._chosen: Engine | None = None
        self._engine: Engine | None = None
        self._registry: Registry | None = None

    async def database(self) -> Database:
        """Return the open database; raises `StoreUnavailable`."""
        if self._database is None:
            opening = Database(self.settings.database(), size=2, name="doctor")
            self._database = await self._stack.enter_async_context(opening)
        return self._database

    async def engine(self) -> Engine:
        """Return the open engine."""
        if self._engine is None:
            self._engine = await self._stack.enter_async_context(self._chosen or self._choose())
        return self._engine

    def registry(self) -> Registry | None:
        """Return the application's verbs, or None if no application was named."""
        if self._registry is None and self.app is not None:
            self._registry = load_app(self.app)
        return self._registry

    def _choose(self) -> Engine:
        return choose_engine(self.settings, is_working=False)

    async def __aenter__(self) -> Self:
        """Load the engine's client: on a busy machine its import takes seconds, which are not the engine's."""
        with suppress(VerbworkerError):  # a check that needs the engine reports it
            self._chosen = self._choose()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close what was opened."""
        await self._stack.aclose()
