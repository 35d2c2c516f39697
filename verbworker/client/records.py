"""What a client returns: the models that HTTP answers with and that commands print with `--json`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from verbworker.app.engine_links import NO_LINKS, EngineLinks
from verbworker.client.entry_view import FoundEntry
from verbworker.engine.protocol import ActiveElement
from verbworker.runbook.event import Entry, EntryMode, Event, Kind, Stall, StallKind, Status, Wait, describe
from verbworker.runbook.progress import Progress, coarse_progress
from verbworker.stores.cases.gates import HumanGate

_LOOK = ConfigDict(frozen=True, from_attributes=True)


def _hexadecimal(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


class EntryRecord(BaseModel):
    """One entry of the runbook: what was requested, and its state."""

    model_config = _LOOK

    entry_id: UUID
    tenant_id: str
    request_key: str | None = Field(description="the caller's own key: a repeated request with it starts nothing")
    verb: str
    verb_version: str
    mode: EntryMode
    sentence: str = Field(description="what was asked, in words for people")
    invocation: str = Field(description="what was asked, as the command line and the REPL accept it")
    args: dict[str, Any]
    asked_by: str
    status: Status
    outcome: dict[str, Any] | None = Field(description="the result, once the entry has ended with one")
    process_id: str | None
    process_version: int | None
    definition_key: int | None
    provenance: dict[str, Any]
    cancel_requested_at: datetime | None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None

    @property
    def is_final(self) -> bool:
        """Whether the status can no longer change."""
        return self.status.is_final

    @staticmethod
    def of(entry: Entry) -> "EntryRecord":
        """Return the record of an entry."""
        return EntryRecord.model_validate(entry)


class StallRecord(BaseModel):
    """Why an entry makes no progress, and what an operator can do."""

    model_config = _LOOK

    kind: StallKind
    since: datetime
    reason: str
    remedy: str


class WaitRecord(BaseModel):
    """One thing that an entry waits for."""

    model_config = _LOOK

    token_id: UUID
    kind: Wait
    reason: str
    since: datetime
    gate: str | None
    message_name: str | None


class ReleaseRecord(BaseModel):
    """A held job that a person released and that the engine has not handed out since."""

    model_config = _LOOK

    verb: str
    job_key: int
    at: datetime
    words: str = Field(description="what is waited for, and what to do if that does not happen by itself")


class UnsentRecord(BaseModel):
    """A decision that the engine does not have yet."""

    model_config = _LOOK

    gate: str
    decision: str
    by: str
    at: datetime
    trouble: str | None = Field(description="why the engine does not have it; null before an attempt failed")
    words: str = Field(description="where it waits, and why")


class ListedEntry(EntryRecord):
    """An entry in a list, with its progress."""

    progress: str = Field(description="for example: 3 of 5, awaiting reviewer")
    stalls: tuple[StallRecord, ...]
    outcome_name: str | None = Field(description="how it ended, by the name that its contract has for it")

    @property
    def status_words(self) -> str:
        """The status with the name of the outcome: completed as rejected."""
        return self.status.value if self.outcome_name is None else f"{self.status.value} as {self.outcome_name}"

    @staticmethod
    def with_progress(
        entry: Entry, progress: Progress, stalls: Sequence[Stall], *, outcome_name: str | None
    ) -> "ListedEntry":
        """Return the record of an entry in a list."""
        more = {"progress": progress.detailed, "stalls": stalls, "outcome_name": outcome_name}
        return ListedEntry.model_validate({**_fields(entry), **more})


class StuckEntry(ListedEntry):
    """An entry in a list of those without progress."""

    since: datetime = Field(description="since when it makes no progress")
    reason: str = Field(description="what it waits for, or what is missing")

    @staticmethod
    def of_silence(found: FoundEntry, since: datetime, reason: str) -> "StuckEntry":
        """Return the record of an entry without progress."""
        listed = {**_fields(found.entry), "progress": found.progress.detailed, "stalls": found.stalls}
        more = {"outcome_name": found.outcome_name, "since": since, "reason": reason}
        return StuckEntry.model_validate({**listed, **more})


class EntryDetail(ListedEntry):
    """An entry with everything it waits for."""

    waits: tuple[WaitRecord, ...]
    trouble: str | None = Field(description="why the engine has not started it yet")
    released: tuple[ReleaseRecord, ...]
    unsent: tuple[UnsentRecord, ...] = Field(description="decisions that the engine does not have yet")
    incidents: "tuple[EventRecord, ...]" = Field(description="the incidents that stop it now")
    failure: "EventRecord | None" = Field(description="the event that ended it badly")
    operate_url: str | None = Field(description="its instance in Operate, if an address is set")

    @staticmethod
    def with_waits(found: FoundEntry, links: EngineLinks = NO_LINKS) -> "EntryDetail":
        """Return the record of one entry."""
        known = {**_fields(found.entry), "progress": found.progress.detailed, "stalls": found.stalls}
        more = {"waits": found.waits, "trouble": found.trouble, "released": found.released, "unsent": found.unsent}
        ends = {
            "incidents": [EventRecord.of(event) for event in found.incidents],
            "outcome_name": found.outcome_name,
            "failure": None if found.failure is None else EventRecord.of(found.failure),
            "operate_url": links.instance(found.instance_key),
        }
        return EntryDetail.model_validate({**known, **more, **ends})


class EntryPage(BaseModel):
    """Some entries of a list, and where the next ones start."""

    model_config = _LOOK

    entries: tuple[StuckEntry | ListedEntry, ...]
    next: str | None = Field(description="the cursor of the next page; null on the last one")

    def with_coarse_progress(self) -> Self:
        """Return the page with the progress of each entry as one word."""
        words = (one.model_copy(update={"progress": coarse_progress(one.status)}) for one in self.entries)
        return self.model_copy(update={"entries": tuple(words)})


class EventRecord(BaseModel):
    """One thing that happened to an entry, at its place in the entry's chain."""

    model_config = _LOOK

    entry_id: UUID
    seq: int
    at: datetime
    kind: Kind
    detail: dict[str, Any]
    status: Status = Field(description="the status of the entry after this event")
    hash: Annotated[str, BeforeValidator(_hexadecimal)]
    sentence: str = Field(description="what happened, in words for people")

    @classmethod
    def of(cls, event: Event) -> Self:
        """Return the record of an event."""
        return cls.model_validate({**_fields(event), "sentence": describe(event)})


