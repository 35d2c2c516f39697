"""Formats entries, gates, events and verbs for people who never saw the model behind them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from verbworker.client.records import EntryDetail, EntryRecord, EventRecord, GateRecord, ListedEntry
from verbworker.repl.shapes import Shapes, VerbShape
from verbworker.runbook.event import Kind, Status

Number = Callable[[UUID], int]

ORDERS: Mapping[str, str] = {
    "verbs": "list the verbs; with a name, show the arguments of one",
    "gates": "list what waits for a decision",
    "decide": "decide at a gate: decide <number> <decision> [reason]",
    "runbook": "list the latest entries; with a number, show one",
    "events": "show what happened to an entry: events <number>",
    "history": "show your latest lines",
    "help": "show this help",
    "quit": "leave; running work continues",
}
_HELP = (
    "Start a verb with its name and arguments:",
    '  (kyc.open-case :entity "Allianz GmbH" :case-type periodic-review)',
    "You are asked for missing arguments, and to confirm before anything happens.",
    "Or type one of these words:",
)
_KEYS = "Tab completes, Ctrl-C clears the line or leaves a question, Ctrl-D leaves."
_WIDEST = 60  # characters of a value; with its name it fits a terminal of 80


def plain(text: str) -> str:
    """Escape control characters, so that the text cannot affect the terminal."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "backslashreplace").decode("ascii")
        for letter in text
    )


def format_help() -> list[str]:
    """Format the help."""
    return [*_HELP, *_table([(word, words) for word, words in ORDERS.items()]), _KEYS]


def format_verbs(shapes: Shapes) -> list[str]:
    """Format every verb with its summary."""
    rows = [(shape.name, _short(shape.summary)) for shape in shapes.values()]
    return _table(rows) or ["There are no verbs."]


def format_verb(shape: VerbShape) -> list[str]:
    """Format one verb with all its arguments."""
    rows = [(f":{slot.name}", slot.hint) for slot in shape.slots]
    return [f"{shape.name}: {shape.summary}", *(_table(rows) or ["  It takes no arguments."])]


def format_gates(named: Mapping[str, GateRecord]) -> list[str]:
    """Format the gates that wait for a person, each with its short name and its decisions."""
    rows = [
        (
            name,
            _short(gate.sentence or gate.gate),
            gate.reason,
            f"takes {' | '.join(gate.decisions) or 'any word'}",
            *([] if gate.claimed_by is None else [f"claimed by {gate.claimed_by}"]),
        )
        for name, gate in named.items()
    ]
    return _table(rows) or ["Nothing waits for a person."]


def names_of(gates: Sequence[GateRecord], number: Number) -> dict[str, GateRecord]:
    """Name each gate: the number of its entry, plus the gate's name where that is ambiguous."""
    entries = [gate.entry_id for gate in gates]
    found: dict[str, GateRecord] = {}
    for gate in gates:
        short = str(number(gate.entry_id))
        name = short if entries.count(gate.entry_id) == 1 else f"{short}/{gate.gate}"
        # Two gates with one name at one entry: only their ids distinguish them.
        found[str(gate.token_id) if name in found else name] = gate
    return found


def format_decision(gate: GateRecord, number: Number) -> list[str]:
    """Format the result of a decision."""
    made = gate.verdict
    if made is None:
        return [f"{gate.gate} of {number(gate.entry_id)} still waits."]
    text = f"{made.by} decided {made.decision} at {gate.gate} of {number(gate.entry_id)}"
    return [f"{text}, but too late: it was no longer needed." if made.answer == "gone" else f"{text}; it continues."]


def format_entries(entries: Sequence[ListedEntry], number: Number) -> list[str]:
    """Format the latest entries, each with its progress."""
    rows = [
        (str(number(entry.entry_id)), entry.status.value, _short(entry.sentence), entry.progress) for entry in entries
    ]
    return _table(rows) or ["There are no entries yet."]


def format_entry(entry: EntryDetail, events: Sequence[EventRecord], number: Number) -> list[str]:
    """Format one entry with its details."""
    lines = [
        f"{number(entry.entry_id)}: {entry.sentence}",
        f"  {entry.status_words}, {entry.progress}",
        f"  started by {entry.asked_by} at {_moment(entry.created_at)}: {entry.invocation}",
        f"  id: {entry.entry_id}",
    ]
    lines += [f"  waits since {_moment(wait.since)}: {wait.reason}" for wait in entry.waits]
    if entry.trouble:
        lines.append("  not started yet; it will be tried again, and an operator can find out why")
    if entry.stalls:
        lines.append(f"  no progress since {_moment(entry.stalls[0].since)}; an operator can find out why")
    if entry.cancel_requested_at is not None and not entry.status.is_final:
        lines.append("  cancellation requested")
    lines += [f"  {format_event(event)}" for event in events if event.kind in (Kind.GATE_DECIDED, Kind.GATE_GONE)]
    lines += [f"  {format_event(event)}" for event in events if event.kind is Kind.CORRELATION_FAILED]
    return [*lines, *format_outcome(entry)]


def format_events(events: Sequence[EventRecord]) -> list[str]:
    """Format the events, in order."""
    return _table([(_moment(event.at), format_event(event)) for event in events]) or ["There are no events yet."]


def format_event(event: EventRecord) -> str:
    """Format one event."""
    if event.kind is Kind.CORRELATION_FAILED:
        name = event.detail.get("message_name")
        return f"Message delivery failed, manual resolution required: {name}"
    text = event.sentence
    reason = event.detail.get("reason") if event.kind is Kind.GATE_DECIDED else None
    return f"{text}: {reason}" if reason else text


def format_start(entry: EntryRecord, number: Number) -> list[str]:
    """Format the state of an entry that was just started."""
    name, sentence = number(entry.entry_id), entry.sentence.rstrip(". ")
    if entry.status is Status.COMPLETED:
        return [f"{name} is done: {sentence}", *format_outcome(entry)]
    if entry.status.is_final:
        return [f"{name} ended as {entry.status.value}: {sentence}; for the reason: events {name}"]
    return [f"{name} is running: {sentence}"]


def format_outcome(entry: EntryRecord) -> list[str]:
    """Format the outcome of an entry, field by field."""
    rows = [(f"  {name}", _value(value)) for name, value in (entry.outcome or {}).items() if value not in (None, {})]
    return _table(rows)


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows with aligned columns; the last cell of a row may have any length."""
    return list(_lines([[plain(cell) for cell in row] for row in rows]))


def _lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    columns = max((len(row) for row in rows), default=0)
    widths = [max((len(row[at]) for row in rows if at < len(row) - 1), default=0) for at in range(columns)]
    for row in rows:
        cells = [cell.ljust(widths[at]) for at, cell in enumerate(row[:-1])]
        yield "  ".join([*cells, *row[-1:]])


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _moment(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
