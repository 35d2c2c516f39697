"""Judges a run that is at rest: what was lost, done twice, stands still, or was left behind."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, Literal

from tests.faults.driver import Heard
from tests.faults.plan import Entry, Plan
from tests.faults.site import Site
from tests.faults.world import World

Kind = Literal["lost", "doubled", "stuck", "left"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise that was broken, by which entry, in a sentence."""

    kind: Kind
    entry: str
    text: str


_ENTRIES = "SELECT entry_id, request_key, status FROM verbworker.runbook_entry"
_INSTANCES = "SELECT instance_key, entry_id FROM verbworker.workflow_instance WHERE instance_key IS NOT NULL"
_OPEN = "SELECT entry_id FROM verbworker.runbook_entry WHERE ended_at IS NULL"
_EFFECTS = "SELECT entry_id, step, idempotency_key, run_id, pid, detail::text, at FROM parcel_effect ORDER BY at"
_MESSAGES = "SELECT message_id, state, correlation_key FROM verbworker.inbox_message"
_DECISIONS = "SELECT entry_id, gate, decision FROM verbworker.gate_decision"
LEFT = {
    "frame still started": """
        SELECT frame.entry_id, 'job ' || frame.job_key || ' of ' || frame.verb AS what
        FROM verbworker.job_frame AS frame WHERE frame.state = 'started'""",
    "frame of an ended entry that is not final": """
        SELECT frame.entry_id, frame.state || ' job ' || frame.job_key || ' of ' || frame.verb AS what
        FROM verbworker.job_frame AS frame
        JOIN verbworker.runbook_entry AS entry ON entry.entry_id = frame.entry_id
        WHERE entry.ended_at IS NOT NULL
          AND frame.acked_at IS NULL AND (frame.state = 'failed'
            OR (frame.state <> 'started' AND frame.reported_at IS NULL))""",
    "delivery row": "SELECT NULL::uuid AS entry_id, type || ' ' || job_key AS what FROM verbworker.job_delivery",
    "open wait of an ended entry": """
        SELECT token.entry_id, token.kind || ' ' || token.element_id AS what
        FROM verbworker.parked_token AS token
        JOIN verbworker.runbook_entry AS entry ON entry.entry_id = token.entry_id
        WHERE token.closed_at IS NULL AND entry.ended_at IS NOT NULL""",
    "start that was never sent": "SELECT entry_id, process_id AS what FROM verbworker.dispatch WHERE done_at IS NULL",
    "decision that the engine does not know": """
        SELECT entry_id, gate AS what FROM verbworker.gate_decision WHERE acked_at IS NULL""",
    "instance of an ended entry that is not ended": """
        SELECT instance.entry_id, instance.status AS what FROM verbworker.workflow_instance AS instance
        JOIN verbworker.runbook_entry AS entry ON entry.entry_id = instance.entry_id
        WHERE entry.ended_at IS NOT NULL AND instance.ended_at IS NULL""",
}
"""What must be gone when everything has ended, each as entry and what it is."""
_LEFT_IN_EMBEDDED = {
    f"row in the engine's {table}": f"""
        SELECT known.entry_id, '{table} of instance ' || row.instance_key AS what FROM verbworker_engine.{table} AS row
        LEFT JOIN verbworker.workflow_instance AS known ON known.instance_key = row.instance_key"""
    for table in ("instance", "job", "timer", "subscription", "incident")
}


