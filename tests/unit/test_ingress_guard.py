"""The guard of the ingress: signatures, keys, tokens, rates, and settings that leave no door open."""

import base64
import hmac
import json
import time
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from verbworker.api.guard import Guard, KnownSenders, Sender
from verbworker.api.server import make_guard
from verbworker.api.settings import ApiScope, Credentials, IngressSettings, Oidc, load
from verbworker.api.webhook import Signed, parse_signature, secret_of
from verbworker.errors import ContractInvalid
from verbworker.http.live_credentials import LiveCredentials
from verbworker.http.oidc import Issuer
from verbworker.http.rate import Rates

NOW = 1_614_265_330.0
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD_SECRET = "whsec_" + base64.b64encode(b"an older secret of 32 bytes.....").decode()
BODY = b'{"test": 2432232314}'
# The published example of the Standard Webhooks libraries: id, time, body, secret and signature belong together.
VECTOR = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
KEY = "portal-key-1"
CREDENTIALS = Credentials.model_validate(
    {
        "api_keys": [
            {"name": "portal", "tenant": "acme", "sha256": sha256(KEY.encode()).hexdigest()},
            {"name": "other", "tenant": "globex", "sha256": sha256(b"another").hexdigest()},
        ],
        "webhooks": [{"name": "scanner", "tenant": "acme", "secrets": [SECRET, OLD_SECRET]}],
    }
)
GUARD = Guard(LiveCredentials(lambda: KnownSenders(CREDENTIALS)), tolerance=300, now=lambda: NOW)


def sign(secret: str, body: bytes, *, at: float = NOW, webhook_id: str = "w-1") -> dict[str, str]:
    said = f"{webhook_id}.{int(at)}.".encode() + body
    made = base64.b64encode(hmac.new(secret_of(secret), said, sha256).digest()).decode()
    return {"webhook-id": webhook_id, "webhook-timestamp": str(int(at)), "webhook-signature": f"v1,{made}"}


async def signer(headers: dict[str, str], body: bytes = BODY) -> Sender | None:
    claim = await GUARD.ask(headers)
    return GUARD.signer(claim, body) if isinstance(claim, Signed) else None


async def test_the_published_example_of_the_standard_holds() -> None:
    assert await signer(VECTOR) == Sender("scanner", "acme")


@pytest.mark.parametrize("secret", [SECRET, OLD_SECRET])
async def test_every_secret_of_a_sender_counts_while_they_are_changed(secret: str) -> None:
    assert await signer(sign(secret, BODY)) == Sender("scanner", "acme")


async def test_one_good_signature_among_several_is_enough() -> None:
    headers = sign(SECRET, BODY)
    headers["webhook-signature"] = f"v1,AAAA v1a,xyz {headers['webhook-signature']}"

    assert await signer(headers) == Sender("scanner", "acme")


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "another"},
        {"webhook-timestamp": "1614265331"},
        {"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OA="},
        {"webhook-signature": "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
        {"webhook-signature": "v1,not base64"},
        {"webhook-signature": ""},
        {"webhook-timestamp": "yesterday"},
        {"webhook-timestamp": "-1614265330"},
        {"webhook-id": ""},
    ],
)
async def test_a_signature_that_was_made_for_something_else_does_not_hold(change: dict[str, str]) -> None:
    assert await signer({**VECTOR, **change}) is None


async def test_a_signature_does_not_hold_for_another_body() -> None:
    assert await signer(VECTOR, BODY + b" ") is None


@pytest.mark.parametrize(("age", "is_fresh"), [(299, True), (301, False), (-299, True), (-301, False)])
def test_a_signature_is_good_for_five_minutes_either_way(age: float, is_fresh: bool) -> None:
    assert (parse_signature(sign(SECRET, BODY, at=NOW - age), now=NOW, tolerance=300) is not None) is is_fresh


@pytest.mark.parametrize("secret", ["whsec_", "whsec_c2hvcnQ=", "whsec_not base64 at all ..........."])
def test_a_secret_that_is_too_short_or_no_base64_is_refused_without_repeating_it(secret: str) -> None:
    with pytest.raises(ContractInvalid) as refused:
        secret_of(secret)

    assert secret.removeprefix("whsec_") == "" or secret.removeprefix("whsec_") not in str(refused.value)


async def test_a_key_belongs_to_one_tenant() -> None:
    assert await GUARD.ask({"x-api-key": KEY}) == Sender("portal", "acme")
    assert await GUARD.ask({"x-api-key": "another"}) == Sender("other", "globex")


