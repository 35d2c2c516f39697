"""What `verbworker worker` refuses to run on: each one sentence and exit code 2."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.apart import run_apart
from tests.support.command import verbworker
from tests.support.databases import empty_database, execute
from tests.support.engines import Gateway
from tests.support.ports import LOOPBACK
from tests.support.postgres import ForeignPostgres, Postgres
from tests.support.shop import ENGINE_ID, Shop, make_shop

pytestmark = pytest.mark.zeebe


@pytest.fixture
def suffix(unique: Callable[[str], str]) -> str:
    return unique("x").removeprefix("x-")


@pytest.fixture
def shop(tmp_path: Path, suffix: str) -> Shop:
    """An application with one verb, in a folder of its own."""
    return make_shop(tmp_path, suffix)


REFUSALS = {
    "no such module": (["--app", "nowhere:registry"], {}, "there is no module nowhere in"),
    "no such attribute": (["--app", "shop:nothing"], {}, "the module shop has no nothing"),
    "no registry": (["--app", "shop:HERE"], {}, "not a Registry"),
    "no place": (["--app", "shop"], {}, "write it as module:attribute"),
    "a module that raises": (["--app", "broken:registry"], {}, "importing broken raised ZeroDivisionError"),
    "a module that needs another": (["--app", "needy:registry"], {}, "needy imports nobody_has_this"),
    "a wrong contract": (["--app", "wrong:registry"], {}, "tide: unknown field"),
    "no verbs": (["--app", "empty:registry"], {}, "the registry has no verb"),
    "no engine id": ([], {"VERBWORKER_ENGINE_ID": ""}, "no engine id is set"),
    "no database": ([], {"VERBWORKER_DSN": ""}, "no database is set"),
    "no Postgres address": ([], {"VERBWORKER_DSN": "mysql://u:secret@127.0.0.1:1/x"}, "cannot be reached"),
    "a setting nobody knows": ([], {"file": "leaze = 3\n"}, "verbworker.toml: unknown setting 'leaze'"),
    "a wrong number": (["--http-port", "99999"], {}, "setting http_port"),
    "an unknown engine": (["--engine", "other"], {}, "setting engine"),
    "a tenant of a cluster without tenants": ([], {"VERBWORKER_TENANT_IDS": "acme"}, "the engine refuses this worker"),
}


@pytest.mark.parametrize(("options", "settings", "words"), REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_run_is_one_sentence_and_exit_code_two(
    options: list[str], settings: dict[str, str], words: str, shop: Shop, dsn: str, broker: Gateway, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "needy.py").write_text("import nobody_has_this\n")
    (tmp_path / "empty.py").write_text("from verbworker import Registry\nregistry = Registry()\n")
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "order.yaml").write_text((tmp_path / "contracts" / "order.yaml").read_text() + "tide: high\n")
    (tmp_path / "wrong.py").write_text("from verbworker import Registry\nregistry = Registry().load('wrong')\n")
    (tmp_path / "verbworker.toml").write_text(settings.get("file", ""))
    given = {name: value for name, value in settings.items() if name != "file"}

    said = verbworker(
        "worker",
        *(options if "--app" in options else ["--app", "shop:registry", *options]),
        directory=tmp_path,
        **{
            "VERBWORKER_DSN": dsn,
            "VERBWORKER_ENGINE_ID": ENGINE_ID,
            "VERBWORKER_HTTP_PORT": "0",
            "ZEEBE_ADDRESS": broker.address,
            **given,
        },
    )

    assert said.code == 2
    assert words in said.sentence()
    assert "secret" not in said.err


def test_an_unmigrated_database_is_refused_with_the_command_that_helps(
    shop: Shop, postgres: Postgres | ForeignPostgres, tmp_path: Path
) -> None:
    with empty_database(postgres.dsn) as dsn:
        said = verbworker("worker", "--app", "shop:registry", "--engine-id", "e", directory=tmp_path, dsn=dsn)

    assert (said.code, "run: verbworker db migrate" in said.sentence()) == (2, True)


def test_a_server_that_does_not_flush_is_refused(shop: Shop, tmp_path: Path) -> None:
    with Postgres({"fsync": "off"}) as server:
        verbworker("db", "migrate", directory=tmp_path, dsn=server.dsn)
        said = verbworker("worker", "--app", "shop:registry", "--engine-id", "e", directory=tmp_path, dsn=server.dsn)

    assert (said.code, "turn fsync on" in said.sentence()) == (2, True)


@pytest.mark.parametrize("command", ["worker", "ingress"])
def test_a_read_only_database_is_refused_with_what_to_do(command: str, shop: Shop, dsn: str, tmp_path: Path) -> None:
    name = urlsplit(dsn).path.removeprefix("/")
    run_apart(execute(dsn, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
    more = ["--insecure-no-auth"] if command == "ingress" else ["--engine-id", "e"]

    said = verbworker(
        *(command, "--app", "shop:registry", *more),
        directory=tmp_path,
        dsn=dsn,
        VERBWORKER_ENGINE="embedded",
        VERBWORKER_INGRESS_PORT="0",
    )

    assert (said.code, "turn default_transaction_read_only off" in said.sentence()) == (2, True)


@pytest.mark.req("PAY-07")
def test_signed_payloads_without_a_key_are_refused(tmp_path: Path, suffix: str, dsn: str) -> None:
    make_shop(tmp_path, suffix, integrity="signed")

    said = verbworker("worker", "--app", "shop:registry", "--engine-id", "e", directory=tmp_path, dsn=dsn)

    assert (said.code, "set VERBWORKER_INTEGRITY_KEYS" in said.sentence()) == (2, True)


async def test_a_taken_health_port_is_refused(shop: Shop, dsn: str, broker: Gateway, tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), LOOPBACK, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        said = await asyncio.to_thread(
            verbworker,
            "worker",
            "--app",
            "shop:registry",
            "--engine-id",
            "e",
            "--http-port",
            str(port),
            "--log-level",
            "error",
            directory=tmp_path,
            dsn=dsn,
            ZEEBE_ADDRESS=broker.address,
        )

    assert (said.code, "VERBWORKER_HTTP_PORT" in said.sentence()) == (2, True)
