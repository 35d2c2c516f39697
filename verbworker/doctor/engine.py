"""Checks of the engine: access, the features of its version, and its clock."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from datetime import timedelta

from verbworker.app.selfcheck import NOBODY
from verbworker.app.wiring import has_rest_address
from verbworker.doctor.check_result import CheckResult, ok, warn, wrong
from verbworker.doctor.database import judge_clock
from verbworker.doctor.subject import Subject
from verbworker.engine.known_faults import lost_timeouts, version_number
from verbworker.engine.protocol import Ask, ChoosesTransport, EngineOffers, KnowsOffers, Offer, TellsTime
from verbworker.errors import EngineError
from verbworker.stores.checkup import Checkup

_LISTENERS = (8, 6)  # the first version that runs execution listeners, which woven models need
_MAINTAINED = (8, 8)  # the first one that Camunda still fixes; `_ENDED` has the dates of those before
_CANCEL_LISTENERS = (8, 10)  # the first one that reports the cancellation of an instance by a job
_ENDED = {(8, 6): "14 April 2026", (8, 7): "13 October 2026"}
_LISTENING = 0.5  # seconds; an engine or a proxy that refuses streams answers in one round trip
_TO_THE_SECOND = timedelta(seconds=1)  # people read no more digits
_NO_REST = "set ZEEBE_REST_ADDRESS to the cluster's REST API"
_REST_AWAY = "check that ZEEBE_REST_ADDRESS is the cluster's REST API, and that it can be reached"
_OFF = {
    "gRPC": "pushed jobs (they are polled)",
    "REST": "decisions at the cluster's own user tasks, correlation with an answer, the engine's clock",
    "search": "incidents, cancellations and user tasks that only the cluster knows",
}
_REFUSED = (
    "report it with the cluster's version; until then what is found is filtered here, which takes longer. After a 403,"
    " give the client the permission READ_PROCESS_INSTANCE"
)
_NO_STREAM = "allow HTTP/2 streams of 15 seconds in proxies, or set VERBWORKER_STREAMING=false"


async def name(subject: Subject) -> Sequence[CheckResult]:
    """Report the engine's own name, under which everything it does is stored."""
    return [ok("engine id", f"{subject.settings.cluster()} ({subject.settings.engine})")]


async def reach(subject: Subject) -> Sequence[CheckResult]:
    """Check that the engine answers and lets us activate jobs."""
    engine = await subject.engine()
    facts = await engine.facts()
    await engine.activate(_unused_type(subject), 1, 0)
    is_cluster = subject.settings.engine != "embedded"
    size = f", {facts.brokers} broker(s), {facts.partitions} partition(s)" if is_cluster else ""
    return [ok("engine", f"{engine.engine_id} answers and grants access{size}")]


async def version(subject: Subject) -> Sequence[CheckResult]:
    """Report the engine's version and which of the features we use it has."""
    check, facts = "engine version", await (await subject.engine()).facts()
    if subject.settings.engine == "embedded":
        return [ok(check, f"{facts.version}, in the worker's database, with its own listeners")]
    found = version_number(facts.version)
    if found is None:
        fix = "compare it with the versions in the README"
        return [warn(check, f"the gateway reports the unknown version {facts.version!r}", fix)]
    number = found[:2]
    if number < _LISTENERS:
        words = f"Zeebe {facts.version} has no execution listeners, so it rejects every model"
        return [wrong(check, words, "upgrade the cluster to 8.8 or newer")]
    features = f"Zeebe {facts.version}: execution listeners yes, {_describe_cancel(subject, number)}"
    if number < _MAINTAINED:
        ended = _ENDED[number]
        aged = warn(check, f"{features}; not maintained since {ended}", "upgrade the cluster to 8.8 or newer")
        return [aged, *_faults(facts.version)]
    return [ok(check, features), *_faults(facts.version)]


def _faults(version: str) -> Sequence[CheckResult]:
    """Return a line for the known fault of this version."""
    fault, check = lost_timeouts(version), "engine timeouts"
    if fault is None:
        return []
    return [warn(check, fault.words, fault.fix) if fault.is_certain else ok(check, f"{fault.words}; {fault.fix}")]