@pytest.mark.parametrize("headers", [{}, {"x-api-key": ""}, {"x-api-key": KEY + "x"}, {"authorization": "Bearer x"}])
async def test_who_shows_nothing_that_holds_is_nobody(headers: dict[str, str]) -> None:
    assert await GUARD.ask(headers) is None


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    rates = Rates(per_second=2.0, burst=3)
    waits = [rates.wait("a", 100.0) for _ in range(4)]

    assert waits == [0.0, 0.0, 0.0, 0.5]
    assert rates.wait("a", 100.5) == 0.0
    assert rates.wait("a", 100.5) == 0.5


def test_each_sender_has_a_bucket_of_its_own() -> None:
    rates = Rates(per_second=1.0, burst=1)
    rates.wait("a", 100.0)

    assert (rates.wait("b", 100.0), rates.wait("a", 100.0)) == (0.0, 1.0)


def test_a_pause_fills_a_bucket_no_higher_than_its_burst() -> None:
    rates = Rates(per_second=10.0, burst=2)
    rates.wait("a", 0.0)

    assert [rates.wait("a", 1000.0) for _ in range(3)][:2] == [0.0, 0.0]
    assert rates.wait("a", 1000.0) > 0


RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ISSUER = "https://issuer.test"


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    keys = [
        {**RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True), "kid": "rsa", "use": "sig"},
        {**ECAlgorithm.to_jwk(EC_KEY.public_key(), as_dict=True), "kid": "ec"},
        {**RSAAlgorithm.to_jwk(OTHER_KEY.public_key(), as_dict=True), "kid": "enc", "use": "enc"},
    ]
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": keys}))
    return Issuer(ISSUER, "verbworker", str(file))


async def sender_of(issuer: Issuer, token: str) -> Sender | None:
    oidc = Oidc(issuer=ISSUER, audience="verbworker", jwks="keys", tenant_claim="org")
    senders = KnownSenders(Credentials(oidc=oidc), lambda _: issuer)
    guard = Guard(LiveCredentials(lambda: senders), tolerance=300)
    found = await guard.ask({"authorization": f"Bearer {token}"})
    assert not isinstance(found, Signed)
    return found


def token(key: Any = RSA_KEY, algorithm: str = "RS256", kid: str | None = "rsa", **changes: object) -> str:
    claims = {"iss": ISSUER, "aud": "verbworker", "sub": "svc", "org": "acme", "exp": time.time() + 60, **changes}
    left = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(left, key, algorithm, headers={} if kid is None else {"kid": kid})


async def test_a_token_of_the_issuer_speaks_for_the_tenant_it_names(issuer: Issuer) -> None:
    for good in (token(), token(EC_KEY, "ES256", "ec")):
        assert await sender_of(issuer, good) == Sender("oidc:svc", "acme", issuer=ISSUER, subject="svc")


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://evil.test"},
        {"aud": "somebody else"},
        {"exp": 1},
        {"exp": None},
        {"aud": None},
        {"sub": None},
        {"org": None},
        {"org": ["acme"]},
        {"nbf": time.time() + 3600},
        {"kid": "unknown"},
        {"kid": None},
        {"key": OTHER_KEY},
        {"key": OTHER_KEY, "kid": "enc"},
        {"key": "a shared secret that is long enough for it", "algorithm": "HS256"},
    ],
)
async def test_a_token_with_anything_wrong_speaks_for_nobody(issuer: Issuer, wrong: dict[str, Any]) -> None:
    assert await sender_of(issuer, token(**wrong)) is None


async def test_a_token_without_a_signature_speaks_for_nobody(issuer: Issuer) -> None:
    unsigned = jwt.encode({"iss": ISSUER, "aud": "verbworker", "sub": "s", "org": "acme", "exp": 9e9}, "", "none")

    assert await sender_of(issuer, unsigned) is None
    assert await sender_of(issuer, "no.token.atall") is None


async def test_new_keys_of_the_issuer_are_read_but_not_for_every_stranger(tmp_path: Path) -> None:
    file, clock = tmp_path / "jwks.json", [1000.0]
    issuer = Issuer(ISSUER, "verbworker", str(file), now=lambda: clock[0])
    before = await issuer.claims(token())
    file.write_text(json.dumps({"keys": [{**RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True), "kid": "rsa"}]}))
    at_once = await issuer.claims(token())
    clock[0] += 61
    later = await issuer.claims(token())

    assert (before, at_once, later is not None) == (None, None, True)


