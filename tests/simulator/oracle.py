"""What must hold when a schedule is over, whatever went wrong in it."""

import json
from collections import Counter
from dataclasses import dataclass
from uuid import UUID

from tests.simulator.shapes import Shape
from tests.simulator.store import Values
from tests.simulator.world import FORGETS, World

REKEYS = frozenset({"records lost", "commands lost", "restored", "keys reused"})
_ALLOWED = frozenset({"CrashLoop"})  # a person is asked on purpose


@dataclass(frozen=True, slots=True)
class Violation:
    """One promise that was broken: its name is the same whenever the same promise is."""

    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}"


def judge(world: World) -> list[Violation]:
    """Every promise that a finished schedule broke."""
    found = [Violation("service died", words) for words in world.deaths]
    found += [Violation("bug", words) for words in world.bugs]
    for place, shape in enumerate(world.shapes):
        entry_id = world.people.asked.get(place)
        if entry_id is None:
            found.append(Violation("stuck", f"request {place} was never taken"))
        else:
            found += _case(world, place, shape, entry_id)
    found += _frames(world)
    found += _left(world)
    return found


def _case(world: World, place: int, shape: Shape, entry_id: UUID) -> list[Violation]:
    entry = world.store.tables["runbook_entry"][entry_id,]
    return [
        *_effects(world, place, shape, entry),
        *_calls(world, place, shape, entry),
        *_end(world, place, shape, entry),
        *_gate(world, place, entry_id),
        *_workers(world, place, entry),
        *_messages(world, place, shape, entry),
        *_payload(world, place, shape, entry),
    ]


def _effects(world: World, place: int, shape: Shape, entry: Values) -> list[Violation]:
    done = Counter(
        (row["verb"], row["visit"])
        for row in world.store.tables["effect"].values()
        if row["entry_id"] == entry["entry_id"]
    )
    found = []
    for step, times in done.items():
        if step not in shape.effects or times > 1:
            found.append(
                Violation("effect twice", f"entry {place} ({shape.process}): {step[0]} visit {step[1]} x{times}")
            )
    if entry["status"] == "completed":
        found += [
            Violation("effect lost", f"entry {place} ({shape.process}): {step[0]} visit {step[1]}")
            for step in shape.effects
            if step not in done
        ]
    return found


def _calls(world: World, place: int, shape: Shape, entry: Values) -> list[Violation]:
    keys: dict[tuple[str, int], set[str]] = {}
    for entry_id, verb, visit, key in world.outside.calls:
        if entry_id == entry["entry_id"]:
            keys.setdefault((verb, visit), set()).add(key)
    found = [
        Violation("call under two keys", f"entry {place} ({shape.process}): {step[0]} visit {step[1]} {len(used)} keys")
        for step, used in keys.items()
        if len(used) > 1 or step not in shape.calls
    ]
    if entry["status"] == "completed":
        found += [Violation("call lost", f"entry {place}: {step}") for step in shape.calls if step not in keys]
    return found


def _end(world: World, place: int, shape: Shape, entry: Values) -> list[Violation]:
    if entry["status"] == "completed":
        name = "completed although it stops" if shape.stops_with is not None else None
        return [] if name is None else [Violation(name, f"entry {place} ({shape.process})")]
    if entry["status"] == "cancelled":
        is_asked = entry["cancel_requested_at"] is not None
        was_forgotten = bool(world.plan.classes & FORGETS)
        return [] if is_asked or was_forgotten else [Violation("ended outside", f"entry {place} ({shape.process})")]
    if entry["status"] == "failed":
        return [Violation("failed", f"entry {place} ({shape.process})")]
    waits = [
        token
        for token in world.store.tables["parked_token"].values()
        if token["entry_id"] == entry["entry_id"] and token["closed_at"] is None
    ]
    codes = sorted({_code(world, token) for token in waits if token["kind"] == "incident"})
    if shape.stops_with is not None and codes == [shape.stops_with]:
        # An engine that forgot the incident may lock the job as well; that is noticed after ten minutes.
        is_there = entry["entry_id"] in world.stopped().values() or bool(world.plan.classes & FORGETS)
        return [] if is_there else [Violation("stuck", f"entry {place} ({shape.process}): the engine has no incident")]
    if codes and set(codes) <= _ALLOWED:
        return []
    if not codes and entry["entry_id"] in world.given_up().values():
        return []
    jobs = [f"{job.type} {job.state}" for job in world.engine.state.jobs.values()]
    waiting = ", ".join(f"{token['kind']} at {token['element_id']}" for token in waits)
    detail = f"entry {place} ({shape.process}) is {entry['status']}, waits [{waiting}], jobs {jobs}"
    name = f"incident {' '.join(codes)}" if codes else "stuck"
    return [Violation(name, detail)]


