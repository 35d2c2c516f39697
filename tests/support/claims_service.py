"""A service of a user, as the documentation shows it: FastAPI outside, a client inside, and a worker elsewhere."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from fastapi import FastAPI, HTTPException, Request

from tests.support.embedded_service import VERB, Steps
from verbworker import Client
from verbworker.client.records import EntryDetail
from verbworker.errors import NotFound

registry = Steps().registry()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open one client for the whole service."""
    async with Client.from_environment(registry, by="claims-service") as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/claims/{number}")
async def open_claim(number: int, request: Request) -> dict[str, UUID]:
    """Start a case; the number makes a repeated request harmless."""
    client: Client = request.app.state.client
    entry = await client.start(VERB, {"name": f"claim-{number}"}, request_key=f"claim-{number}")
    return {"entry_id": entry.entry_id}


@app.get("/claims/{entry_id}")
async def read_claim(entry_id: UUID, request: Request) -> EntryDetail:
    """Read a case."""
    client: Client = request.app.state.client
    try:
        return await (await client.entry(entry_id)).read()
    except NotFound as error:
        raise HTTPException(404, str(error)) from error
