"""What the doctor advises about the engine: the setting that is concerned, by the transport in use."""

from collections.abc import Callable

import pytest

from tests.support.ports import LOOPBACK, free_ports
from tests.support.rest_replay import Answer, Seen, problem, recorded, replayed, rest_server
from verbworker.app.settings import Settings
from verbworker.doctor import checks as checks_module
from verbworker.doctor.check_result import CheckResult
from verbworker.doctor.checks import CHECKS, run_checks
from verbworker.doctor.subject import Subject


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ZEEBE_ADDRESS", "ZEEBE_REST_ADDRESS", "ZEEBE_TRANSPORT", "CAMUNDA_CLIENT_ID", "CAMUNDA_CLUSTER_ID"):
        monkeypatch.delenv(name, raising=False)


async def look(monkeypatch: pytest.MonkeyPatch, name: str, /, **env: str) -> CheckResult:
    """Run one check, without what it needs."""
    for variable, value in env.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(checks_module, "CHECKS", [check for check in CHECKS if check.name == name])
    async with Subject(Settings(engine="zeebe", engine_id="here"), app=None, models=()) as subject:
        (result,) = await run_checks(subject, timeout=2.0, tell=lambda _: None)
    return result


def topology(answer: Answer | None = None) -> Callable[[Seen], Answer]:
    """Answer the topology as recorded or as given, no poll, and a search never."""
    known = replayed(next(one for one in recorded() if one.name == "topology"))

    def reply(seen: Seen) -> Answer:
        if seen.path.endswith("/topology"):
            return answer or known
        return (
            Answer(200, b'{"items":[]}', delay_s=30.0) if seen.path.endswith("/search") else problem(404, "Not Found")
        )

    return reply


async def test_a_gateway_that_is_away_is_looked_for_where_the_transport_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    away = f"http://{LOOPBACK}:{free_ports(1)[0]}"

    found = await look(monkeypatch, "engine", ZEEBE_TRANSPORT="rest", ZEEBE_REST_ADDRESS=away)

    assert found.fix == "check that the engine runs and ZEEBE_REST_ADDRESS"


@pytest.mark.parametrize(
    ("env", "fix"),
    [
        ({"ZEEBE_TRANSPORT": "pigeon"}, "check ZEEBE_TRANSPORT"),
        ({"ZEEBE_REST_ADDRESS": "ftp://gateway"}, "check ZEEBE_REST_ADDRESS"),
        ({"CAMUNDA_REST_ADDRESS": "http://gateway:port"}, "check CAMUNDA_REST_ADDRESS"),
        ({"ZEEBE_ADDRESS": "ftp://gateway"}, "check ZEEBE_ADDRESS"),
        ({"ZEEBE_TRANSPORT": "rest"}, "set ZEEBE_REST_ADDRESS"),
        ({"CAMUNDA_CLIENT_ID": "me"}, "set CAMUNDA_CLIENT_SECRET"),
    ],
)
async def test_a_setting_that_is_written_wrongly_is_named(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], fix: str
) -> None:
    found = await look(monkeypatch, "engine", **env)

    assert (found.verdict, found.fix) == ("wrong", fix)


async def test_a_refused_client_is_told_about_its_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    with rest_server(topology(problem(401, "UNAUTHORIZED"))) as server:
        found = await look(monkeypatch, "engine", ZEEBE_TRANSPORT="rest", ZEEBE_REST_ADDRESS=server.url)

    assert "CAMUNDA_CLIENT_ID" in found.fix
    assert "ADDRESS" not in found.fix


@pytest.mark.parametrize("status", [b"200 OK", b"404 Not Found"])
async def test_a_rest_api_without_a_date_is_not_called_unset(monkeypatch: pytest.MonkeyPatch, status: bytes) -> None:
    undated = Answer(raw=b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
    with rest_server(topology(undated)) as server:
        found = await look(monkeypatch, "engine clock", ZEEBE_TRANSPORT="rest", ZEEBE_REST_ADDRESS=server.url)

    assert (found.verdict, found.found) == ("warn", "unknown: what answers over REST sends no date")
    assert found.fix.startswith("check ZEEBE_REST_ADDRESS, ")


async def test_searches_that_hang_say_nothing_about_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    with rest_server(topology()) as server:
        found = await look(monkeypatch, "streaming", ZEEBE_TRANSPORT="rest", ZEEBE_REST_ADDRESS=server.url)

    assert (found.verdict, found.found) == ("ok", "REST has no streams; jobs are polled")
