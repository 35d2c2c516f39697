"""Every metric by name, with its labels. A label never holds a job key."""

from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry


class _KeptChildren:
    """A metric that finds its children by one look-up: the library locks, copies and compares the labels each time.

    To be mixed into a class of the library, which has what `super` names here.
    """

    _kept: dict[tuple[Any, ...], Any] | None = None

    def labels(self, *labelvalues: Any, **labelkwargs: Any) -> Any:
        """Return the child with these labels."""
        kept = self._kept
        if kept is None:
            kept = self._kept = {}
        child = kept.get(labelvalues)
        if child is None or labelkwargs:
            child = super().labels(*labelvalues, **labelkwargs)  # type: ignore[misc]  # the library's
            if not labelkwargs:
                kept[labelvalues] = child
        return child

    def clear(self) -> None:
        """Remove all children."""
        self._kept = None
        super().clear()  # type: ignore[misc]  # the library's


class Counter(_KeptChildren, prometheus_client.Counter):
    """A number that only rises."""


class Gauge(_KeptChildren, prometheus_client.Gauge):
    """A number that rises and falls."""


class Histogram(_KeptChildren, prometheus_client.Histogram):
    """How often values fell into each bucket."""


REGISTRY = CollectorRegistry()
# Seconds, from the time of one statement to the longest start-to-close time that is common.
_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

