"""Seals: what passes, what does not, and that each refusal says why."""

import hashlib
import hmac

import pytest

from verbworker.errors import ContractInvalid, PayloadIntegrityError
from verbworker.payload.signature import KeyRing, Seal, SealedPlace, digest

CONTENT = b'{"a":1}'
ZEROS = "0" * 64
MALFORMED = (
    *(f"hmac-sha256::{ZEROS}", f"hmac-sha256-v2:new:{ZEROS}", f"hmac-sha256-v2:new::{ZEROS}"),
    *(f"hmac-sha256-v2:new:-1:{ZEROS}", f"hmac-sha256-v2:new:03:{ZEROS}", f"hmac-sha256-v2:new:99999999999:{ZEROS}"),
    *(f"hmac-sha256:new:3:{ZEROS}", f"hmac-sha256-v3:new:3:{ZEROS}"),
)
OLD, NEW = b"o" * 32, b"n" * 32


def ring(active: str = "new") -> KeyRing:
    return KeyRing(active, {"old": OLD, "new": NEW})


PLACE = SealedPlace("t", "i", 3)


def refusal(seal: Seal, text: object, content: bytes = CONTENT, place: SealedPlace = PLACE) -> str:
    with pytest.raises(PayloadIntegrityError) as caught:
        seal.check(content, text, place)
    return caught.value.code


def unversioned(kid: str = "new") -> str:
    """What an older release signed."""
    return ring().sign_without_version(CONTENT, tenant="t", instance_uid="i", kid=kid)


@pytest.mark.req("PAY-02")
def test_a_plain_seal_is_the_sha256_of_the_exact_bytes() -> None:
    text = Seal.plain().seal(CONTENT, tenant="t", instance_uid="i", version=3)

    assert text == "sha256:" + hashlib.sha256(CONTENT).hexdigest() == digest(CONTENT)


@pytest.mark.parametrize("seal", [Seal.plain(), Seal.from_ring(ring())], ids=["plain", "signed"])
@pytest.mark.req("PAY-07")
def test_what_was_sealed_passes(seal: Seal) -> None:
    text = seal.seal(CONTENT, tenant="t", instance_uid="i", version=3)

    seal.check(CONTENT, text, PLACE)

    assert text.startswith(("sha256:", "hmac-sha256-v2:new:3:"))


@pytest.mark.parametrize("seal", [Seal.plain(), Seal.from_ring(ring())], ids=["plain", "signed"])
@pytest.mark.parametrize("content", [CONTENT + b" ", CONTENT[:-1], b'{"a":2}', b""])
@pytest.mark.req("PAY-07", "PAY-08", "TST-02")
def test_changed_bytes_do_not_pass(seal: Seal, content: bytes) -> None:
    text = seal.seal(CONTENT, tenant="t", instance_uid="i", version=3)

    assert refusal(seal, text, content) == "SealMismatch"


@pytest.mark.parametrize(("tenant", "uid"), [("t", "other"), ("other", "i"), ("ti", ""), ("", "ti")])
@pytest.mark.req("PAY-08")
def test_a_signed_payload_cannot_be_moved_to_another_instance_or_tenant(tenant: str, uid: str) -> None:
    seal = Seal.from_ring(ring())
    text = seal.seal(CONTENT, tenant="t", instance_uid="i", version=3)

    assert refusal(seal, text, CONTENT, SealedPlace(tenant, uid, 3)) == "SealMismatch"


def test_bytes_cannot_slide_between_the_parts_of_a_signature() -> None:
    seal = Seal.from_ring(ring())
    text = seal.seal(b"bc", tenant="t", instance_uid="a", version=3)

    assert refusal(seal, text, b"c", SealedPlace("t", "ab", 3)) == "SealMismatch"


def test_the_key_used_bare_gives_another_signature() -> None:
    bare = hmac.new(NEW, CONTENT, "sha256").hexdigest()

    assert refusal(Seal.from_ring(ring()), f"hmac-sha256-v2:new:3:{bare}") == "SealMismatch"


@pytest.mark.req("PAY-07")
def test_after_rotation_an_older_key_still_verifies_and_the_active_one_signs() -> None:
    before, after = Seal.from_ring(ring("old")), Seal.from_ring(ring("new"))
    text = before.seal(CONTENT, tenant="t", instance_uid="i", version=3)

    after.check(CONTENT, text, PLACE)

    assert text.startswith("hmac-sha256-v2:old:")
    assert after.seal(CONTENT, tenant="t", instance_uid="i", version=3).startswith("hmac-sha256-v2:new:")


