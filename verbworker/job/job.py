"""One activation of a service task, as delivered by any engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field

PAYLOAD = "domain_payload"
PAYLOAD_HASH = "domain_payload_hash"
ENTRY_ID = "vw_entry_id"
INSTANCE_UID = "vw_instance_uid"
TENANT_ID = "vw_tenant_id"
RESERVED = (PAYLOAD, PAYLOAD_HASH, ENTRY_ID, INSTANCE_UID, TENANT_ID)
"""The variables every job fetches, besides a workflow verb's flags and correlation keys."""


@dataclass(frozen=True, slots=True)
class Job:
    """One delivery of one job. The key is stable across redeliveries, `activated_ms` is not."""

    key: int
    type: str
    retries: int
    activated_ms: int  # the engine's clock: a later delivery of one key has a larger number
    timeout_ms: int
    process_instance_key: int
    element_instance_key: int
    process_definition_key: int
    process_version: int
    process_id: str
    element_id: str
    tenant_id: str
    variables: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    # Proves to the engine that a command comes from this delivery; None if it was not leased. Never logged.
    lease_token: str | None = field(default=None, repr=False)

    def with_timeout(self, timeout_ms: int) -> "Job":
        """Return the job with another timeout. On the hot path: `replace` takes twice as long."""
        return Job(
            self.key,
            self.type,
            self.retries,
            self.activated_ms,
            timeout_ms,
            self.process_instance_key,
            self.element_instance_key,
            self.process_definition_key,
            self.process_version,
            self.process_id,
            self.element_id,
            self.tenant_id,
            self.variables,
            self.headers,
            self.lease_token,
        )
