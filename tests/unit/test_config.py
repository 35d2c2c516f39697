"""Settings: environment over file, one sentence for what is wrong, and no secret in any of it."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from verbworker.api.settings import IngressSettings
from verbworker.app import settings as config
from verbworker.console.settings import ConsoleSettings
from verbworker.errors import ContractInvalid
from verbworker.work.upkeep.retention import RULES

SECRET = "correct-horse-battery-staple-0123456789"


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory without settings, and an environment without ours."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("VERBWORKER_")]:
        monkeypatch.delenv(name)


def test_everything_but_database_and_engine_id_has_a_default() -> None:
    settings = config.load()

    assert (settings.lease, settings.engine_timeout) == (timedelta(seconds=30), timedelta(seconds=60))
    assert (settings.http_host, settings.http_port) == ("127.0.0.1", 8090)
    assert (settings.control_connections, settings.verb_connections) == (4, None)


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "verbworker.toml").write_text('engine_id = "file"\nlease = 10\ngrace = 5.5\n')
    monkeypatch.setenv("VERBWORKER_LEASE", "20")
    monkeypatch.setenv("VERBWORKER_ENGINE_ID", "environment")

    settings = config.load(engine_id="command", lease=None)

    assert (settings.engine_id, settings.lease, settings.grace) == (
        "command",
        timedelta(seconds=20),
        timedelta(seconds=5.5),
    )


@pytest.mark.parametrize(("given", "read"), [("a, b,,c", ("a", "b", "c")), ("", ()), ("one", ("one",))])
def test_tenants_are_words_between_commas(given: str, read: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBWORKER_TENANT_IDS", given)

    assert config.load().tenant_ids == read


def test_tenants_in_the_file_are_a_list(tmp_path: Path) -> None:
    (tmp_path / "verbworker.toml").write_text('tenant_ids = ["a", "b"]\n')

    assert config.load().tenant_ids == ("a", "b")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lease = 0\n", "setting lease: it must be more than 0 seconds"),
        ('lease = "soon"\n', "setting lease: use a number of seconds"),
        ("laese = 3\n", "verbworker.toml: unknown setting 'laese'"),
        ("[worker]\nlease = 3\n", "verbworker.toml: unknown setting 'worker'"),
        ("lease = = 3\n", "verbworker.toml is not valid TOML"),
        ("http_port = 70000\n", "setting http_port"),
        ('log_format = "xml"\n', "setting log_format"),
        ('engine = "other"\n', "setting engine"),
        (f'integrity_keys = {{k1 = "{SECRET}"}}\n', "put secrets into VERBWORKER_INTEGRITY_KEYS"),
    ],
)
def test_a_wrong_file_is_told_by_its_setting_and_without_the_value(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "verbworker.toml").write_text(text)

    with pytest.raises(ContractInvalid) as caught:
        config.load()

    assert words in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LEASE", "soon"),
        ("LEASE", "nan"),
        ("LEASE", "1e300"),
        ("STREAMING", "perhaps"),
        ("CONTROL_CONNECTIONS", "1"),
        ("INTEGRITY_KEYS", f"k1={SECRET}"),
        ("INTEGRITY_KEYS", json.dumps({"k1": [SECRET]})),
    ],
)
def test_a_wrong_variable_is_told_by_its_name_and_without_its_value(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"VERBWORKER_{name}", value)

    with pytest.raises(ContractInvalid, match=f"VERBWORKER_{name}") as caught:
        config.load()

    assert SECRET not in str(caught.value)


def test_no_secret_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBWORKER_DSN", f"postgresql://kyc:{SECRET}@db/cases")
    monkeypatch.setenv("VERBWORKER_INTEGRITY_KEYS", json.dumps({"k1": SECRET}))

    settings = config.load()

    assert SECRET not in repr(settings) + str(settings) + settings.model_dump_json() + repr(settings.key_ring())
    assert settings.database().endswith(f"{SECRET}@db/cases")


@pytest.mark.parametrize("given", [{}, {"dsn": ""}, {"dsn": "  "}])
def test_a_missing_database_is_one_sentence(given: dict[str, object]) -> None:
    with pytest.raises(ContractInvalid, match="VERBWORKER_DSN"):
        config.load(**given).database()


def test_the_database_may_be_named_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text("postgresql://db/cases\n")

    assert config.load(dsn_file=tmp_path / "dsn").database() == "postgresql://db/cases"


def test_a_file_that_is_not_there_is_told_by_its_path() -> None:
    with pytest.raises(ContractInvalid, match="cannot read absent: No such file"):
        config.load(dsn_file="absent").database()


@pytest.mark.parametrize("given", [{}, {"engine_id": ""}, {"engine_id": " "}])
def test_an_engine_id_has_no_default(given: dict[str, object]) -> None:
    with pytest.raises(ContractInvalid, match="VERBWORKER_ENGINE_ID"):
        config.load(**given).cluster()


def test_the_embedded_engine_needs_no_id_and_may_have_one() -> None:
    assert config.load(engine="embedded").cluster() == "embedded"
    assert config.load(engine="embedded", engine_id="cases").cluster() == "cases"


def test_an_engine_that_is_none_is_refused() -> None:
    with pytest.raises(ContractInvalid, match="engine"):
        config.load(engine="temporal")


def test_one_key_signs_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBWORKER_INTEGRITY_KEYS", json.dumps({"k1": SECRET}))

    ring = config.load().key_ring()

    assert ring is not None
    assert (ring.active, ring.secrets) == ("k1", {"k1": SECRET.encode()})


def test_of_several_keys_one_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBWORKER_INTEGRITY_KEYS", json.dumps({"k1": SECRET, "k2": SECRET[::-1]}))

    with pytest.raises(ContractInvalid, match="VERBWORKER_INTEGRITY_KEY"):
        config.load().key_ring()


def test_keys_from_a_file_join_those_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys.json").write_text(json.dumps({"k2": SECRET[::-1]}))
    monkeypatch.setenv("VERBWORKER_INTEGRITY_KEYS", json.dumps({"k1": SECRET}))

    ring = config.load(integrity_keys_file="keys.json", integrity_key="k2").key_ring()

    assert ring is not None
    assert (ring.active, sorted(ring.secrets)) == ("k2", ["k1", "k2"])


@pytest.mark.parametrize("text", ["", "[]", '{"k1": 3}', SECRET])
def test_a_file_of_keys_that_holds_something_else_is_refused_without_showing_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(text)

    with pytest.raises(ContractInvalid, match=r"keys\.json must be JSON") as caught:
        config.load(integrity_keys_file="keys.json").key_ring()

    assert SECRET not in str(caught.value)


def test_a_named_key_without_keys_is_told() -> None:
    with pytest.raises(ContractInvalid, match="no keys are set"):
        config.load(integrity_key="k1").key_ring()


def test_without_keys_there_is_no_ring() -> None:
    assert config.load().key_ring() is None


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("forever", None),
        ("Forever ", None),
        ("90d", timedelta(days=90)),
        ("0.5 d", timedelta(hours=12)),
        ("12h", timedelta(hours=12)),
        ("3600", timedelta(hours=1)),
    ],
)
def test_how_long_something_is_kept(given: str, read: timedelta | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBWORKER_KEEP_MESSAGES", given)

    assert config.load().keep_messages == read


@pytest.mark.parametrize("given", ["never", "0d", "-1", "90 days", "d"])
def test_how_long_something_is_kept_is_said_in_one_way(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBWORKER_KEEP_MESSAGES", given)

    with pytest.raises(ContractInvalid, match="setting keep_messages: use days, hours or seconds above 0"):
        config.load()


def test_every_rule_of_retention_has_its_setting() -> None:
    assert config.load().keep().keys() == {rule.setting for rule in RULES}


def test_a_mistyped_variable_is_told_with_the_nearest_setting() -> None:
    found = config.unknown_settings({"VERBWORKER_ENGIN_TIMEOUT": "5", "VERBWORKER_ZZZ": "secret", "PATH": "/bin"})

    assert found == [
        "VERBWORKER_ENGIN_TIMEOUT is not a setting and is ignored; did you mean VERBWORKER_ENGINE_TIMEOUT?",
        "VERBWORKER_ZZZ is not a setting and is ignored",
    ]


def test_a_server_tells_the_mistyped_variables_of_its_own() -> None:
    given = {"VERBWORKER_CONSOLE_PROT": "1", "VERBWORKER_CONSOLE_PORT": "1", "VERBWORKER_INGRESS_PROT": "1"}

    words = "is not a setting and is ignored; did you mean VERBWORKER"
    assert config.unknown_settings(given, ConsoleSettings) == [f"VERBWORKER_CONSOLE_PROT {words}_CONSOLE_PORT?"]
    assert config.unknown_settings(given, IngressSettings) == [f"VERBWORKER_INGRESS_PROT {words}_INGRESS_PORT?"]


def test_what_is_no_setting_of_a_worker_or_set_by_kubernetes_is_not_mistyped() -> None:
    known = {
        "VERBWORKER_LEASE": "5",
        "verbworker_dsn": "x",
        "VERBWORKER_DEBUG": "1",
        "VERBWORKER_CONSOLE_PORT": "1",
        "VERBWORKER_INGRESS_PORT": "1",
        "VERBWORKER_PORT": "tcp://10.0.0.1:80",
        "VERBWORKER_WORKER_SERVICE_HOST": "10.0.0.1",
        "VERBWORKER_WORKER_PORT_8090_TCP_ADDR": "10.0.0.1",
    }

    assert config.unknown_settings(known) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("VERBWORKER_ENGINE_TRANSPORT", "ZEEBE_TRANSPORT"),
        ("VERBWORKER_TRANSPORT", "ZEEBE_TRANSPORT"),
        ("VERBWORKER_ZEEBE_ADDRESS", "ZEEBE_ADDRESS"),
        ("VERBWORKER_ENGINE_REST_ADDRESS", "ZEEBE_REST_ADDRESS"),
        ("VERBWORKER_CLIENT_SECRET", "CAMUNDA_CLIENT_SECRET"),
    ],
)
def test_a_variable_of_the_engine_with_our_prefix_is_told_by_its_own_name(name: str, meant: str) -> None:
    assert config.unknown_settings({name: "x"}) == [f"{name} is not a setting and is ignored; did you mean {meant}?"]


@pytest.mark.parametrize("blank", ["", " "])
def test_a_blank_variable_counts_as_absent(blank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "verbworker.toml").write_text('engine_id = "of-the-file"\n')
    for name in ("ENGINE_LEASES", "LEASE", "STREAMING", "HTTP_PORT", "ENGINE_ID"):
        monkeypatch.setenv(f"VERBWORKER_{name}", blank)
    monkeypatch.setenv("VERBWORKER_CONSOLE_PORT", blank)
    monkeypatch.setenv("VERBWORKER_INGRESS_RATE", blank)
    bare = config.Settings.model_fields

    settings = config.load()

    assert settings.engine_leases == bare["engine_leases"].default
    assert (settings.http_port, settings.engine_id) == (bare["http_port"].default, "of-the-file")
    assert (ConsoleSettings().port, IngressSettings().rate) == (8092, 50.0)


@pytest.mark.parametrize("name", ["TENANT", "UNKNOWN_ROLES", "QUOTA_OPEN_CASES", "INTEGRITY_KEYS", "SEAL_KEYS"])
def test_a_blank_restriction_or_secret_opens_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"VERBWORKER_{name}", "")

    with pytest.raises(ContractInvalid, match=f"VERBWORKER_{name}"):
        config.load()


def test_blank_roles_are_no_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBWORKER_ROLES", "")

    assert config.load().roles == frozenset()
