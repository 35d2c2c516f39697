"""Parameters of the database's address: libpq's are taken or refused by name, and Postgres has the last word."""

from pathlib import Path

import pytest

from tests.support.command import verbworker
from verbworker.errors import ContractInvalid, StoreUnavailable
from verbworker.stores.database import Database, connect
from verbworker.stores.dsn import read_address

SECRET = "s3cr3t-w0rd"


@pytest.mark.parametrize(
    ("parameters", "timeout"),
    [
        ("connect_timeout=5", 5.0),
        ("connect_timeout=1", 2.0),  # libpq waits two seconds at least
        ("connect_timeout=0", 10.0),  # libpq's word for no limit of its own
        ("sslmode=prefer&connect_timeout=7", 7.0),
        ("", 10.0),
    ],
)
def test_the_time_to_connect_is_taken_from_the_address(parameters: str, timeout: float) -> None:
    found = read_address(f"postgresql://kyc@db/cases?{parameters}")

    assert found.timeout == timeout
    assert "connect_timeout" not in found.dsn


def test_a_caller_that_wants_an_answer_sooner_gets_it() -> None:
    assert read_address("postgresql://kyc@db/cases?connect_timeout=60", timeout=2).timeout == 2


def test_what_the_driver_knows_stays_as_it_was_written() -> None:
    dsn = "postgresql://kyc:p%40ss@db:5432/cases?sslmode=verify-full&sslrootcert=/etc/ca.pem&target_session_attrs=any"

    assert read_address(dsn).dsn == dsn


async def test_the_parameters_that_people_write_work(dsn: str) -> None:
    options = "options=-c%20statement_timeout%3D12345&application_name=billing&search_path=public"
    address = f"{dsn}?connect_timeout=5&sslmode=prefer&channel_binding=prefer&gssencmode=disable&{options}"
    async with connect(address) as connection, Database(address, size=1) as database:
        for asked in (connection, database):
            row = await asked.fetchrow(
                "SELECT current_setting('application_name'), current_setting('statement_timeout'),"
                " current_setting('search_path')"
            )

            assert row is not None
            assert tuple(row) == ("billing", "12345ms", "public")


async def test_without_a_name_of_its_own_a_pool_is_called_verbworker(dsn: str) -> None:
    address = f"{dsn}?fallback_application_name=psql"
    async with Database(dsn, size=1) as named, Database(address, size=1) as fallback:
        names = [
            (await one.fetchrow("SELECT current_setting('application_name') AS name") or {"name": ""})["name"]
            for one in (named, fallback)
        ]

    assert names == ["verbworker", "verbworker"]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("keepalives_idle=30", "the parameter keepalives_idle of the database's address is not supported"),
        ("channel_binding=require", "the parameter channel_binding=require of the database's address is not supported"),
        ("gssencmode=require", "gssencmode=require"),
        ("connect_timeout=soon", "connect_timeout of the database's address is a number of seconds"),
        ("conect_timeout=5", 'unrecognized configuration parameter "conect_timeout"'),
        ("statement_timeout=soon", 'invalid value for parameter "statement_timeout"'),
    ],
)
async def test_a_parameter_that_cannot_be_used_is_named_in_one_sentence(dsn: str, parameters: str, words: str) -> None:
    with pytest.raises(ContractInvalid) as single:
        async with connect(f"{dsn}?{parameters}"):
            pass
    with pytest.raises(ContractInvalid) as pooled:
        async with Database(f"{dsn}?{parameters}", size=1):
            pass

    assert words in str(single.value)
    assert str(pooled.value) == str(single.value)
    assert str(single.value).endswith("VERBWORKER_DSN")


@pytest.mark.parametrize("text", [f"?{SECRET}=x@db/cases", f"@db/cases?password={SECRET}&keepalives=1@x", f"?{SECRET}"])
async def test_what_may_be_a_password_is_not_named(text: str) -> None:
    with pytest.raises((StoreUnavailable, ContractInvalid)) as refused:
        async with connect(f"postgresql://kyc:{text}"):
            pass

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("parameters", ["connect_timeout=soon", "conect_timeout=5", "keepalives=1"])
def test_a_command_says_it_and_could_not_run(dsn: str, parameters: str, tmp_path: Path) -> None:
    said = verbworker("db", "status", directory=tmp_path, dsn=f"{dsn}?{parameters}")

    assert said.code == 2, said.err
    assert parameters.partition("=")[0] in said.sentence()
    assert "a bug" not in said.err


def test_a_command_runs_with_a_time_to_connect(dsn: str, tmp_path: Path) -> None:
    assert verbworker("db", "status", directory=tmp_path, dsn=f"{dsn}?connect_timeout=5").code == 0
