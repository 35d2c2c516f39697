"""Stages: one engine each, with the few things a scenario does that no worker may, such as moving the clock."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import grpc
from pyzeebe.proto import gateway_pb2 as pb

from tests.support.client import DEADLINE, Client, connected
from tests.support.connections import connection_to
from tests.support.embedded import EmbeddedPlace, EmbeddedStage, embedded
from tests.support.engines import Gateway, RestPlace
from verbworker.engine.inline import InlineEngine
from verbworker.engine.protocol import Engine, Signal
from verbworker.engine.zeebe.engine import ZeebeEngine

_KEYS_A_SCENARIO_USES = 400
_KEYS_AT_ONCE = 20
_ROUND_TRIPS = 2
_NOTHING = Signal("nothing", "nobody", "", 0, {})


class Stage(Protocol):
    """An engine, its clock and its operator."""

    @property
    def engine(self) -> Engine:
        """The engine as a worker sees it."""

    async def advance(self, seconds: float) -> None:
        """Let time pass."""

    async def set_variables(self, instance_key: int, variables: Mapping[str, object]) -> None:
        """Change an instance's variables, as an operator does."""

    async def resolve(self, instance_key: int) -> bool:
        """Resolve the incidents of an instance; whether there was any."""

    async def incidents(self, instance_key: int) -> list[str] | None:
        """The kinds of an instance's incidents, or None where the engine tells nobody."""

    async def settle(self, instance_key: int) -> None:
        """Return when the engine has done what it was told so far."""


class InlineStage:
    """The engine in memory: everything is there at once."""

    def __init__(self) -> None:
        self.engine = InlineEngine()

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.engine.advance(seconds)

    async def set_variables(self, instance_key: int, variables: Mapping[str, object]) -> None:
        """Change an instance's variables."""
        self.engine.set_variables(instance_key, variables)

    async def resolve(self, instance_key: int) -> bool:
        """Resolve what there is."""
        incidents = await self.engine.incidents([instance_key])
        for incident in incidents:
            await self.engine.resolve_incident(incident.incident_key)
        return bool(incidents)

    async def incidents(self, instance_key: int) -> list[str] | None:
        """The kinds of an instance's incidents."""
        return sorted(incident.kind for incident in await self.engine.incidents([instance_key]))

    async def settle(self, instance_key: int) -> None:
        """Nothing is ever under way here."""


class ZeebeStage:
    """A real Zeebe: its clock is moved from outside, and incidents are found by trying keys."""

    def __init__(self, gateway: Gateway, engine: ZeebeEngine, client: Client) -> None:
        self.engine = engine
        self._gateway = gateway
        self._client = client

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.to_thread(self._gateway.advance, seconds)

    async def set_variables(self, instance_key: int, variables: Mapping[str, object]) -> None:
        """Change an instance's variables."""
        request = pb.SetVariablesRequest(elementInstanceKey=instance_key, variables=json.dumps(dict(variables)))
        await self._client.stub.SetVariables(request, timeout=DEADLINE)

    async def resolve(self, instance_key: int) -> bool:
        """Try the keys after the instance's: gRPC tells nobody which of them is an incident."""
        keys = range(instance_key, instance_key + _KEYS_A_SCENARIO_USES)
        for first in keys[::_KEYS_AT_ONCE]:
            if any(await asyncio.gather(*(self._resolve(first + more) for more in range(_KEYS_AT_ONCE)))):
                return True
        return False

    async def _resolve(self, key: int) -> bool:
        request: Any = pb.ResolveIncidentRequest(incidentKey=key)
        try:
            await self._client.stub.ResolveIncident(request, timeout=DEADLINE)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return False
            raise
        return True

    async def incidents(self, instance_key: int) -> list[str] | None:
        """Told to nobody."""
        return None

    async def settle(self, instance_key: int) -> None:
        """Some messages for nobody: each is carried out after everything before it."""
        for _ in range(_ROUND_TRIPS):
            await self.engine.publish(_NOTHING)


@asynccontextmanager
async def embedded_stage(dsn: str) -> AsyncIterator[EmbeddedStage]:
    """A stage on a database."""
    async with embedded(dsn) as engine:
        yield EmbeddedStage(engine, EmbeddedPlace(dsn))


@asynccontextmanager
async def zeebe_stage(gateway: Gateway) -> AsyncIterator[ZeebeStage]:
    """A stage on a running gateway."""
    rest = getattr(gateway, "rest_address", None)
    connection = connection_to(gateway.address, **({"rest_url": f"http://{rest}"} if rest else {}))
    # What a person does in such a cluster goes by gRPC: only the engine under test has REST alone.
    beside = gateway.broker.address if isinstance(gateway, RestPlace) else gateway.address
    async with ZeebeEngine(connection, engine_id="scenarios") as engine, connected(beside) as client:
        yield ZeebeStage(gateway, engine, client)
