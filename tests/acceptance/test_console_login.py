"""Login at an OpenID issuer: the way there and back, and every way in which somebody else's answer is refused."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.issuer import CLIENT, SECRET, Issuer, issuer
from tests.support.postgres import Template
from tests.support.site import Answer, Site, Visitor, site


@pytest.fixture(scope="module")
def issuing() -> Iterator[Issuer]:
    with issuer() as made:
        made.claims["tenant_id"] = "default"
        yield made


@pytest.fixture
def known(issuing: Issuer) -> Issuer:
    issuing.lies, issuing.refused = {}, []
    return issuing


def logins(known: Issuer, **changes: Any) -> str:
    return json.dumps({"oidc": {"issuer": known.url, "client_id": CLIENT, "client_secret": SECRET, **changes}})


@pytest.fixture(scope="module")
def running(issuing: Issuer, tmp_path_factory: pytest.TempPathFactory, database_template: Template) -> Iterator[Site]:
    folder, settings = tmp_path_factory.mktemp("console"), {"VERBWORKER_CONSOLE_CREDENTIALS": logins(issuing)}
    with database_template.clone() as dsn, site(folder, dsn, directory=folder, **settings) as opened:
        yield opened


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def at_issuer(place: str) -> str:
    """Log in there and return where the browser is sent back to."""
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay).open(place, timeout=10)
    except urllib.error.HTTPError as answer:
        with answer:
            return urlsplit(answer.headers["Location"])._replace(scheme="", netloc="").geturl()
    raise AssertionError("the issuer did not send the browser back")


def log_in(visitor: Visitor, path: str = "/login/issuer?next=%2Fgates") -> Answer:
    return visitor.get(at_issuer(visitor.get(path).headers["location"]))


def test_somebody_logs_in_at_the_issuer_and_is_known_by_name(running: Site, known: Issuer) -> None:
    visitor = running.visitor()
    offered = visitor.get("/login").text
    back = log_in(visitor)
    page = visitor.get("/gates").text

    assert ("Log in with your organisation" in offered, 'name="key"' in offered) == (True, False)
    assert (back.status, back.headers["location"]) == (303, "/gates")
    assert "ada" in page
    assert "default" in page


def test_what_the_browser_is_sent_with_fits_the_standard(running: Site) -> None:
    visitor = running.visitor()
    place = visitor.get("/login/issuer").headers["location"]
    asked = {name: values[0] for name, values in parse_qs(urlsplit(place).query).items()}
    (cookie,) = visitor.get("/login/issuer").cookies

    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert asked["redirect_uri"] == f"{running.url}/login/back"
    assert "openid" in asked["scope"].split()
    assert len(asked["state"]) >= 32
    assert asked["nonce"] != asked["state"]
    assert {"HttpOnly", "SameSite=lax"} <= set(cookie.split("; "))


@pytest.mark.parametrize(
    ("lies", "words"),
    [
        ({"nonce": "another"}, "answered a different login"),
        ({"nonce": None}, "answered a different login"),
        ({"aud": "somebody-else"}, "sent an invalid token"),
        ({"iss": "http://evil.test"}, "sent an invalid token"),
        ({"exp": 1}, "sent an invalid token"),
        ({"azp": "somebody-else"}, "for another client"),
        ({"tenant_id": None}, "which tenant you belong to"),
        ({"tenant_id": ["default"]}, "which tenant you belong to"),
    ],
)
def test_a_token_with_anything_wrong_lets_nobody_in(
    running: Site, known: Issuer, lies: dict[str, Any], words: str
) -> None:
    known.lies = lies
    visitor = running.visitor()
    back = log_in(visitor)

    assert (back.status, words in back.sentence) == (403, True)
    assert visitor.get("/gates").status == 303


def test_an_answer_to_somebody_elses_login_is_refused(running: Site, known: Issuer) -> None:
    mallory, ann = running.visitor(), running.visitor()
    planted = at_issuer(mallory.get("/login/issuer").headers["location"])
    ann.get("/login/issuer")
    other = ann.get(planted)
    bare = running.visitor().get(planted)
    refused = ann.get("/login/back?error=access_denied")

    assert [answer.status for answer in (other, bare, refused)] == [403] * 3
    assert other.sentence == "This answer belongs to another login. Log in again."


def test_a_code_counts_once(running: Site, known: Issuer) -> None:
    visitor = running.visitor()
    back = at_issuer(visitor.get("/login/issuer").headers["location"])
    attempt = dict(visitor.cookies)
    first = visitor.get(back)
    visitor.cookies = attempt
    second = visitor.get(back)

    assert (first.status, second.status) == (303, 403)
    assert known.refused == ["no such code"]


def test_an_issuer_that_calls_itself_otherwise_or_is_away_lets_nobody_in(
    known: Issuer, tmp_path: Path, dsn: str
) -> None:
    known.lies = {"issuer": "http://evil.test"}
    with site(tmp_path, dsn, VERBWORKER_CONSOLE_CREDENTIALS=logins(known)) as opened:
        lying = opened.visitor().get("/login/issuer")
        known.lies = {}
        again = opened.visitor().get("/login/issuer")
    away = logins(known, issuer="http://127.0.0.1:9")
    with site(tmp_path, dsn, VERBWORKER_CONSOLE_CREDENTIALS=away) as opened:
        silent = opened.visitor().get("/login/issuer")

    assert (lying.status, silent.status, again.status) == (503, 503, 303)
    assert "names itself differently" in lying.sentence
    assert silent.sentence == "The login service does not answer."
