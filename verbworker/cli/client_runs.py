"""Run the work of one command with an open client."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from verbworker.app.output import run
from verbworker.app.settings import Settings
from verbworker.client.resources import Resources, open_resources

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


def run_with_resources(settings: Settings, work: Callable[[Resources], Awaitable[T]]) -> T:
    """Run an operator's work on the database and the engine."""

    async def open_and_work() -> T:
        async with open_resources(settings) as resources:
            return await work(resources)

    return run(open_and_work())