class Oracle:
    """Compares what is with what was planned and answered."""

    def __init__(self, plan: Plan, site: Site, world: World, heard: dict[str, Heard]) -> None:
        self._plan = plan
        self._site = site
        self._world = world
        self._heard = heard
        self.findings: list[Finding] = []

    async def judge(self) -> list[Finding]:
        """Return everything that is wrong."""
        rows = await self._world.query(_ENTRIES)
        self._ids = {row["request_key"]: str(row["entry_id"]) for row in rows}
        self._status = {row["request_key"]: row["status"] for row in rows}
        self._numbers = {entry_id: number for number, entry_id in self._ids.items()}
        self._effects: dict[str, list[Any]] = defaultdict(list)
        for row in await self._world.query(_EFFECTS):
            self._effects[str(row["entry_id"])].append(row)
        self._keys: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for call in await self._site.provider_calls():
            if call["is_new"]:
                self._keys[str(call["entry"])][str(call["step"])].add(str(call["key"]))
        self._messages = {row["message_id"]: row["state"] for row in await self._world.query(_MESSAGES)}
        self._decisions: dict[str, list[str]] = defaultdict(list)
        for row in await self._world.query(_DECISIONS):
            self._decisions[str(row["entry_id"])].append(row["decision"])
        for entry in self._plan.entries:
            self._judge(entry)
        await self._judge_strangers()
        await self._judge_left()
        return self.findings

    async def left(self) -> list[tuple[str, str, str]]:
        """What lies about now: entry, kind, what. Empty once everything was put away.

        What an entry that stands still has open is why it stands: that is counted as stuck and not here.
        """
        queries = {**LEFT, **(_LEFT_IN_EMBEDDED if self._plan.engine == "embedded" else {})}
        found = [
            (str(row["entry_id"] or ""), kind, row["what"])
            for kind, sql in queries.items()
            for row in await self._world.query(sql)
        ]
        found += await self._left_in_brokers()
        is_open = {str(row["entry_id"]) for row in await self._world.query(_OPEN)}
        return [one for one in found if one[0] not in is_open]

    async def _left_in_brokers(self) -> list[tuple[str, str, str]]:
        if self._site.brokers is None:
            return []
        owners = {row["instance_key"]: str(row["entry_id"]) for row in await self._world.query(_INSTANCES)}
        return [
            (owners.get(key, ""), "instance alive in the broker", f"{key} of {process}")
            for key, (process, is_alive) in self._site.brokers.instances().items()
            if is_alive
        ]

    def _judge(self, entry: Entry) -> None:
        heard = self._heard[entry.number]
        entry_id = self._ids.get(entry.number)
        if entry_id is None:
            kind: Kind = "lost" if heard.entry_ids else "stuck"
            self._find(kind, entry, "it was asked for and is not in the runbook")
            return
        if heard.entry_ids - {entry_id}:
            self._find("doubled", entry, f"one request key has entries {sorted(heard.entry_ids | {entry_id})}")
        status = self._status[entry.number]
        ends = entry.ends(next(iter(self._decisions[entry_id]), None))
        is_whole = status in ("completed", "failed")
        if status in ("executing", "parked"):
            self._find("stuck", entry, f"it is {status} and does not go on")
        elif status not in ends:
            self._find("lost", entry, f"it ended {status}, and not {' or '.join(sorted(ends))}")
        elif entry.cancel is not None and not heard.cancel:
            self._find("stuck", entry, "its cancel was never answered")
        elif status == "cancelled" and heard.cancel == "ended before":
            self._find("lost", entry, "its cancel was refused because it had ended, and it is cancelled")
        self._judge_effects(entry, entry_id, is_whole=is_whole)
        self._judge_message(entry, entry_id, is_whole=is_whole)
        self._judge_decision(entry, entry_id)

    def _judge_effects(self, entry: Entry, entry_id: str, *, is_whole: bool) -> None:
        done = Counter(row["step"] for row in self._effects[entry_id])
        for step, count in done.items():
            if count > 1:
                keys = {row["idempotency_key"] for row in self._effects[entry_id] if row["step"] == step}
                self._find("doubled", entry, f"{step} happened {count} times under {len(keys)} key(s)")
        for step, keys in self._keys[entry_id].items():
            done[step] += 1
            if len(keys) > 1:
                self._find("doubled", entry, f"{step} was called under {len(keys)} keys: {sorted(keys)}")
        decision = next(iter(self._decisions[entry_id]), None)
        wanted = entry.steps(decision)
        if is_whole:
            for step in sorted(wanted - done.keys()):
                self._find("lost", entry, f"it has ended, and {step} never happened")
        if is_whole and (strange := done.keys() - wanted - {"parcel.chase"}):
            self._find("doubled", entry, f"{sorted(strange)} happened and was not planned")

    def _judge_message(self, entry: Entry, entry_id: str, *, is_whole: bool) -> None:
        if entry.proof is None:
            return
        state = self._messages.get(f"proof-{entry.number}")
        if self._heard[entry.number].message_taken and state is None:
            self._find("lost", entry, "its message was taken with 202 and is not kept")
        read = [row["detail"].count(f"proof-{entry.number}") for row in self._effects[entry_id]]
        if sum(read) > 1:
            self._find("doubled", entry, f"its message was read {sum(read)} times")
        if is_whole and state != "consumed":
            self._find("lost", entry, f"it has ended, and its message is {state}")
        if is_whole and sum(read) == 0:
            self._find("lost", entry, "it has ended, and no step read its message")

    def _judge_decision(self, entry: Entry, entry_id: str) -> None:
        made, taken = self._decisions[entry_id], self._heard[entry.number].decisions
        if len(made) > 1:
            self._find("doubled", entry, f"its gate was decided {len(made)} times: {made}")
        if taken and (not made or set(taken) != set(made)):
            self._find("lost", entry, f"people heard yes to {taken}, and kept is {made}")
        if len(taken) > 1:
            self._find("doubled", entry, f"{len(taken)} people heard yes at one gate: {taken}")
        recorded = [row["detail"] for row in self._effects[entry_id] if row["step"] == "parcel.record-clearance"]
        if recorded and made and f'["{made[0]}"]' not in recorded[0]:
            self._find("doubled", entry, f"decided was {made}, and the next step saw {recorded}")

    async def _judge_strangers(self) -> None:
        planned = {entry.number for entry in self._plan.entries}
        for number in self._ids.keys() - planned:
            self.findings.append(Finding("doubled", str(number), "an entry that was never asked for"))
        known = set(self._numbers)
        for entry_id in (self._effects.keys() | self._keys.keys()) - known:
            if self._effects[entry_id] or self._keys[entry_id]:
                self.findings.append(Finding("doubled", entry_id, "effects of an entry that is not in the runbook"))

    async def _judge_left(self) -> None:
        for entry_id, kind, what in await self.left():
            number = self._numbers.get(entry_id, entry_id)
            self.findings.append(Finding("left", number, f"{kind}: {what}"))

    def _find(self, kind: Kind, entry: Entry, text: str) -> None:
        self.findings.append(Finding(kind, entry.number, f"{entry.verb}: {text}"))
