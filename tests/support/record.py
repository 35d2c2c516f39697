"""A record with everything that verification covers, and what the owner of a database could do to it."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.support.databases import plain
from tests.support.entries import StoredEntry
from verbworker.contract.person import Person
from verbworker.payload.signature import KeyRing
from verbworker.runbook.checkpoint import Checkpoint, SealMark
from verbworker.runbook.event import Kind, Wait
from verbworker.runbook.record_check import RecordCheck
from verbworker.runbook.record_seal import RecordSeal, SealLine, make_seal
from verbworker.stores.cases.gates import GateStore
from verbworker.stores.cases.record_verifier import RecordVerifier
from verbworker.stores.cases.seals import Seals, seal_of
from verbworker.stores.database import Database
from verbworker.work.gates.gate_writes import DecisionInput, GateWrites

RING = KeyRing("2026", {"2026": b"a secret of the workers, 32 bytes or more"})
GATE = "Update_review"
# The chain of one entry written anew, with all digests, as the owner of the tables could.
REHASH = """
DO $$
DECLARE
  held verbworker.runbook_entry;
  told verbworker.runbook_event;
  made verbworker.gate_decision;
  digests jsonb;
  link bytea;
BEGIN
  SELECT * INTO held FROM verbworker.runbook_entry WHERE entry_id = '{entry}';
  held.asked := verbworker.digest_asked(held);
  link := verbworker.first_hash(held.entry_id, held.asked);
  FOR told IN SELECT * FROM verbworker.runbook_event WHERE entry_id = held.entry_id ORDER BY seq LOOP
    digests := told.digests;
    IF digests ? 'outcome' THEN
      digests := jsonb_build_object('outcome', verbworker.digest_bytes(told.salt, held.outcome));
    ELSIF digests ? 'decision' THEN
      SELECT * INTO made FROM verbworker.gate_decision WHERE entry_id = held.entry_id;
      digests := verbworker.digest_decision(made, told.salt);
    END IF;
    link := verbworker.event_hash(
      link, told.entry_id, told.seq, told.at, told.kind, told.once, told.detail, told.status, told.salt, digests);
    UPDATE verbworker.runbook_event AS event SET hash = link, digests = rehashed.digests
    FROM (SELECT digests) AS rehashed WHERE event.entry_id = told.entry_id AND event.seq = told.seq;
  END LOOP;
  UPDATE verbworker.runbook_entry SET asked = held.asked, last_hash = link WHERE entry_id = held.entry_id;
END
$$;
"""


@dataclass(frozen=True, slots=True)
class SealedRecord:
    """One case that a person decided and that ended, one that is open, and the seals over both."""

    database: Database
    dsn: str
    decided: StoredEntry
    opened: StoredEntry
    seals: Seals

    @classmethod
    async def make(cls, database: Database, dsn: str, ring: KeyRing | None = RING) -> "SealedRecord":
        """Write the two cases and seal them, in two seals."""
        seals = Seals(database, ring)
        decided = await StoredEntry.open(database, request_key="order-1", args=b'{"client":"Allianz"}')
        await decided.start()
        await decide(decided)
        await seals.seal_moves(limit=100)
        async with database.transaction() as connection:
            detail = {"result": "ok"}
            await decided.runbook.end_in(connection, decided.entry_id, outcome=b'{"approved":true}', detail=detail)
        opened = await StoredEntry.open(database, asked_by="eve")
        await opened.start(9001)
        await seals.seal_moves(limit=100)
        return cls(database, dsn, decided, opened, seals)

    async def verify(
        self, *, ring: KeyRing | None = RING, entry_id: UUID | None = None, against: SealMark | None = None
    ) -> RecordCheck:
        """Verify the record of the tenant."""
        return await RecordVerifier(self.database, ring).verify("default", entry_id, against=against)

    async def places(self, **given: Any) -> set[tuple[str, UUID | None, int | None]]:
        """What a verification finds: the place, the entry, and the event or the seal."""
        check = await self.verify(**given)
        return {(one.place, one.entry_id, one.seal if one.entry_id is None else one.seq) for one in check.findings}

    async def attack(self, *statements: str) -> None:
        """Do what the owner of the database can do: no trigger stops it."""
        async with plain(self.dsn) as connection:
            await connection.execute("SET session_replication_role = replica")
            for statement in statements:
                await connection.execute(statement.replace("{entry}", str(self.decided.entry_id)))

    async def checkpoint(self) -> Checkpoint:
        """A checkpoint of the last seals."""
        await self.seals.seal_moves(limit=100)
        return Checkpoint.make(await self.seals.now(), await self.seals.last(), RING)

    async def reseal(self, ring: KeyRing | None, *, keep_signatures: bool = False) -> None:
        """Write all seals anew, over what the entries are now: with another key, none, or the old signatures."""
        async with plain(self.dsn) as connection:
            await connection.execute("SET session_replication_role = replica")
            await connection.execute(
                "UPDATE verbworker.runbook_seal_line AS line SET hash = event.hash"
                " FROM verbworker.runbook_event AS event WHERE event.entry_id = line.entry_id AND event.seq = line.seq"
            )
            last: RecordSeal | None = None
            for row in await connection.fetch("SELECT * FROM verbworker.runbook_seal ORDER BY number"):
                lines = await connection.fetch(
                    "SELECT entry_id, seq, hash, dropped, erased FROM verbworker.runbook_seal_line WHERE number = $1",
                    row["number"],
                )
                old = seal_of(row)
                made = make_seal("default", last, old.at, [SealLine(*line.values()) for line in lines], ring)
                signed = (old.key_id, old.signature) if keep_signatures else (made.key_id, made.signature)
                await connection.execute(
                    "UPDATE verbworker.runbook_seal SET lines = $2, lines_hash = $3, previous = $4, hash = $5,"
                    " key_id = $6, signature = $7 WHERE number = $1",
                    *(made.number, made.lines, made.lines_hash, made.previous, made.hash, *signed),
                )
                last = made


async def decide(
    stored: StoredEntry, by: str = "bob", reason: str = "all is in order", note: str = "seen by Ada"
) -> None:
    """Have a person decide at the gate of a case, with a note as its only input."""
    form = {"inputs": [{"name": "note", "type": "comment"}]}
    await stored.park(stored.token(kind=Wait.HUMAN_GATE, gate=GATE, detail=form))
    store, writes = GateStore(stored.database), GateWrites(stored.database)
    (gate,) = await store.gates("default", entry_id=stored.entry_id)
    async with stored.database.transaction() as connection:
        held = await store.hold_in(connection, gate.token_id, "default")
        assert held is not None
        word = DecisionInput("approve", reason, Person(by), {"note": note})
        await writes.decide_in(connection, held, word, send_within=None)
        await connection.execute(
            "UPDATE verbworker.gate_decision SET acked_at = now(), answer = 'completed' WHERE token_id = $1",
            gate.token_id,
        )


async def seq_of(stored: StoredEntry, kind: Kind) -> int:
    """The number of the last event of a kind."""
    return max(event.seq for event in await stored.events() if event.kind is kind)
