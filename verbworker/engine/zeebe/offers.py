"""Which APIs a cluster offers: gRPC, REST, and search, which needs a secondary storage."""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from pyzeebe.proto import gateway_pb2 as pb

from verbworker.engine.protocol import EngineOffers, Offer
from verbworker.engine.zeebe.auth import Access
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.gateway import Gateway
from verbworker.engine.zeebe.rest_client import RestClient
from verbworker.engine.zeebe.rest_status import read_answer
from verbworker.engine.zeebe.search import Search
from verbworker.errors import AccessDenied, EngineError

_LOOK_S: Final = 5.0  # an API that is there answers in milliseconds, a busy gateway for the first time in seconds
_KEEP_S: Final = 300.0  # an operator who adds an API does not wait longer for us to find it
_KEEP_DOUBT_S: Final = 30.0  # while something did not answer
_SEARCH: Final = "/process-instances/search"
_NO_SEARCH: Final = (403, 404, 405)  # without a secondary storage, by version


@dataclass(frozen=True, slots=True)
class _Known:
    offers: EngineOffers
    until: float


class ClusterOffers:
    """Looks at a cluster's APIs when asked, and keeps the answer for a while."""

    def __init__(self, connection: GatewayAddress, access: Access, client: RestClient) -> None:
        self._connection = connection
        self._access = access
        self._client = client
        self._known: _Known | None = None
        self._lock = asyncio.Lock()

    async def look(self, *, pushes_jobs: bool) -> EngineOffers:
        """Return what the cluster offers; a few short requests, none while the last answer is kept."""
        clock = asyncio.get_running_loop().time
        async with self._lock:
            if self._known is None or clock() >= self._known.until:
                grpc, rest, search = await asyncio.gather(self._grpc(), self._rest(), self._search())
                if not rest.is_there:
                    search = Offer(rest.is_there, "it needs REST")
                is_sure = None not in (grpc.is_there, rest.is_there, search.is_there)
                keep = _KEEP_S if is_sure else _KEEP_DOUBT_S
                refused = await self._refused_searches() if search.is_there else ()
                self._known = _Known(EngineOffers(grpc, rest, search, pushes_jobs, refused), clock() + keep)
            return replace(self._known.offers, pushes_jobs=pushes_jobs)

    async def _grpc(self) -> Offer:
        if self._connection.transport == "rest":
            return Offer(None, "not asked, because ZEEBE_TRANSPORT is rest")
        # A channel of its own: the engine's may be in the long pause after a refused connection.
        gateway = Gateway(self._connection, self._access)
        await gateway.open()
        try:
            await gateway.send("Topology", pb.TopologyRequest(), timeout_s=_LOOK_S)
        except AccessDenied as denied:
            return Offer(True, str(denied))
        except EngineError as error:
            return Offer(False, str(error))
        finally:
            await gateway.close()
        return Offer(True)

    async def _rest(self) -> Offer:
        if not self._client.has_address:
            return Offer(False, "ZEEBE_REST_ADDRESS is not set")
        try:
            await self._client.call("GET", "/topology", what="the check of REST", timeout_s=_LOOK_S)
        except AccessDenied as denied:
            return Offer(True, str(denied))
        except EngineError as error:
            return Offer(False, str(error))
        return Offer(True)

    async def _refused_searches(self) -> tuple[str, ...]:
        try:
            return tuple(await Search(self._client).refusals())
        except EngineError:
            return ()  # it answered just now; the next look tells

    async def _search(self) -> Offer:
        if not self._client.has_address:
            return Offer(False)
        try:
            reply = await self._client.send("POST", _SEARCH, b'{"page":{"limit":1}}', timeout_s=_LOOK_S)
        except EngineError as error:
            return Offer(None, str(error))
        if reply.status == 200:
            return Offer(True)
        answer = read_answer(reply.status, reply.json(), _SEARCH)
        return Offer(False if reply.status in _NO_SEARCH else None, f"{reply.status} {answer.reason}")
