"""Run the work of one command with an open client."""

import getpass
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from verbworker.app.output import run
from verbworker.app.settings import Settings
from verbworker.client.resources import Resources, open_resources
from verbworker.contract.person import Person

if TYPE_CHECKING:
    from verbworker.client.client import Client
    from verbworker.contract.registry import Registry

T = TypeVar("T")


def run_with_client(
    settings: Settings,
    work: "Callable[[Client], Awaitable[T]]",
    registry: "Registry | None" = None,
    *,
    by: str | None = None,
) -> T:
    """Run work that programs can do too, with their client."""
    from verbworker.client.client import Client

    async def open_and_work() -> T:
        async with Client(settings, registry, by=by) as client:
            return await work(client)

    return run(open_and_work())


def run_with_resources(settings: Settings, work: Callable[[Resources], Awaitable[T]], *, changes: bool = False) -> T:
    """Run an operator's work on the database and the engine; one that `changes` something needs a role for that."""
    if changes:
        Person(getpass.getuser(), settings.roles).require_change()

    async def open_and_work() -> T:
        async with open_resources(settings) as resources:
            return await work(resources)

    return run(open_and_work())