def test_a_seal_under_the_name_of_another_key_does_not_pass() -> None:
    text = Seal.from_ring(ring("old")).seal(CONTENT, tenant="t", instance_uid="i", version=3)

    assert refusal(Seal.from_ring(ring()), text.replace(":old:", ":new:")) == "SealMismatch"


@pytest.mark.req("PAY-08")
def test_each_other_refusal_has_its_own_code() -> None:
    plain, signed = Seal.plain(), Seal.from_ring(ring())
    unknown = Seal.from_ring(KeyRing("gone", {"gone": OLD})).seal(CONTENT, tenant="t", instance_uid="i", version=3)

    assert refusal(signed, digest(CONTENT)) == "SealUnsigned"
    assert refusal(plain, signed.seal(CONTENT, tenant="t", instance_uid="i", version=3)) == "SealUnexpectedlySigned"
    assert refusal(signed, unknown) == "SealKeyUnknown"


@pytest.mark.parametrize(
    "text", [None, 7, "", "sha256:", "md5:00", digest(b"").upper(), digest(b"") + "\n", *MALFORMED]
)
@pytest.mark.req("PAY-08")
def test_a_malformed_seal_is_refused_as_malformed(text: object) -> None:
    assert refusal(Seal.plain(), text) == refusal(Seal.from_ring(ring()), text) == "SealMalformed"


@pytest.mark.req("PAY-08")
def test_a_signed_payload_cannot_be_passed_off_as_another_version() -> None:
    seal = Seal.from_ring(ring())
    text = seal.seal(CONTENT, tenant="t", instance_uid="i", version=3)

    assert refusal(seal, text, place=SealedPlace("t", "i", 4)) == "SealVersion"
    assert refusal(seal, text.replace(":3:", ":4:"), place=SealedPlace("t", "i", 4)) == "SealMismatch"


def test_bytes_that_the_instance_never_had_are_checked_as_what_they_claim_to_be() -> None:
    seal = Seal.from_ring(ring())
    nowhere = SealedPlace("t", "i", None)

    seal.check(CONTENT, seal.seal(CONTENT, tenant="t", instance_uid="i", version=3), nowhere)
    assert refusal(seal, unversioned(), place=nowhere) == "SealUnversioned"


@pytest.mark.req("PAY-07")
@pytest.mark.parametrize("kid", ["old", "new"])
def test_a_signature_of_an_older_release_counts_up_to_the_version_that_it_wrote_last(kid: str) -> None:
    seal = Seal.from_ring(ring())

    for version in (None, 0, 3):
        seal.check(CONTENT, unversioned(kid), SealedPlace("t", "i", version, 3))
    assert refusal(seal, unversioned(kid), place=SealedPlace("t", "i", 4, 3)) == "SealUnversioned"
    assert refusal(seal, unversioned(kid), b"other", SealedPlace("t", "i", 3, 3)) == "SealMismatch"


@pytest.mark.parametrize(
    ("active", "secrets", "words"),
    [
        ("a", {"a": b"short"}, "shorter than 32 bytes"),
        ("b", {"a": OLD}, "active key 'b' is not in the key ring"),
        ("a:b", {"a:b": OLD}, "may hold only"),
        ("", {}, "not in the key ring"),
    ],
)
def test_a_bad_key_ring_is_refused_when_it_is_built(active: str, secrets: dict[str, bytes], words: str) -> None:
    with pytest.raises(ContractInvalid, match=words):
        KeyRing(active, secrets)


def test_a_key_ring_never_shows_its_secrets() -> None:
    shown = repr(ring()) + repr(Seal.from_ring(ring())) + str(ring())

    assert "nnnn" not in shown
    assert "oooo" not in shown


def test_a_key_ring_does_not_change_with_the_mapping_it_was_built_from() -> None:
    secrets = {"a": OLD}
    built = KeyRing("a", secrets)
    text = built.sign(CONTENT, tenant="t", instance_uid="i", version=3)

    secrets["a"] = NEW

    assert built.sign(CONTENT, tenant="t", instance_uid="i", version=3) == text
