"""The history of one job in plain words: what happened, in order, and why the runtime did it. No I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from verbworker.job.frame import FrameState, FrameStep
from verbworker.job.outcome import PLAIN_SEAL
from verbworker.stores.jobs.histories import FrameEvent, FrameReport, History


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One sentence of a history, with its time."""

    at: datetime
    text: str


def headline(frame: FrameReport) -> str:
    """Return a sentence that identifies the job."""
    entry = f", entry {frame.entry_id}" if frame.entry_id else ""
    return (
        f"Job {frame.job_key} is {frame.verb} at {frame.element_id} of process {frame.process_id}"
        f" version {frame.process_version}, instance {frame.process_instance_key}{entry}."
    )


def explain(history: History) -> list[StoryLine]:
    """Return the whole history, oldest first; the last line describes the current state."""
    story = _Story(history)
    lines = [*story.start(), *story.middle(), *story.verdict()]
    story_lines = [*sorted(lines, key=lambda line: line.at), StoryLine(history.frame.now, describe_state(history))]
    return [StoryLine(line.at, line.text[:1].upper() + line.text[1:]) for line in story_lines]


def moment(at: object) -> str:
    """Format a time for output; the facts of an event hold times as text."""
    if isinstance(at, str):
        at = datetime.fromisoformat(at)
    return at.strftime("%H:%M:%S.%f")[:-3] if isinstance(at, datetime) else "an unknown time"


