"""Seals: the text beside a payload that proves its bytes are the ones we wrote.

A plain seal is a SHA-256 and detects accidents. A signed seal is an HMAC over tenant, instance, version and bytes: a
client that can write process variables can neither forge it, nor move a payload to another instance, nor pass an older
payload off as a newer one. Older releases signed without the version; the prefix of the seal tells which form it has.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from verbworker.errors import ContractInvalid, PayloadIntegrityError

MIN_SECRET = 32  # bytes, as long as the hash

# A signature made for this purpose is invalid for any other, even with the same key.
_PURPOSE = b"verbworker/payload-seal/v2"
_UNVERSIONED_PURPOSE = b"verbworker/payload-seal/v1"
_KID = r"[A-Za-z0-9._-]{1,64}"
_SEAL = re.compile(
    rf"(?:sha256|hmac-sha256:(?P<old_kid>{_KID})|hmac-sha256-v2:(?P<kid>{_KID}):(?P<version>0|[1-9][0-9]{{0,9}}))"
    r":[0-9a-f]{64}"
)


def digest(content: bytes) -> str:
    """Return the `sha256:<hex>` of exactly these bytes."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Signing keys by their kid: one signs, all verify, so that keys can be rotated."""

    active: str
    secrets: Mapping[str, bytes] = field(repr=False)

    def __post_init__(self) -> None:
        for kid, secret in self.secrets.items():
            if not re.fullmatch(_KID, kid):
                raise ContractInvalid(f"key id {kid!r} may hold only letters, digits, dot, dash and underscore")
            if len(secret) < MIN_SECRET:
                raise ContractInvalid(f"the secret of key {kid!r} is shorter than {MIN_SECRET} bytes")
        if self.active not in self.secrets:
            raise ContractInvalid(f"the active key {self.active!r} is not in the key ring")
        object.__setattr__(self, "secrets", dict(self.secrets))

    def sign(self, content: bytes, *, tenant: str, instance_uid: str, version: int, kid: str = "") -> str:
        """Return the signed seal of `content` as this version, made with the key `kid` or else the active one."""
        kid = kid or self.active
        parts = _PURPOSE, tenant.encode(), instance_uid.encode(), str(version).encode(), content
        return f"hmac-sha256-v2:{kid}:{version}:{self.authenticate(kid, *parts).hex()}"

    def sign_without_version(self, content: bytes, *, tenant: str, instance_uid: str, kid: str) -> str:
        """Return the seal that older releases made with the key `kid`, to check what they left."""
        parts = _UNVERSIONED_PURPOSE, tenant.encode(), instance_uid.encode(), content
        return f"hmac-sha256:{kid}:{self.authenticate(kid, *parts).hex()}"

    def authenticate(self, kid: str, *parts: bytes) -> bytes:
        """Return the HMAC of some parts with one of the keys; the first part names the purpose."""
        signer = hmac.new(self.secrets[kid], digestmod="sha256")
        for part in parts:
            # Each part is prefixed with its length, so that no two different lists of parts give the same stream.
            signer.update(len(part).to_bytes(8, "big"))
            signer.update(part)
        return signer.digest()


@dataclass(frozen=True, slots=True)
class SealedPlace:
    """Where a payload belongs: what a signed seal is bound to besides the bytes."""

    tenant: str
    instance_uid: str
    version: int | None  # None for bytes that this instance never had
    # The last version that an older release may have signed; None if it signed none.
    unversioned_until: int | None = None

    @property
    def may_lack_version(self) -> bool:
        """Return whether the seal may be one that does not name the version."""
        return self.unversioned_until is not None and (self.version is None or self.version <= self.unversioned_until)


@dataclass(frozen=True, slots=True)
class Seal:
    """How a workflow verb's payloads are sealed and checked: `Seal.plain()` or `Seal.from_ring(ring)`."""

    ring: KeyRing | None = None

    @classmethod
    def plain(cls) -> "Seal":
        """Return a seal by hash, which detects accidents."""
        return cls()

    @classmethod
    def from_ring(cls, ring: KeyRing) -> "Seal":
        """Return a seal by signature, which also detects tampering and swapped payloads."""
        return cls(ring)

    def seal(self, content: bytes, *, tenant: str, instance_uid: str, version: int) -> str:
        """Return the text for `domain_payload_hash`."""
        if self.ring is None:
            return digest(content)
        return self.ring.sign(content, tenant=tenant, instance_uid=instance_uid, version=version)

    def check(self, content: bytes, seal: object, place: SealedPlace) -> None:
        """Raise `PayloadIntegrityError` unless `seal`, as it was delivered or stored, fits `content` at its place."""
        found = _SEAL.fullmatch(seal) if isinstance(seal, str) else None
        if found is None:
            raise PayloadIntegrityError("the payload hash is missing or malformed", code="SealMalformed")
        expected = self._compute(found, content, place)
        if not hmac.compare_digest(expected, found[0]):
            raise PayloadIntegrityError("the payload does not match its hash", code="SealMismatch")
        if found["version"] is not None and place.version not in (None, int(found["version"])):
            raise PayloadIntegrityError(
                f"the payload was signed as version {found['version']} and comes as version {place.version}",
                code="SealVersion",
            )

    def _compute(self, found: re.Match[str], content: bytes, place: SealedPlace) -> str:
        """Return the seal `content` must have, given the form and the key that a seal names."""
        kid: str | None = found["kid"] or found["old_kid"]
        if self.ring is None:
            if kid is not None:
                message = "the payload hash is signed, but this verb is declared with plain integrity"
                raise PayloadIntegrityError(message, code="SealUnexpectedlySigned")
            return digest(content)
        if kid is None:
            message = "the payload has a plain hash, but this verb requires a signed one"
            raise PayloadIntegrityError(message, code="SealUnsigned")
        if kid not in self.ring.secrets:
            raise PayloadIntegrityError(f"the payload was signed with the unknown key {kid!r}", code="SealKeyUnknown")
        tenant, instance_uid = place.tenant, place.instance_uid
        if found["version"] is not None:
            version = int(found["version"])
            return self.ring.sign(content, tenant=tenant, instance_uid=instance_uid, version=version, kid=kid)
        if not place.may_lack_version:
            message = "the payload's signature does not name its version, and this version was signed with it"
            raise PayloadIntegrityError(message, code="SealUnversioned")
        return self.ring.sign_without_version(content, tenant=tenant, instance_uid=instance_uid, kid=kid)