def _code(world: World, token: Values) -> str:
    frame = world.store.tables["job_frame"].get((token["engine_id"], token["job_key"]))
    if frame is not None and frame["state"] == "incident":
        return str(frame["fail_code"])
    raised = [
        event["detail"].get("code")
        for event in world.store.tables["runbook_event"].values()
        if event["entry_id"] == token["entry_id"]
        and event["kind"] == "IncidentRaised"
        and event["detail"].get("job_key") == token["job_key"]
    ]
    return str(raised[-1]) if raised else "unknown"


def _gate(world: World, place: int, entry_id: UUID) -> list[Violation]:
    """One decision per gate, and one gate: a person who decided is not asked the same thing again."""
    gates = [row for row in world.store.tables["gate_decision"].values() if row["entry_id"] == entry_id]
    found = []
    for gate in gates:
        words = [word for token_id, word in world.people.decided if token_id == gate["token_id"]]
        if len(words) > 1:
            found.append(Violation("decided twice", f"entry {place}: {words}"))
    if len(gates) > 1:
        found.append(Violation("asked again", f"entry {place}: {[gate['decision'] for gate in gates]}"))
    return found


def _workers(world: World, place: int, entry: Values) -> list[Violation]:
    """One instance of the engine does the work of an entry, unless the engine itself made another of it."""
    if world.plan.classes & REKEYS:
        return []
    worked = {
        frame["process_instance_key"]
        for frame in world.store.tables["job_frame"].values()
        if frame["entry_id"] == entry["entry_id"] and frame["state"] == "completed"
    }
    return [Violation("two instances", f"entry {place}: {sorted(worked)} both worked")] if len(worked) > 1 else []


def _messages(world: World, place: int, shape: Shape, entry: Values) -> list[Violation]:
    mine = [
        row
        for row in world.store.tables["inbox_message"].values()
        if row["correlation_key"] == f"case-{place}" and row["state"] == "consumed"
    ]
    found = []
    if entry["status"] == "completed" and len(mine) != shape.messages:
        found.append(Violation("message lost", f"entry {place}: {len(mine)} of {shape.messages} messages were read"))
    published = [message_id for key, message_id in world.engine.published if key == f"case-{place}"]
    if len(published) > shape.messages:
        found.append(Violation("message twice", f"entry {place}: {sorted(published)}"))
    return found


def _payload(world: World, place: int, shape: Shape, entry: Values) -> list[Violation]:
    """The payload of record tells of every step."""
    if entry["status"] != "completed":
        return []
    (instance,) = (
        row for row in world.store.tables["workflow_instance"].values() if row["entry_id"] == entry["entry_id"]
    )
    head = world.store.tables["payload_head"][instance["instance_uid"],]
    data = json.loads(head["content"])["data"]
    wanted = Counter(verb.removeprefix("sim.") for verb, _ in (*shape.effects, *shape.calls))
    wrong = {name: data.get(name, 0) for name, times in wanted.items() if data.get(name, 0) != times}
    return [Violation("payload wrong", f"entry {place} ({shape.process}): {wrong}")] if wrong else []


def _frames(world: World) -> list[Violation]:
    found = []
    for frame in world.store.tables["job_frame"].values():
        where = f"frame {frame['job_key']} ({frame['verb']}), epoch {frame['epoch']}"
        if frame["claimed_from"] == "release" and not world.plan.classes & REKEYS:
            found.append(Violation("released without a person", where))
        if frame["state"] == "started":
            found.append(Violation("frame left started", where))
        elif frame["state"] == "completed" and frame["acked_at"] is None:
            found.append(Violation("verdict never acknowledged", where))
        elif frame["acked_at"] is None and frame["state"] != "completed" and frame["reported_at"] is None:
            found.append(Violation("report left", f"{where} {frame['state']} {frame['fail_code']}"))
    found += [
        Violation("delivery row left", f"job {row['job_key']} ({row['type']})")
        for row in world.store.tables["job_delivery"].values()
    ]
    return found


def _left(world: World) -> list[Violation]:
    ended = {
        row["instance_uid"] for row in world.store.tables["workflow_instance"].values() if row["ended_at"] is not None
    }
    return [
        Violation("instance left", f"{process} {key} has jobs {_jobs(world, key)}, and its entry has ended")
        for key, (process, variables) in world.engine.state.instances.items()
        if UUID(str(variables["vw_instance_uid"])) in ended
    ]


def _jobs(world: World, instance: int) -> list[str]:
    return [f"{job.type} {job.state}" for job in world.engine.state.jobs.values() if job.instance == instance]