class _Story:
    """The lines of one job's history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._frame = history.frame

    def start(self) -> Iterator[StoryLine]:
        first = _first_owner(self._history)
        yield StoryLine(
            self._frame.pushed_at,
            f"The engine delivered the job; {self._who(first)} wrote its frame as epoch 1 and began run 1"
            f" ({self._frame.mode} mode).",
        )

    def middle(self) -> Iterator[StoryLine]:
        released = False
        for event in self._history.events:
            yield StoryLine(event.at, self._tell(event, released=released))
            released = event.kind == "released" or (released and event.kind not in ("retry", "release"))
        for at in self._history.conflicts:
            yield StoryLine(
                at,
                "A delivery carried this key but was another job, as a recreated engine hands out. Nothing was"
                " replayed; both sides were kept and that job was stopped as an incident.",
            )

    def verdict(self) -> Iterator[StoryLine]:
        frame = self._frame
        if frame.state is FrameState.COMPLETED and frame.popped_at is not None:
            yield StoryLine(
                frame.popped_at, f"{self._who(frame.owner)} stored the verdict of run {frame.runs}: {_said(frame)}."
            )
        if frame.acked_at is not None:
            yield StoryLine(frame.acked_at, _explain_answer(frame))

    def _who(self, owner: object) -> str:
        if isinstance(owner, str):
            owner = UUID(owner)
        if not isinstance(owner, UUID):
            return "a worker"
        return f"worker {self._history.boots.get(owner, str(owner)[:8])}"

    def _tell(self, event: FrameEvent, *, released: bool) -> str:
        who, facts = self._who(event.owner), event.facts
        match event.kind:
            case "retry" | "takeover" | "release":
                return self._claim(event, released=released)
            case "failed" | "yielded" | "incident" | "held":
                return self._failure(event)
            case "reported" if facts.get("state") == "incident":
                return f"{who} reported it to the engine, which raised an incident: the job waits for a person."
            case "reported":
                return f"{who} reported it to the engine, which will deliver the job again after the delay."
            case "released":
                return _release(facts)
            case "swept":
                return self._sweep(event)
            case _:
                return f"{who} {_PLAIN.get(event.kind, event.kind)}{_reason(event)}."

    def _claim(self, event: FrameEvent, *, released: bool) -> str:
        who, before, facts = self._who(event.owner), self._who(event.facts.get("from")), event.facts
        begun = f"as epoch {event.epoch} and began run {facts.get('run', '?')}"
        if event.kind == "takeover":
            return (
                f"The engine delivered the job again; {who} took it over {begun}: the lease of {before} had run out at"
                f" {moment(facts.get('lease_until'))} without a heartbeat. What {before} still writes is refused."
            )
        if event.kind == "release":
            return (
                f"The engine delivered the job although it was held; {who} claimed it {begun}: it came long after the"
                " incident was reported, so a person resolved it in the engine."
            )
        why = "a person had released it" if released else "its last run had failed and the delay was over"
        return f"The engine delivered the job again; {who} claimed it {begun}: {why}."

    def _sweep(self, event: FrameEvent) -> str:
        who, before, facts = self._who(event.owner), self._who(event.facts.get("from")), event.facts
        over = f"{who} found that the lease of {before} had run out at {moment(facts.get('lease_until'))}"
        match facts.get("decision"):
            case FrameStep.CLAIM_AGAIN:
                then = "gave the run back, so that the engine delivers the job again. It costs no retry"
            case FrameStep.REPORT_RETRY | FrameStep.REPORT_INCIDENT:
                then = "reported the failure in its place"
            case _:
                then = (
                    f"held the job for a person instead of running it again ({facts.get('code')}: {facts.get('text')})"
                )
        return f"{over} and {then}. What {before} still writes is refused."

    def _failure(self, event: FrameEvent) -> str:
        who, facts = self._who(event.owner), event.facts
        text = f"{facts.get('code')}: {facts.get('text')}"
        match event.kind:
            case "failed":
                return (
                    f"The run of {who} failed ({facts.get('class')} {text}). The failure was stored;"
                    f" {_retries(facts)} left and the next run may begin at {moment(facts.get('next'))}."
                )
            case "yielded":
                return (
                    f"{who} gave the run back ({text}): our own infrastructure failed, so it costs no retry;"
                    f" {_retries(facts)} left and the next run may begin at {moment(facts.get('next'))}."
                )
            case "incident":
                return f"The run of {who} was stopped for a person ({facts.get('class')} {text})."
        return (
            f"The engine delivered the job again, but {who} held it for a person instead of running it ({text})."
            f" The lease of {self._who(facts.get('from'))} had run out at {moment(facts.get('lease_until'))}."
        )


_PLAIN: Mapping[str, str] = {
    "abandoned": "shut down while an external call may have been in progress; the frame was left unchanged",
    "busy": "got another delivery while the owner's lease was alive, so it dropped it",
    "closed": "learned from the engine that the job no longer exists, and closed the frame",
    "continue": "got its own claim again, whose answer had been lost on the way, and went on with it",
    "failure fenced": "could not report the failure: the engine has leased the job again; its next delivery reports it",
    "failure suspended": "could not report the failure: the instance is suspended; it is reported after that",
    "failure gone": "could not report the failure: the job no longer exists in the engine",
    "fenced": "found that another worker owns the frame, so it wrote and sent nothing more",
    "input drift": "found that the variables had changed; the verdict is kept, because its effect happened once",
    "over time": "still runs the verb past its time limit: the verb ignores its cancellation; restart that worker",
    "older flags": "found flags of the job with a value that the case had before, and followed them",
    "outpaced": "lost every race for the frame to other deliveries, so it left the job to them",
    "relay": "sent the stored verdict again, because the engine had not acknowledged it",
    "replay": "got another delivery of the finished job and answered with the stored verdict; nothing ran again",
    "report repeated": "got another delivery before the failure was reported: reported it now instead of running",
    "superseded": "got an older delivery after a later one had been claimed, so it dropped it",
    "verdict fenced": "sent the verdict, but the engine has leased the job again; its next delivery sends the verdict",
    "verdict suspended": "sent the verdict, but the instance is suspended; it is sent again until that is over",
    "verdict not active": "sent the verdict, but the engine holds the job in an incident; it is sent again after that",
    "verdict refused": "sent the verdict, but the engine rejects it; a person must look",
    "verdict unavailable": "sent the verdict, but the engine did not answer; the relay sends it again",
    "wait": "got another delivery right after the incident was reported, too soon for a person, so it dropped it",
}
"""What a worker did, by event kind, for events without facts of their own."""


def _reason(event: FrameEvent) -> str:
    is_complete = event.kind in _PLAIN and not event.kind.startswith(("verdict ", "older flags"))
    return "" if is_complete or not event.detail else f" ({event.detail})"


def _first_owner(history: History) -> UUID | str | None:
    if history.frame.epoch == 1:
        return history.frame.owner
    for event in history.events:
        before = event.facts.get("from")
        if event.epoch == 2 and isinstance(before, str):
            return before
    return None


def _retries(facts: Mapping[str, object]) -> str:
    left = facts.get("retries_left")
    return "1 retry is" if left == 1 else f"{left} retries are"


def _release(facts: Mapping[str, object]) -> str:
    by, reason = facts.get("by") or "a person", facts.get("reason") or "no reason given"
    how = "as new, under a new idempotency key" if facts.get("as_new") else "under the same idempotency key"
    return f"{by} released the job {how} ({reason}); {_retries(facts)} left."


def _said(frame: FrameReport) -> str:
    if frame.outcome == "bpmn_error":
        return f"the BPMN error {frame.error_code} ({frame.fail_text})"
    if frame.output_seal == PLAIN_SEAL:
        return f"completed with {frame.output_bytes} bytes of variables, as a plain job"
    flags = ", ".join(f"{name} = {value}" for name, value in sorted(frame.flags.items()))
    return f"completed with {frame.output_bytes} bytes of payload{f' and {flags}' if flags else ''}"


def _explain_answer(frame: FrameReport) -> str:
    if frame.state is FrameState.FAILED:
        return "The job no longer exists in the engine: it was cancelled, or the process continued without it."
    if frame.ack_result == "gone":
        return (
            "The engine answered that the job does not exist: an earlier answer that got lost had completed it, or its"
            " instance was cancelled. Nothing is left to do."
        )
    return "The engine acknowledged the verdict."


def describe_state(history: History) -> str:
    """Describe the current state and what happens next."""
    frame = history.frame
    times = f"{frame.deliveries} {'delivery' if frame.deliveries == 1 else 'deliveries'}"
    match frame.state:
        case FrameState.COMPLETED if frame.acked_at is not None:
            place = " and archived" if frame.archived else ""
            return f"The job is finished after {times}{place}."
        case FrameState.COMPLETED:
            return "The verdict is final; it is sent to the engine until the engine acknowledges it."
        case FrameState.FAILED if frame.acked_at is not None:
            return f"The job is gone from the engine after {times}; nothing is left to do."
        case FrameState.FAILED:
            due = moment(frame.next_retry_at)
            left = _retries({"retries_left": frame.retries_left})
            return f"The job waits for the engine to deliver it again; it may run from {due}, {left} left."
        case FrameState.INCIDENT:
            text = (
                "" if frame.reported_at else " The engine does not know yet; the sweep or the next delivery reports it."
            )
            return (
                f"The job is held ({frame.fail_class} {frame.fail_code}: {frame.fail_text}) until a person releases it:"
                f" verbworker frames release {frame.job_key} --reason ...{text}"
            )
        case FrameState.STARTED if frame.lease_until >= frame.now:
            return f"Run {frame.runs} is in progress; its lease ends at {moment(frame.lease_until)}."
        case FrameState.STARTED:
            return f"The owner's last sign of life was before {moment(frame.lease_until)}. {_when_swept(frame)}"


def _when_swept(frame: FrameReport) -> str:
    if frame.runs >= frame.max_runs:
        return f"Its {frame.runs} runs never answered, so the sweep or the next delivery holds the job for a person."
    if frame.mode == "external" and frame.on_unknown == "hold":
        return "Its external call may have happened and must not be repeated, so the job is held for a person next."
    return "Another worker takes the job over: a few seconds after its lease, or when the engine delivers it again."
