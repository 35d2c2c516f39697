"""Engines whose answers get lost: a call is carried out, its caller hears nothing, and the retry meets the original."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pyzeebe.proto import gateway_pb2 as pb

from tests.support.gateway_proxy import GatewayProxy
from tests.support.proxy import Proxy
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Ask, Engine
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.engine.zeebe.rest_client import RestClient
from verbworker.engine.zeebe.transport import Transport
from verbworker.errors import EngineUnavailable, StoreUnavailable, VerbworkerError
from verbworker.job.job import Job
from verbworker.stores.embedded.tokens import Change

Send = Callable[[], Awaitable[Any]]

_RETRY_IS_WAITING_S = 0.3
_GRPC_PREFIX = 5
_JOB_CALLS = ("complete", "fail", "throw")
_JOB_PATHS = {"completion": "complete", "failure": "fail", "error": "throw"}
_PATHS = {
    "/process-instances": "start",
    "process-instances/cancellation": "cancel",
    "messages/publication": "publish",
    "messages/correlation": "correlate",
}
_STARTED = re.compile(rb'"processInstanceKey":"?(\d+)')
_RPCS = {
    "CreateProcessInstance": "start",
    "CompleteJob": "complete",
    "FailJob": "fail",
    "ThrowError": "throw",
    "PublishMessage": "publish",
    "CancelProcessInstance": "cancel",
}


class Arrival(StrEnum):
    """When the engine carries out the call whose answer its caller never gets."""

    BEFORE = "before its retry"
    BESIDE = "beside its retry"
    BEHIND = "behind its retry"
    LAST = "when all is over"


@dataclass(slots=True)
class Loss:
    """One call whose answer is to be lost: of this name and, for a job, of this type."""

    call: str
    arrival: Arrival
    job_type: str = ""
    retried_by: str = ""  # the name of the call that repeats it, where that is another
    land: Send | None = None  # has the original reach the engine
    lost_at: datetime | None = None
    has_landed: bool = False
    retries: int = 0

    @property
    def is_lost(self) -> bool:
        """Whether the call was made and its answer lost."""
        return self.lost_at is not None


@dataclass(slots=True)
class Losses:
    """What gets lost between the workers and their engines, and what those engines handed out."""

    loss: Loss | None = None
    jobs: dict[int, Job] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    _landings: list["asyncio.Task[None]"] = field(default_factory=list)

    def lose(self, loss: Loss) -> None:
        """Lose the answer to the next call like this."""
        self.loss = loss

    @property
    def is_held_back(self) -> bool:
        """Whether a call has lost its answer and has not reached the engine yet."""
        return self.loss is not None and self.loss.is_lost and not self.loss.has_landed

    def instances_of(self, process_id: str) -> set[int]:
        """Every instance of a process that the engine created, twins included.

        A broker that serves several tests hands out what others left behind too: those jobs are not ours to judge.
        """
        return self.started | {job.process_instance_key for job in self.jobs.values() if job.process_id == process_id}

    async def over(self, call: str, job_key: int | None, send: Send, strike: "Strike | None" = None) -> Any:
        """Carry one call to the engine and its answer back, unless it is the one that goes wrong."""
        if (lost := self.lost_now(call, job_key)) is not None:
            return await (strike or _pretend)(lost, send)
        loss = self.loss
        if loss is None or not self._is_meant(loss, call, job_key):
            return await send()
        loss.retries += 1
        try:
            if loss.arrival is Arrival.BESIDE:
                self.land(loss)
            return await send()
        finally:
            if loss.arrival is Arrival.BEHIND:
                self.land(loss)

    def lost_now(self, call: str, job_key: int | None) -> Loss | None:
        """What is to happen to a call that is the first of its kind; None when its answer arrives."""
        loss = self.loss
        if loss is None or loss.is_lost or not self._is_meant(loss, call, job_key):
            return None
        loss.lost_at = datetime.now(UTC)
        return loss

    def _is_meant(self, loss: Loss, call: str, job_key: int | None) -> bool:
        wanted = loss.retried_by if loss.is_lost and loss.retried_by else loss.call
        if call != wanted:
            return False
        return not loss.job_type or (job_key in self.jobs and self.jobs[job_key].type == loss.job_type)

    def land(self, loss: Loss, *, after: float = 0.0) -> None:
        """Have the original of a call reach the engine, unless it did."""
        if loss.land is not None and not loss.has_landed:
            loss.has_landed = True
            self._landings.append(asyncio.create_task(_arrive(loss.land, after)))

    async def settle(self) -> None:
        """Return when nothing is on its way any more; an original that nobody repeated arrives now."""
        if self.loss is not None:
            self.land(self.loss)
        await asyncio.gather(*self._landings)


Strike = Callable[[Loss, Send], Awaitable[Any]]


async def _arrive(land: Send, after: float) -> None:
    await asyncio.sleep(after)
    with suppress(VerbworkerError):  # whatever the engine says to it, nobody is there to hear it
        await land()


async def _pretend(loss: Loss, send: Send) -> None:
    """Lose an answer without a network: the caller is told that the engine is away."""
    if loss.arrival is Arrival.BEFORE:
        await send()
        loss.has_landed = True
    else:
        loss.land = send
    raise EngineUnavailable("the answer was lost")


def listen(engine: Engine, losses: Losses) -> None:
    """Note every job that an engine hands out."""
    activate, stream = engine.activate, engine.stream

    async def noted_activate(ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        jobs = await activate(ask, limit, wait_ms)
        losses.jobs.update({job.key: job for job in jobs})
        return jobs

    async def noted_stream(ask: Ask) -> AsyncGenerator[Job, None]:
        pushed = stream(ask)
        try:
            async for job in pushed:
                losses.jobs[job.key] = job
                yield job
        finally:
            await pushed.aclose()

    vars(engine).update(activate=noted_activate, stream=noted_stream)


def lossy(engine: Engine, losses: Losses) -> None:
    """Have an engine of this process lose answers."""
    listen(engine, losses)

    def over(name: str, call: str) -> None:
        carry_out = getattr(engine, name)

        async def called(*args: Any, **options: Any) -> Any:
            job_key = args[0] if call in _JOB_CALLS else None

            async def send() -> Any:
                answer = await carry_out(*args, **options)
                if call == "start":
                    losses.started |= {one.instance_key for one in (answer if isinstance(answer, list) else [answer])}
                return answer

            return await losses.over(call, job_key, send)

        vars(engine)[name] = called

    for name in ("start", *_JOB_CALLS, "publish", "correlate", "cancel"):
        over(name, name)
    if isinstance(engine, EmbeddedEngine):
        over("start_with", "start")
        _lossy_finishes(engine, losses)


def _lossy_finishes(engine: EmbeddedEngine, losses: Losses) -> None:
    """Lose the answers to statements that complete the jobs of external verbs with their verdicts."""
    finishes = engine._finishes
    finish = finishes.finish

    async def lossy_finish(verdict: Sequence[Any], change: Change) -> Any:
        try:
            return await losses.over("complete", change.guard, lambda: finish(verdict, change))
        except EngineUnavailable as error:
            raise StoreUnavailable(str(error)) from error

    finishes.finish = lossy_finish  # type: ignore[method-assign]  # the network of this test


def lossy_commits(engine: Any, losses: Losses, proxy: Proxy) -> None:
    """Have an engine in our own database lose the answers to the commits that start instances and complete jobs."""
    listen(engine, losses)
    start_with, prepare_completion = engine.start_with, engine.prepare_completion

    async def strike(connection: Any, loss: Loss) -> None:
        # The proxy knows a connection by the port that the server sees.
        port = await connection.fetchval("SELECT inet_client_port()")
        is_late = loss.arrival is not Arrival.BEFORE
        cut = proxy.cut("COMMIT", "late" if is_late else "after", port=port)
        loss.land = cut.land
        if is_late:
            # By time: the retry waits for the rows that the open transaction holds, so it cannot give the sign.
            losses.land(loss, after=_RETRY_IS_WAITING_S)

    async def lossy_start_with(starts: Any, note: Any) -> Any:
        async def noted(connection: Any, started: Any) -> None:
            await note(connection, started)
            if (lost := losses.lost_now("start", None)) is not None:
                await strike(connection, lost)

        return await start_with(starts, noted)

    async def lossy_prepare_completion(job_key: int, result: Any) -> Any:
        return LossyCompletion(await prepare_completion(job_key, result), job_key)

    class LossyCompletion:
        """A completion whose commit may lose its answer."""

        def __init__(self, completion: Any, job_key: int) -> None:
            self._completion = completion
            self._job_key = job_key
            self.end = completion.end
            self.finish = completion.finish

        async def finish_in(self, connection: Any, verdict: Any) -> str:
            answer = await self._completion.finish_in(connection, verdict)
            if answer == "done":
                await self._strike(connection)
            return str(answer)

        async def save_in(self, connection: Any) -> None:
            await self._completion.save_in(connection)
            await self._strike(connection)

        async def _strike(self, connection: Any) -> None:
            if (lost := losses.lost_now("complete", self._job_key)) is not None:
                assert connection.is_in_transaction(), "the verb of this world writes, so a commit follows"
                await strike(connection, lost)

    vars(engine).update(start_with=lossy_start_with, prepare_completion=lossy_prepare_completion)


def lossy_rest(engine: ZeebeEngine, losses: Losses, proxy: GatewayProxy, apart: RestClient) -> None:
    """Have a client that speaks REST alone lose answers: the call that does goes out by `apart`, through the proxy."""
    listen(engine, losses)
    client = engine._rest
    send_rest = client.send

    async def lossy_send(method: str, path: str, content: bytes | None = None, **options: Any) -> Any:
        call, job_key = _rest_call(path)

        async def strike(loss: Loss, _: Send) -> Any:
            cut = proxy.cut(content or b"", is_late=loss.arrival is not Arrival.BEFORE)

            async def land() -> None:
                await cut.land()
                losses.started |= {int(key) for key in _STARTED.findall(cut.answer) if loss.call == "start"}

            loss.land = land
            if loss.arrival is Arrival.BEFORE:
                losses.land(loss)
            answer = await apart.send(method, path, content, **options)
            raise AssertionError(f"the answer to {loss.call} came through: {answer!r}")

        return await losses.over(call, job_key, lambda: send_rest(method, path, content, **options), strike)

    client.send = lossy_send  # type: ignore[method-assign]  # the network of this test


def _rest_call(path: str) -> tuple[str, int | None]:
    """The call that a path stands for, and the job it is about."""
    collection, *rest = path.strip("/").split("/")
    if collection == "jobs" and rest[-1] in _JOB_PATHS:
        return _JOB_PATHS[rest[-1]], int(rest[0])
    return _PATHS.get(path if not rest else f"{collection}/{rest[-1]}", path), None


def lossy_gateway(
    engine: ZeebeEngine, losses: Losses, grpc: GatewayProxy, rest: GatewayProxy, apart: Transport
) -> None:
    """Have a client of a real broker lose answers: the call that loses its answer goes out by the gateway `apart`.

    That one leads through the proxies, and its connection breaks. Where it is the client's own gateway, everything
    else on that connection breaks with it.
    """
    listen(engine, losses)
    gateway, other = engine._gateway, engine._rest
    send_grpc, send_rest, send_apart = gateway.send, other.send, apart.send

    def over(proxy: GatewayProxy, words: bytes, send: Send) -> Strike:
        async def strike(loss: Loss, _: Send) -> Any:
            cut = proxy.cut(words, is_late=loss.arrival is not Arrival.BEFORE)

            async def land() -> None:
                await cut.land()
                if loss.call == "start" and cut.answer:
                    created = pb.CreateProcessInstanceResponse.FromString(cut.answer[_GRPC_PREFIX:])
                    losses.started.add(created.processInstanceKey)

            loss.land = land
            if loss.arrival is Arrival.BEFORE:
                losses.land(loss)
            answer = await send()
            raise AssertionError(f"the answer to {loss.call} came through: {answer!r}")

        return strike

    async def lossy_grpc(rpc: Any, request: Any, **options: Any) -> Any:
        call = _RPCS.get(rpc, rpc)
        job_key = request.jobKey if call in _JOB_CALLS else None
        strike = over(grpc, request.SerializeToString(), lambda: send_apart(rpc, request, **options))
        return await losses.over(call, job_key, lambda: send_grpc(rpc, request, **options), strike)

    async def lossy_rest(method: str, path: str, content: bytes | None = None, **options: Any) -> Any:
        def send() -> Awaitable[Any]:
            return send_rest(method, path, content, **options)

        if content is None:
            return await send()
        return await losses.over("correlate", None, send, over(rest, content, send))

    gateway.send = lossy_grpc  # type: ignore[method-assign]  # the network of this test
    other.send = lossy_rest  # type: ignore[method-assign]
