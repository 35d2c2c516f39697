"""Quotas: the most that one tenant may have open, or ask for within a minute."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Quota:
    """The quotas of one tenant; None is no limit. A field is the name that settings and refusals use."""

    open_cases: int | None = None
    starts_per_minute: int | None = None
    messages_per_minute: int | None = None
    message_bytes_per_minute: int | None = None
    waiting_messages: int | None = None

    @property
    def limits_starts(self) -> bool:
        """Whether a start has to be counted or compared."""
        return any((self.open_cases, self.starts_per_minute))

    @property
    def limits_messages(self) -> bool:
        """Whether a message from outside has to be counted or compared."""
        return any((self.messages_per_minute, self.message_bytes_per_minute, self.waiting_messages))

    def limits(self) -> dict[str, int]:
        """Return the quotas that are set, by name."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: limit for name, limit in found.items() if limit is not None}


UNLIMITED = Quota()


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of every tenant: the usual ones, and those of tenants with their own."""

    usual: Quota = UNLIMITED
    of_tenants: Mapping[str, Quota] = field(default_factory=dict)

    def of(self, tenant_id: str) -> Quota:
        """Return the quotas of one tenant."""
        return self.of_tenants.get(tenant_id, self.usual)


NO_QUOTAS = Quotas()

_WORDS = {
    "open_cases": ("has {limit:,} open cases", "end some of them"),
    "starts_per_minute": ("has started {limit:,} verbs within this minute", "try again in {seconds} s"),
    "messages_per_minute": ("has sent {limit:,} messages within this minute", "try again in {seconds} s"),
    "message_bytes_per_minute": (
        "has sent messages of {limit:,} bytes within this minute",
        "try again in {seconds} s",
    ),
    "waiting_messages": (
        "has {limit:,} messages that no case has taken yet",
        "try again when some are delivered or have expired",
    ),
}


def explain(tenant_id: str, quota: str, limit: int, seconds: int) -> str:
    """Return the sentence for a refusal: which quota is used up, and what to do."""
    found, advice = _WORDS[quota]
    words = found.format(limit=limit)
    return f"the tenant {tenant_id} {words}, and its quota {quota} allows no more; {advice.format(seconds=seconds)}"