class DecisionRecord(BaseModel):
    """The decision at a gate; `answer` is null until the engine has received it."""

    model_config = _LOOK

    decision: str
    reason: str
    by: str
    at: datetime
    answer: str | None
    trouble: str | None = Field(description="why the engine does not have it yet; null before an attempt failed")
    inputs: dict[str, Any] = Field(default={}, description="what was filled in with the decision")


class GateRecord(BaseModel):
    """A gate that an entry waits at, or waited at."""

    model_config = _LOOK

    token_id: UUID
    tenant_id: str
    entry_id: UUID
    instance_uid: UUID
    engine_id: str
    job_key: int | None = Field(description="the job of the task; none for a native task")
    user_task_key: int | None = Field(description="the engine's key of a native task")
    engine_assignee: str | None = Field(description="who has a native task in the engine")
    is_mirrored: bool = Field(description="whether the engine has the latest claim or release")
    claim_trouble: str | None = Field(description="why the engine does not have it")
    claim_words: str = Field(description="whether the engine has it, in words; empty without a task list")
    instance_key: int
    element_instance_key: int
    gate: str
    reason: str
    detail: dict[str, Any]
    decisions: tuple[str, ...] = Field(description="the decisions that the gate accepts; empty means any")
    claimed_by: str | None
    claimed_by_id: UUID | None = Field(description="the id of that person's issuer and subject, if known")
    claimed_at: datetime | None
    opened_at: datetime
    seen_at: datetime
    closed_at: datetime | None
    closed_as: str | None
    sentence: str | None
    verb: str | None
    verdict: DecisionRecord | None
    takes: str
    asked: str
    state: str
    tasklist_url: str | None = Field(description="its task in Tasklist, if an address is set")
    operate_url: str | None = Field(description="its instance in Operate, if an address is set")

    @classmethod
    def of(cls, gate: HumanGate, links: EngineLinks = NO_LINKS) -> Self:
        """Return the record of a gate."""
        asked = asked_of(gate.detail)
        words = {
            "decisions": gate.decisions,
            "is_mirrored": gate.is_mirrored,
            "claim_words": _claim_words(gate),
            "takes": ", ".join(gate.decisions) or "any word",
            "asked": "; ".join(f"{name}: {_words(value)}" for name, value in asked.items()),
            "state": _state(gate),
            "tasklist_url": links.task(gate.job_key if gate.user_task_key is None else gate.user_task_key),
            "operate_url": links.instance(gate.instance_key),
        }
        return cls.model_validate({**_fields(gate), **words})


class GatePage(BaseModel):
    """Some gates of a list, and where the next ones start."""

    model_config = _LOOK

    gates: tuple[GateRecord, ...]
    next: str | None = Field(description="the cursor of the next page; null on the last one")


class PositionRecord(BaseModel):
    """A place where an entry is in its model, as the engine sees it."""

    model_config = _LOOK

    element_id: str
    type: str = Field(description="the kind of element, as Zeebe names it")
    since: datetime | None
    message_name: str | None = Field(description="the message that it waits for")
    correlation_key: str | None

    @classmethod
    def of(cls, element: ActiveElement) -> Self:
        """Return the record of an active element."""
        return cls.model_validate({name: getattr(element, name) for name in cls.model_fields})


class MessageReceipt(BaseModel):
    """A message that is stored. `is_new` is false if the same message was stored before."""

    model_config = _LOOK

    message_id: str
    is_new: bool


def _fields(value: Any) -> Mapping[str, Any]:
    """Return the fields of a dataclass, without copying what they hold."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def asked_of(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the model and the contract ask of who decides, without what only the task's page needs."""
    return {name: value for name, value in detail.items() if name not in ("decisions", "show", "choices", "inputs")}


def _words(value: object) -> str:
    return ", ".join(str(part) for part in value) if isinstance(value, list) else str(value)


def _claim_words(gate: HumanGate) -> str:
    """Return whether the engine's task list has the latest claim or release."""
    if gate.user_task_key is None or gate.closed_at is not None:
        return ""
    if gate.is_mirrored:
        return gate.claim_trouble or "the engine's task list shows it"
    if gate.claim_trouble is None:
        return "the engine's task list does not have it yet; a worker sends it"
    return f"the engine's task list does not have it yet; a worker sends it again: {gate.claim_trouble}"


def _state(gate: HumanGate) -> str:
    if gate.verdict is not None:
        missing = "not sent to the engine yet" if gate.verdict.trouble is None else "not taken by the engine yet"
        told = {"gone": ", too late", None: f", {missing}"}.get(gate.verdict.answer, "")
        return f"{gate.verdict.by} decided {gate.verdict.decision}{told}"
    return "open" if gate.closed_as is None else gate.closed_as
