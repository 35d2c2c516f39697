"""A domain whose steps can be undone: a trip is booked in Postgres and with an agency outside, and cancelled again."""

import asyncio
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from tests.support.flags import flag_contract
from verblint.contracts.contract import Flag, FlagType
from verbworker.contract.policy import DEFAULT_POLICY
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call, Result
from verbworker.contract.workflow import WorkflowVerb
from verbworker.errors import PermanentBusiness

TABLE = "CREATE TABLE IF NOT EXISTS trip (place serial, deed text, idempotency_key text)"
EFFECTS = "SELECT deed FROM trip ORDER BY place"
PLACES = ("flight", "hotel", "car")


class Trip(BaseModel):
    booked: list[str] = []
    cancelled: list[str] = []


class Agency:
    """The outside, and where a test makes verbs fail or stand still."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.troubles: dict[str, list[Exception]] = {}
        self.reached = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    def count_effects(self, effect: str) -> int:
        """How often something happened outside: a repeated key is no second time."""
        return len({key for done, key in self.calls if done == effect})

    def trouble(self, effect: str, *errors: Exception) -> None:
        """The next runs of a verb fail like this."""
        self.troubles[effect] = list(errors)

    async def act(self, effect: str, call: Call) -> None:
        """Do something, in our own tables or outside."""
        self.reached.set()
        await self.may_go_on.wait()
        if self.troubles.get(effect):
            raise self.troubles[effect].pop(0)
        if call.connection is None:
            self.calls.append((effect, call.idempotency_key))
        else:
            await call.db.execute(
                "INSERT INTO trip (deed, idempotency_key) VALUES ($1, $2)", effect, call.idempotency_key
            )


def trip_registry(agency: Agency, domain: str = "trip", **changes: Any) -> Registry:
    """`book-<place>` and what undoes it, `cancel-<place>`; and `depart`, which says no."""
    verbs = Registry()
    for place in PLACES:
        mode = "external" if place == "hotel" else "transactional"
        verbs.verb(f"{domain}.book-{place}", mode=mode)(_book(agency, place))  # type: ignore[arg-type]  # one of two
        verbs.verb(f"{domain}.cancel-{place}", mode=mode)(_cancel(agency, place))  # type: ignore[arg-type]

    @verbs.verb(f"{domain}.depart", mode="transactional")
    async def depart(trip: Trip) -> Trip:
        """Say that there is no passport."""
        raise PermanentBusiness("there is no passport", code="NO_PASSPORT")

    quick = {"initial_interval_seconds": 0.001, "maximum_interval_seconds": 0.001}
    policy = DEFAULT_POLICY.model_copy(update={"name": "quick", "retry": DEFAULT_POLICY.retry.model_copy(update=quick)})
    given: dict[str, Any] = {
        "name": f"{domain}.arrange",
        "version": 1,
        "process": f"{domain}-arrange",
        "schema": f"{domain}.arrange/v1",
        "sub_verbs": (*(f"{domain}.book-{place}" for place in PLACES), f"{domain}.depart"),
        "compensation": {f"{domain}.book-{place}": f"{domain}.cancel-{place}" for place in PLACES},
        "flag_contract": flag_contract(Flag("orch_booked", FlagType.INTEGER, 0)),
        "policy": "quick",
    }
    return verbs.declare(WorkflowVerb(**(given | changes)), policies=[policy])


def _book(agency: Agency, place: str) -> Callable[..., Any]:
    async def book(trip: Trip, call: Call) -> Result[Trip]:
        """Book one part of a trip."""
        await agency.act(f"book-{place}", call)
        booked = [*trip.booked, place]
        return Result(trip.model_copy(update={"booked": booked}), flags={"orch_booked": len(booked)})

    return book


def _cancel(agency: Agency, place: str) -> Callable[..., Any]:
    async def cancel(trip: Trip, call: Call) -> Result[Trip]:
        """Take one part of a trip back."""
        await agency.act(f"cancel-{place}", call)
        booked = [name for name in trip.booked if name != place]
        after = trip.model_copy(update={"booked": booked, "cancelled": [*trip.cancelled, place]})
        return Result(after, flags={"orch_booked": len(booked)})

    return cancel
