"""The real engines a test run uses: each started when first asked for, shared by the session."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pytest

from tests.support.engine_versions import VERSIONS, VersionEngine, built
from tests.support.errors import Broken, Unavailable
from tests.support.java import find_java
from tests.support.zeebe import Broker, prepare

ENGINES = ("inline", "embedded", "zeebe", "zeebe-rest", "zeebe-8.8", "zeebe-8.9")
GATEWAYS = ("zeebe", "zeebe-8.8", "zeebe-8.9")
# The newest engine belongs to every run, the one in between to the long form.
MARKS = {
    "zeebe": (pytest.mark.zeebe,),
    "zeebe-rest": (pytest.mark.zeebe,),
    "zeebe-8.8": (pytest.mark.versions, pytest.mark.long),
    "zeebe-8.9": (pytest.mark.versions,),
}


class Gateway(Protocol):
    """An engine that speaks Zeebe's gRPC."""

    @property
    def address(self) -> str:
        """host:port of the gRPC gateway."""

    def advance(self, seconds: float) -> None:
        """Move the engine's clock forward."""

    def stop(self, *, keep_log: bool = False) -> None:
        """End the engine."""


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """The broker VERBWORKER_TEST_ZEEBE names: used, never stopped."""

    address: str

    def advance(self, seconds: float) -> None:
        """Refused: the clock may be shared with others."""
        raise Unavailable("VERBWORKER_TEST_ZEEBE names a broker whose clock is not ours to move")

    def stop(self, *, keep_log: bool = False) -> None:
        """Leave it running."""


@dataclass(frozen=True, slots=True)
class RestPlace:
    """A broker as a cluster that offers REST alone; its address has a scheme that `connections.connection_to` reads."""

    broker: Gateway

    @property
    def address(self) -> str:
        """rest://host:port of REST v2."""
        if not isinstance(self.broker, Broker):
            raise Unavailable("only a broker of our own has a REST address that is known here")
        return f"rest://{self.broker.rest_address}"

    def advance(self, seconds: float) -> None:
        """Move the broker's clock forward."""
        self.broker.advance(seconds)

    def stop(self, *, keep_log: bool = False) -> None:
        """The broker is stopped by itself."""


class Engines:
    """What has been started so far, and why anything could not be."""

    def __init__(self) -> None:
        self._started: dict[str, Gateway] = {}
        self._refused: dict[str, Unavailable | Broken] = {}

    def gateway(self, name: str) -> Gateway:
        """The engine of this name, started now or before; the same refusal each time if it cannot be."""
        if name == "zeebe-rest":
            return RestPlace(self.gateway("zeebe"))
        if name in self._refused:
            raise self._refused[name]
        if name not in self._started:
            try:
                self._started[name] = _STARTS[name]()
            except (Unavailable, Broken) as reason:
                self._refused[name] = reason
                raise
        return self._started[name]

    def stop(self, *, keep_logs: bool) -> None:
        """End everything that was started."""
        while self._started:
            self._started.popitem()[1].stop(keep_log=keep_logs)


def make_ready(name: str) -> None:
    """Fetch and build what an engine needs, so that starting it takes seconds."""
    if name in ("zeebe", "zeebe-rest"):
        prepare()
    elif name in GATEWAYS:
        built(VERSIONS[name.removeprefix("zeebe-")], find_java())


def _zeebe() -> Gateway:
    address = os.environ.get("VERBWORKER_TEST_ZEEBE")
    return RunningBroker(address) if address else Broker().start()


_STARTS: dict[str, Callable[[], Gateway]] = {
    "zeebe": _zeebe,
    "zeebe-8.8": lambda: VersionEngine("8.8").start(),
    "zeebe-8.9": lambda: VersionEngine("8.9").start(),
}
