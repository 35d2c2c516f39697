"""The outside world of one entry: asks for it, sends its message, decides at its gate, cancels it, as the plan says."""

import asyncio
import json
import time
from dataclasses import dataclass, field

from tests.faults.plan import Entry, Plan
from tests.faults.site import APP, OFFICERS, TENANT, Site
from tests.faults.web import request
from tests.faults.world import World

_AT_ONCE = 6
_AGAIN = 0.5


@dataclass(slots=True)
class Heard:
    """What the product answered about one entry: each is a promise that the oracle holds it to."""

    entry_ids: set[str] = field(default_factory=set)
    message_taken: bool = False
    decisions: list[str] = field(default_factory=list)  # taken with 200
    cancel: str = ""  # "taken", "ended before", or nothing
    refusals: list[str] = field(default_factory=list)


class Driver:
    """Plays every entry of a plan against a site."""

    def __init__(self, plan: Plan, site: Site, world: World) -> None:
        self._plan = plan
        self._site = site
        self._world = world
        self._commands = asyncio.Semaphore(_AT_ONCE)
        self.heard = {entry.number: Heard() for entry in plan.entries}
        self.waiting_for: dict[str, str] = {}
        self._begin = time.monotonic()

    async def play(self) -> None:
        """Play all entries to the end of what the world does about them."""
        self._begin = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for entry in self._plan.entries:
                tasks.create_task(self._play(entry))

    async def _play(self, entry: Entry) -> None:
        proof = entry.proof
        await self._until(entry.at + min(0.0, proof.after if proof is not None else 0.0))
        async with asyncio.TaskGroup() as tasks:
            if proof is not None:
                for _ in range(proof.copies):
                    tasks.create_task(self._send(entry, entry.at + proof.after))
            await self._until(entry.at)
            starts = [tasks.create_task(self._start(entry, killed=entry.asker_dies_after))]
            starts += [tasks.create_task(self._start(entry)) for _ in range(entry.starts - 1)]
            await asyncio.wait(starts)
            if entry.answers is not None:
                tasks.create_task(self._decide(entry))
            if entry.cancel is not None:
                await asyncio.sleep(entry.cancel.after)
                await self._cancel(entry)
            if entry.verb == "parcel.audit":
                await self._cancel_when_named(entry)

    async def _start(self, entry: Entry, killed: float | None = None) -> None:
        words = f'({entry.verb} :number "{entry.number}" :pace {entry.pace} :refuse {str(entry.refuse).lower()})'
        asked = ("start", words, "--app", APP, "--request-key", entry.number, "--json")
        while True:
            async with self._commands:
                answer = await self._site.command(*asked, killed_after=killed)
            if answer is not None and answer[0] == 0:
                self.heard[entry.number].entry_ids.add(json.loads(answer[1])["entry_id"])
                return
            # An entry that was asked for twice and has ended otherwise meanwhile is told by exit code 1 and its JSON.
            if answer is not None and answer[1].startswith("{"):
                self.heard[entry.number].entry_ids.add(json.loads(answer[1])["entry_id"])
                return
            self._refused(entry, "start", answer)
            killed = None
            await asyncio.sleep(_AGAIN)

    async def _send(self, entry: Entry, at: float) -> None:
        await self._until(at)
        envelope = {
            "message_name": "parcel.proof",
            "message_id": f"proof-{entry.number}",
            "correlation_key": entry.number,
            "tenant_id": TENANT,
            "payload": {"number": entry.number},
        }
        while True:
            try:
                status, body = await request("POST", self._site.ingress_address, "/messages", envelope)
            except (OSError, TimeoutError, ValueError):
                status, body = 0, b""
            if status == 202:
                self.heard[entry.number].message_taken = True
                return
            if status not in (0, 503, 429):
                self._refused(entry, "message", (status, body.decode(errors="replace"), ""))
            await asyncio.sleep(_AGAIN)

    async def _decide(self, entry: Entry) -> None:
        assert entry.answers is not None
        await asyncio.sleep(entry.answers.after)
        entry_id = next(iter(self.heard[entry.number].entry_ids))
        self.waiting_for[entry.number] = "its gate"
        while entry_id not in self._world.seen.gates:
            if self._world.seen.status.get(entry.number) in ("cancelled", "completed", "failed"):
                self.waiting_for.pop(entry.number, None)
                return
            await asyncio.sleep(0.3)
        self.waiting_for.pop(entry.number, None)
        officers = list(OFFICERS.values())
        async with asyncio.TaskGroup() as tasks:
            for number, decision in enumerate(entry.answers.given):
                tasks.create_task(self._answer(entry, entry_id, decision, officers[number % len(officers)]))

    async def _answer(self, entry: Entry, entry_id: str, decision: str, key: str) -> None:
        path = f"/api/gates/{entry_id}/clearance"
        body = {"decision": decision, "reason": "by plan"}
        while True:
            try:
                status, text = await request("POST", self._site.console_address, path, body, headers={"X-Api-Key": key})
            except (OSError, TimeoutError, ValueError):
                status, text = 0, b""
            if status == 200:
                self.heard[entry.number].decisions.append(decision)
                return
            if status in (404, 409):
                return
            if status not in (0, 503):
                self._refused(entry, "decision", (status, text.decode(errors="replace"), ""))
            await asyncio.sleep(_AGAIN)

    async def _cancel(self, entry: Entry) -> None:
        entry_id = next(iter(self.heard[entry.number].entry_ids))
        while True:
            async with self._commands:
                answer = await self._site.command("runbook", "cancel", entry_id, "--reason", "by plan")
            if answer is not None and answer[0] == 0:
                self.heard[entry.number].cancel = "taken"
                return
            if answer is not None and answer[0] == 1:
                self.heard[entry.number].cancel = "ended before"
                return
            self._refused(entry, "cancel", answer)
            await asyncio.sleep(_AGAIN)

    async def _cancel_when_named(self, entry: Entry) -> None:
        """Cancel an entry that cannot go on, once the product has said so."""
        entry_id = next(iter(self.heard[entry.number].entry_ids))
        self.waiting_for[entry.number] = "an incident that says why it cannot go on"
        while entry_id not in self._world.seen.incidents:  # noqa: ASYNC110  # another process says so
            await asyncio.sleep(0.3)
        self.waiting_for.pop(entry.number, None)
        await self._cancel(entry)

    def _refused(self, entry: Entry, what: str, answer: tuple[int, str, str] | None) -> None:
        said = "killed" if answer is None else f"{answer[0]}: {answer[1]}{answer[2]}"
        self.heard[entry.number].refusals.append(f"{what} {said}"[:500])

    async def _until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, self._begin + at - time.monotonic()))
