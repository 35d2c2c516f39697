"""KYC cases and calls, as the verbs of the example see them."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from tests.support.databases import plain
from verbs.kyc.case import KycCase
from verbworker import Call, Decision, ReceivedMessage

TABLES = Path(__file__).parents[2] / "verbs" / "kyc" / "kyc.sql"
PASSPORT = {"kind": "passport", "reference": "store://papers/1"}
EXTRACT = {"kind": "register-extract", "reference": "store://papers/2"}


def make_case(**changes: Any) -> KycCase:
    """A periodic review of Allianz, not begun."""
    return KycCase.model_validate({"entity": "Allianz GmbH", "case_type": "periodic-review", **changes})


def make_call(connection: Any = None, *, entry_id: UUID | None = None, **changes: Any) -> Call:
    """A run with an hour to go; with a connection it is transactional."""
    call = Call(
        verb="kyc.some-verb",
        entry_id=entry_id or uuid4(),
        tenant_id="t1",
        idempotency_key="vw1-key",
        attempt=1,
        epoch=1,
        deadline=datetime.now(UTC) + timedelta(hours=1),
        log=logging.getLogger("tests"),
        clock=partial(datetime.now, UTC),
        connection=connection,
    )
    return replace(call, **changes)


def decided(decision: str) -> Decision:
    """What a reviewer decided just now."""
    return Decision("review", decision, "seen the papers", "ada", datetime.now(UTC))


def sent(*papers: object) -> ReceivedMessage:
    """The customer's message with papers."""
    return ReceivedMessage("kyc.documents-received", "m-1", "key", {"documents": list(papers)}, datetime.now(UTC))


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[Any]:
    """A connection to a database that has the example's tables."""
    async with plain(dsn) as connection:
        await connection.execute(TABLES.read_text())
        yield connection