def _describe_cancel(subject: Subject, number: tuple[int, int]) -> str:
    if number >= _CANCEL_LISTENERS:
        return "cancel listeners yes"
    after = subject.settings.reconcile_after
    return f"cancel listeners no (cancellations in the cluster are found within {after})"


async def apis(subject: Subject) -> Sequence[CheckResult]:
    """Report which of its APIs a cluster offers, and what is off without the others."""
    engine = await subject.engine()
    if not isinstance(engine, KnowsOffers):
        return []
    check, offers = "engine APIs", await engine.offers()
    found = ", ".join(_offer(name, offer) for name, offer in _apis(offers))
    off = "; ".join(f"off: {_OFF[name]}" for name, offer in _apis(offers) if not offer.is_there)
    words = f"{found}; {off}" if off else found
    if offers.refused_searches:
        return [warn(check, f"{words}; refused: {'; '.join(offers.refused_searches)}", _REFUSED)]
    # A cluster may well have no gRPC or no search; REST every supported one has, so only its address is missing.
    if offers.rest.is_there:
        return [ok(check, words)]
    return [warn(check, words, _REST_AWAY if has_rest_address() else _NO_REST)]


def _apis(offers: EngineOffers) -> Sequence[tuple[str, Offer]]:
    return [("gRPC", offers.grpc), ("REST", offers.rest), ("search", offers.search)]


def _offer(name: str, offer: Offer) -> str:
    answer = "unknown" if offer.is_there is None else "yes" if offer.is_there else "no"
    return f"{name} {answer} ({offer.reason})" if offer.reason else f"{name} {answer}"


async def streaming(subject: Subject) -> Sequence[CheckResult]:
    """Check that jobs can be pushed, with a stream for an unused job type."""
    if not subject.settings.streaming:
        return [ok("streaming", "off by VERBWORKER_STREAMING; jobs are polled")]
    engine = await subject.engine()
    # Not by its offers: looking for those takes long where searches hang.
    if isinstance(engine, ChoosesTransport) and not engine.pushes_jobs:
        return [ok("streaming", "REST has no streams; jobs are polled")]
    try:
        async with asyncio.timeout(_LISTENING), aclosing(engine.stream(_unused_type(subject))) as pushed:
            async for _ in pushed:
                break
    except TimeoutError:
        # A working stream stays open and sends nothing.
        return [ok("streaming", "the engine keeps a stream open")]
    except EngineError as error:
        return [warn("streaming", f"no stream can be opened: {error}", _NO_STREAM)]
    return [warn("streaming", "the engine ended the stream immediately", _NO_STREAM)]


async def clock(subject: Subject) -> Sequence[CheckResult]:
    """Compare the engine's clock with this machine's, if the engine reports it."""
    check, lease = "engine clock", subject.settings.lease
    if subject.settings.engine == "embedded":
        ahead = await Checkup(await subject.database()).engine_ahead()
        if abs(ahead) < _TO_THE_SECOND:
            return [ok(check, "it is the database's")]
        fix = "restore verbworker_engine.now() from its migration"
        return [wrong(check, f"it was changed: it is {ahead.total_seconds():.0f} s from the database's", fix)]
    engine = await subject.engine()
    before = time.time()
    there = await engine.now() if isinstance(engine, TellsTime) else None
    if there is None:
        return [_explain_no_clock(check)]
    middle, doubt = (before + time.time()) / 2, (time.time() - before) / 2
    # Reported without fractions, so on average half a second is missing.
    ahead = timedelta(seconds=there.timestamp() + 0.5 - middle)
    return [judge_clock(check, "the engine's", ahead, timedelta(seconds=doubt) + _TO_THE_SECOND, lease)]


def _explain_no_clock(check: str) -> CheckResult:
    if has_rest_address():
        fix = "check ZEEBE_REST_ADDRESS, and that proxies on the way keep the header Date"
        return warn(check, "unknown: what answers over REST sends no date", fix)
    return warn(check, "unknown: the gateway reports it over REST only", "set ZEEBE_REST_ADDRESS")


def _unused_type(subject: Subject) -> Ask:
    settings = subject.settings
    return Ask(NOBODY, settings.worker_name, 1000, (), settings.tenant_ids)
