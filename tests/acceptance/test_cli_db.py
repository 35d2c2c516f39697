"""`verbworker db`: what an operator sees, when it works and when it cannot."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.support.command import verbworker
from tests.support.databases import empty_database, execute
from tests.support.ports import free_ports
from tests.support.postgres import ForeignPostgres, Postgres, run_apart
from verbworker.stores import sql

SECRET = "s3cr3t-w0rd"
NAMES = [name for name, _ in sql.migrations()]


@pytest.fixture
def empty(postgres: Postgres | ForeignPostgres) -> Iterator[str]:
    """The DSN of a database that was never migrated."""
    with empty_database(postgres.dsn) as address:
        yield address


def password(dsn: str) -> str:
    return urlsplit(dsn).password or "no password at all"


def test_migrate_tells_what_it_applied(empty: str, tmp_path: Path) -> None:
    said = verbworker("db", "migrate", dsn=empty, directory=tmp_path)

    assert said.code == 0
    assert said.out.splitlines()[:-1] == [f"applied {name}" for name in NAMES]
    assert said.err == ""


def test_migrate_again_applies_nothing(dsn: str, tmp_path: Path) -> None:
    said = verbworker("db", "migrate", dsn=dsn, directory=tmp_path)

    assert (said.code, said.out) == (0, "the database is up to date, 0 migration(s) applied\n")


def test_the_address_may_be_given_as_an_option(empty: str, tmp_path: Path) -> None:
    assert verbworker("db", "migrate", "--dsn", empty, directory=tmp_path).code == 0


def test_the_option_wins_over_the_environment(dsn: str, empty: str, tmp_path: Path) -> None:
    assert verbworker("db", "status", "--dsn", dsn, dsn=empty, directory=tmp_path).code == 0


def test_status_says_no_while_something_is_pending(empty: str, tmp_path: Path) -> None:
    said = verbworker("db", "status", dsn=empty, directory=tmp_path)

    assert said.code == 1
    assert said.out.splitlines() == ["name\tstate\tapplied_at", *(f"{name}\tpending\t" for name in NAMES)]


def test_status_says_yes_when_all_is_applied(dsn: str, tmp_path: Path) -> None:
    said = verbworker("db", "status", dsn=dsn, directory=tmp_path)

    assert said.code == 0
    assert [line.split("\t")[:2] for line in said.out.splitlines()[1:]] == [[name, "applied"] for name in NAMES]


@pytest.mark.parametrize("code", [0, 1])
def test_status_speaks_json(dsn: str, empty: str, tmp_path: Path, code: int) -> None:
    said = verbworker("db", "status", "--json", dsn=empty if code else dsn, directory=tmp_path)
    rows = json.loads(said.out)

    assert said.code == code
    assert [row["name"] for row in rows] == NAMES
    assert {row["state"] for row in rows} == {"pending" if code else "applied"}
    assert all((row["applied_at"] is None) == bool(code) for row in rows)


@pytest.mark.parametrize("command", ["migrate", "status"])
def test_without_a_database_the_sentence_says_how_to_name_one(command: str, tmp_path: Path) -> None:
    said = verbworker("db", command, directory=tmp_path)

    assert (said.code, said.out) == (2, "")
    assert said.sentence() == "verbworker: no database is set; set VERBWORKER_DSN or pass --dsn"


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_address_is_no_address(blank: str, tmp_path: Path) -> None:
    said = verbworker("db", "status", dsn=blank, directory=tmp_path)

    assert said.code == 2
    assert said.sentence() == "verbworker: no database is set; set VERBWORKER_DSN or pass --dsn"


@pytest.mark.parametrize("command", ["migrate", "status"])
def test_a_database_that_nobody_serves_is_named_without_its_password(command: str, tmp_path: Path) -> None:
    port = free_ports(1)[0]
    said = verbworker("db", command, dsn=f"postgresql://kyc:{SECRET}@127.0.0.1:{port}/cases", directory=tmp_path)

    assert said.code == 2
    assert f"the database at postgresql://kyc@127.0.0.1:{port}/cases cannot be reached" in said.sentence()
    assert SECRET not in said.err + said.out


def test_a_wrong_password_is_said_and_not_shown(dsn: str, tmp_path: Path) -> None:
    said = verbworker("db", "migrate", dsn=dsn.replace(password(dsn), SECRET), directory=tmp_path)

    assert said.code == 2
    assert "password authentication failed" in said.sentence()
    assert SECRET not in said.err + said.out


def test_a_database_that_does_not_exist_is_said(dsn: str, tmp_path: Path) -> None:
    said = verbworker("db", "migrate", dsn=urlunsplit(urlsplit(dsn)._replace(path="/nowhere")), directory=tmp_path)

    assert said.code == 2
    assert 'database "nowhere" does not exist' in said.sentence()
    assert password(dsn) not in said.err + said.out


def test_an_address_that_is_none_ends_in_one_sentence_without_its_secret(tmp_path: Path) -> None:
    said = verbworker("db", "status", dsn=f"postgresql://kyc:{SECRET}/{SECRET}@127.0.0.1/cases", directory=tmp_path)

    assert said.code == 2
    assert "its address cannot be read; write postgresql://user:password@host" in said.sentence()
    assert SECRET not in said.err + said.out


@pytest.mark.parametrize("command", ["migrate", "status"])
def test_a_changed_migration_is_told(dsn: str, tmp_path: Path, command: str) -> None:
    run_apart(execute(dsn, "UPDATE verbworker.migration SET checksum = 'x' WHERE name = $1", NAMES[0]))
    said = verbworker("db", command, dsn=dsn, directory=tmp_path)

    if command == "migrate":
        assert said.code == 2
        assert f"migration {NAMES[0]} was changed after it was applied; restore the file" in said.sentence()
    else:
        assert said.code == 1
        assert said.out.splitlines()[1].split("\t")[:2] == [NAMES[0], "changed"]


def test_a_migration_from_the_future_is_told(dsn: str, tmp_path: Path) -> None:
    run_apart(execute(dsn, "INSERT INTO verbworker.migration (name, checksum) VALUES ('9999_later', 'x')"))
    said = verbworker("db", "migrate", dsn=dsn, directory=tmp_path)

    assert said.code == 2
    assert "the database has migration 9999_later, which this version does not know" in said.sentence()


def test_a_role_that_may_not_migrate_is_told(empty: str, tmp_path: Path) -> None:
    name = "reader_" + urlsplit(empty).path[-8:]
    run_apart(execute(empty, f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'"))
    try:
        address = urlsplit(empty)
        said = verbworker(
            "db",
            "migrate",
            dsn=urlunsplit(address._replace(netloc=f"{name}:{SECRET}@{address.hostname}:{address.port}")),
            directory=tmp_path,
        )
    finally:
        run_apart(execute(empty, f"DROP ROLE {name}"))

    assert said.code == 2
    assert "permission denied" in said.sentence()
    assert SECRET not in said.err + said.out


def test_a_setting_nobody_knows_is_named(tmp_path: Path) -> None:
    (tmp_path / "verbworker.toml").write_text(f'dns = "postgresql://kyc:{SECRET}@localhost/cases"\n')
    said = verbworker("db", "status", directory=tmp_path)

    assert said.code == 2
    assert "verbworker.toml: unknown setting 'dns'" in said.sentence()
    assert SECRET not in said.err + said.out


def test_a_settings_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "verbworker.toml").write_text(f'dsn = "postgresql://kyc:{SECRET}@localhost/cases\n')
    said = verbworker("db", "status", directory=tmp_path)

    assert said.code == 2
    assert "verbworker.toml" in said.sentence()
    assert SECRET not in said.err + said.out
