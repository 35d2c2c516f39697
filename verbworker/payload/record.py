"""The payload of record: the newest version of an instance's payload, as the database has it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from verbworker.errors import PayloadIntegrityError
from verbworker.payload.signature import Seal, SealedPlace


@dataclass(frozen=True, slots=True)
class Head:
    """The newest payload of an instance with its seal and flags; with its correlation keys when locked."""

    content: bytes
    hash: bytes
    version: int
    seal: str | None = None
    unversioned_until: int | None = None
    flags: Mapping[str, object] | None = None
    correlation: Mapping[str, str] = field(default_factory=dict)

    def check(self, seal: Seal, *, tenant: str, instance_uid: UUID) -> bytes:
        """Return the content if its stored seal proves it; raise `PayloadIntegrityError` otherwise.

        Older releases stored no seal. A plain one would only repeat the hash, which was compared on reading.
        """
        if self.seal is None and seal.ring is None:
            return self.content
        if self.seal is None:
            raise PayloadIntegrityError(
                "the payload of record has no signature: a worker of an older release or a database user wrote it",
                code="HeadUnsigned",
            )
        seal.check(
            self.content, self.seal, SealedPlace(tenant, str(instance_uid), self.version, self.unversioned_until)
        )
        return self.content