CLAIMS = Counter("verbworker_claims", "Frames claimed, by kind", ["verb", "kind"], registry=REGISTRY)
DELIVERIES = Counter(
    "verbworker_deliveries_unclaimed",
    "Deliveries that were not claimed, by what was done",
    ["verb", "step"],
    registry=REGISTRY,
)
FENCED = Counter(
    "verbworker_fenced_pops", "Writes refused because another claim owns the frame", ["verb"], registry=REGISTRY
)
REPLAYS = Counter("verbworker_replays", "Stored verdicts sent again on redelivery", ["verb"], registry=REGISTRY)
RELAYS = Counter("verbworker_relays", "Stored verdicts sent again by the relay", ["verb"], registry=REGISTRY)
SWEPT = Counter(
    "verbworker_swept", "Jobs of workers that died, by what the sweep did", ["verb", "decision"], registry=REGISTRY
)
DRIFTS = Counter("verbworker_input_drift", "Redeliveries whose variables had changed", ["verb"], registry=REGISTRY)
MERGES = Counter("verbworker_merges", "Verdicts merged onto a parallel branch's payload", ["verb"], registry=REGISTRY)
AMBIGUOUS = Counter(
    "verbworker_ambiguous_commits",
    "Lost answers to a write, by what had happened",
    ["verb", "found"],
    registry=REGISTRY,
)
OUTCOMES = Counter("verbworker_outcomes", "How runs ended", ["verb", "outcome", "failure_class"], registry=REGISTRY)
ANSWERS = Counter(
    "verbworker_engine_answers", "What the engine said to a verdict", ["command", "answer"], registry=REGISTRY
)
LATENCY = Histogram(
    "verbworker_job_seconds", "From activation to acknowledged", ["verb"], buckets=_FAST, registry=REGISTRY
)
HELD = Gauge("verbworker_held_frames", "Frames that wait for a person", registry=REGISTRY)
UNACKNOWLEDGED = Gauge("verbworker_unacknowledged_frames", "Verdicts the engine has not confirmed", registry=REGISTRY)
UNACKNOWLEDGED_AGE = Gauge(
    "verbworker_unacknowledged_age_seconds", "Age of the oldest unconfirmed verdict", registry=REGISTRY
)
IN_FLIGHT = Gauge("verbworker_in_flight", "Jobs being worked on", ["verb"], registry=REGISTRY)
LIMIT = Gauge("verbworker_limit", "Adaptive limit of concurrent jobs", ["verb"], registry=REGISTRY)
STREAMING = Gauge(
    "verbworker_streaming", "1 while jobs are pushed, 0 while they are polled", ["verb"], registry=REGISTRY
)
SERVICE_FAILURES = Counter(
    "verbworker_service_failures",
    "Failures of background services, by what failed",
    ["service", "kind"],
    registry=REGISTRY,
)
FEED_FAILURES = Counter(
    "verbworker_feed_failures", "Unexpected errors in a loop that takes jobs", ["verb", "loop"], registry=REGISTRY
)
EXTENSIONS = Counter(
    "verbworker_first_extensions", "Jobs that outlived their first, short timeout", ["verb"], registry=REGISTRY
)
LOOP_STALLS = Counter(
    "verbworker_loop_stalls", "Times the event loop was blocked for a third of the lease", registry=REGISTRY
)
LOOP_LAG = Gauge("verbworker_loop_lag_seconds", "How late the event loop is", registry=REGISTRY)
POOL_WAIT = Histogram(
    "verbworker_pool_wait_seconds", "Waiting for a database connection", ["pool"], buckets=_FAST, registry=REGISTRY
)
MESSAGES = Counter("verbworker_messages", "What became of messages from outside", ["outcome"], registry=REGISTRY)
INBOX = Gauge("verbworker_inbox_messages", "Messages that wait to be delivered", registry=REGISTRY)
INBOX_AGE = Gauge("verbworker_inbox_age_seconds", "Age of the oldest message that waits", registry=REGISTRY)
QUOTA_REFUSALS = Counter(
    "verbworker_quota_refusals",
    "Starts and messages refused because a tenant used up a quota",
    ["quota"],
    registry=REGISTRY,
)
QUOTA_SHARE = Gauge(
    "verbworker_quota_share",
    "Used part of a tenant's quota, for the twenty fullest; 1 is all of it",
    ["tenant", "quota"],
    registry=REGISTRY,
)
WAITING_STARTS = Gauge("verbworker_waiting_starts", "Cases that the engine has not started", registry=REGISTRY)
WAITING_STARTS_AGE = Gauge(
    "verbworker_waiting_starts_age_seconds", "Age of the oldest case that the engine has not started", registry=REGISTRY
)
UNSENT_DECISIONS = Gauge(
    "verbworker_unsent_decisions", "Decisions of people that the engine does not have", registry=REGISTRY
)
UNSENT_DECISIONS_AGE = Gauge(
    "verbworker_unsent_decisions_age_seconds",
    "Age of the oldest decision that the engine does not have",
    registry=REGISTRY,
)
DUPLICATES = Counter(
    "verbworker_duplicate_instances", "Engine instances cancelled because their entry has another", registry=REGISTRY
)
ADOPTED = Counter(
    "verbworker_adopted_instances", "Engine instances adopted after the engine re-created them", registry=REGISTRY
)
SEARCH_REFUSED = Gauge(
    "verbworker_search_refused",
    "1 while the cluster refuses a search: its filter (then the worker filters), or all of it (then nothing is found)",
    ["search", "extent"],
    registry=REGISTRY,
)
REPEATED_STEPS = Counter(
    "verbworker_repeated_steps",
    "Jobs answered with the verdict their step got under another key",
    ["verb"],
    registry=REGISTRY,
)
STALLED = Gauge("verbworker_stalled_entries", "Stalled cases with nothing under way", registry=REGISTRY)
OVERDUE_BACKOFFS = Gauge(
    "verbworker_overdue_backoffs", "Failed jobs that the engine should have handed out again", registry=REGISTRY
)
OVERDUE_TIMERS = Gauge("verbworker_overdue_timers", "Waits whose timer should have fired", registry=REGISTRY)
STALLED_MESSAGES = Gauge(
    "verbworker_stalled_messages", "Waits that the engine has not ended though their message came", registry=REGISTRY
)
RETENTION_DROPPED = Counter(
    "verbworker_retention_dropped", "Rows that retention dropped, by what they were", ["kind"], registry=REGISTRY
)
RETENTION_DUE = Gauge(
    "verbworker_retention_due", "Rows that retention has yet to drop, counted up to 10,000", ["kind"], registry=REGISTRY
)
SEALS_REFUSED = Counter(
    "verbworker_seals_refused",
    "Times the record was not sealed because it was changed or its key is missing",
    registry=REGISTRY,
)