async def test_a_key_that_the_issuer_withdrew_is_accepted_for_ten_minutes_at_most(tmp_path: Path) -> None:
    clock, file = [0.0], tmp_path / "keys.json"
    key = {**RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True), "kid": "rsa"}
    file.write_text(json.dumps({"keys": [key]}))
    issuer = Issuer(ISSUER, "verbworker", str(file), now=lambda: clock[0])
    before = await issuer.claims(token())
    file.write_text("<html>the issuer restarts</html>")
    clock[0] = 601.0
    away = await issuer.claims(token())
    file.write_text(json.dumps({"keys": []}))
    clock[0] = 662.0

    assert before is not None
    assert away is not None
    assert await issuer.claims(token()) is None


def test_the_issuers_keys_do_not_come_over_plain_http() -> None:
    with pytest.raises(ContractInvalid, match="https"):
        Issuer(ISSUER, "a", "http://keys.test/jwks.json")


def test_without_credentials_nobody_may_send() -> None:
    with pytest.raises(ContractInvalid, match="VERBWORKER_INGRESS_CREDENTIALS_FILE"):
        make_guard(IngressSettings(), is_open=False)


async def test_on_this_machine_anybody_may_send_when_that_is_asked_for() -> None:
    guard = make_guard(IngressSettings(), is_open=True)

    assert await guard.ask({}) == Sender("anybody", None, frozenset(ApiScope))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.test"])
def test_an_open_door_is_never_for_other_machines(host: str) -> None:
    with pytest.raises(ContractInvalid, match="only listen on this machine"):
        make_guard(IngressSettings(host=host), is_open=True)


def test_an_open_door_and_credentials_exclude_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBWORKER_INGRESS_CREDENTIALS", CREDENTIALS.model_dump_json(include={"api_keys"}))

    with pytest.raises(ContractInvalid, match="cannot be combined"):
        make_guard(load(), is_open=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no json", "not JSON"),
        ('{"api_keys": [{"name": "a", "tenant": "t", "sha256": "short"}]}', r"api_keys\.0\.sha256"),
        ('{"keys": []}', "keys"),
        ('{"webhooks": [{"name": "a", "tenant": "t", "secrets": []}]}', "secrets"),
    ],
)
def test_credentials_that_do_not_fit_are_refused_by_place(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "credentials.json"
    file.write_text(text)

    with pytest.raises(ContractInvalid, match=words):
        IngressSettings(credentials_file=file).load_credentials()


def test_two_credentials_may_not_share_a_name(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    one = {"name": "a", "tenant": "t", "sha256": "0" * 64}
    file.write_text(json.dumps({"api_keys": [one, one]}))

    with pytest.raises(ContractInvalid, match="same name"):
        IngressSettings(credentials_file=file).load_credentials()


def test_settings_come_from_the_environment_and_the_command_line_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBWORKER_INGRESS_PORT", "9000")
    monkeypatch.setenv("VERBWORKER_INGRESS_MESSAGE_TTL", "90")

    assert (load().port, load(port=9001).port, load().message_ttl) == (9000, 9001, timedelta(seconds=90))


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBWORKER_INGRESS_BODY_LIMIT", "7")

    with pytest.raises(ContractInvalid, match="VERBWORKER_INGRESS_BODY_LIMIT"):
        load()


async def test_a_credential_allows_messages_and_nothing_more_unless_its_scopes_say_so() -> None:
    keys = [{"name": name, "tenant": "acme", "sha256": sha256(name.encode()).hexdigest()} for name in ("old", "new")]
    keys[1] |= {"scopes": ["read", "start"]}  # type: ignore[dict-item]  # as JSON has it
    senders = KnownSenders(Credentials.model_validate({"api_keys": keys}))
    guard = Guard(LiveCredentials(lambda: senders), tolerance=300)

    old, new = await guard.ask({"x-api-key": "old"}), await guard.ask({"x-api-key": "new"})

    assert isinstance(old, Sender)
    assert isinstance(new, Sender)
    assert (old.scopes, new.scopes) == (frozenset({ApiScope.MESSAGES}), frozenset({ApiScope.READ, ApiScope.START}))
    with pytest.raises(ValueError, match="scopes"):
        Credentials.model_validate({"api_keys": [keys[0] | {"scopes": ["everything"]}]})
