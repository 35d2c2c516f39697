"""The whole command line, walked: every command helps, refuses, fails and answers in the same way."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pexpect  # type: ignore[import-untyped]  # it ships no types
import pytest

from tests.support.apart import run_apart
from tests.support.command import COMMAND, environment, verbworker
from tests.support.databases import empty_database, execute
from tests.support.doctor_app import EMBEDDED, Clinic
from tests.support.mail import deploy_model
from tests.support.ports import LOOPBACK, free_ports
from tests.support.postgres import ForeignPostgres, Postgres
from tests.support.shop import make_shop
from verbworker.cli import app
from verbworker.cli.lazy_commands import PLACES

SECRET = "s3cr3t-w0rd"
ID = str(uuid4())
SHOP = ("--app", "shop:registry")
QUIET = {"VERBWORKER_HTTP_PORT": "0", "VERBWORKER_LOG_FORMAT": "text", "VERBWORKER_LOG_LEVEL": "error"}


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    for name, below in (inner or {}).items():
        yield from leaves(below, (*path, name))


COMMANDS = dict(
    leaf for name, place in PLACES.items() if not place.is_hidden for leaf in leaves(place.load(name), (name,))
)
# These talk to people, or until they are stopped; `lint` and `verify` have --format json as verblint has.
SPOKEN: set[tuple[str, ...]] = {
    *(("demo",), ("dev",), ("init",), ("lint",), ("repl",), ("console",), ("worker",), ("ingress",), ("verify",)),
    ("consume",),
    *(("api", "serve"), ("api", "schema")),  # the second prints JSON and nothing else
}
LISTINGS = [path for path in COMMANDS if path[-1] in ("list", "status", "doctor")]
# Lists that are read in pages, with the name of their rows.
PAGED = {("runbook", "list"): "entries", ("gates", "list"): "gates", ("incidents", "list"): "incidents"}
# What each needs besides the address of a database, to get as far as asking for it.
ASKING: dict[tuple[str, ...], tuple[str, ...]] = {
    ("start",): ('(shop.order :item "a ring")', *SHOP),
    ("start-plain",): ("hello",),
    ("repl",): SHOP,
    ("runbook", "list"): (),
    ("runbook", "show"): (ID,),
    ("runbook", "events"): (ID,),
    ("runbook", "where"): (ID,),
    ("runbook", "verify"): (),
    ("runbook", "seal"): (),
    ("runbook", "cancel"): (ID, "--reason", "twice"),
    ("gates", "list"): (),
    ("gates", "decide"): (ID, "approve"),
    ("gates", "claim"): (ID,),
    ("gates", "release"): (ID,),
    ("message", "send"): ("shop.paid", "--key", "1"),
    ("dead-letters", "list"): (),
    ("dead-letters", "redeliver"): (ID, "--reason", "again"),
    ("dead-letters", "discard"): (ID, "--reason", "twice"),
    ("erase",): ("--entry", ID),
    ("incidents", "list"): (),
    ("incidents", "show"): (ID,),
    ("incidents", "resolve"): (ID, "--reason", "mended"),
    ("engine", "tokens"): (ID,),
    ("frames", "list"): (),
    ("frames", "show"): ("7",),
    ("frames", "explain"): ("7",),
    ("frames", "release"): ("7", "--reason", "again", "--frame-only"),
    ("deploy",): ("processes", *SHOP),
    ("worker",): SHOP,
    ("ingress",): (*SHOP, "--insecure-no-auth"),
    ("consume",): ("--from", "postgres"),
    ("api", "serve"): (*SHOP, "--insecure-no-auth"),
    ("db", "migrate"): (),
    ("db", "roles"): (),
    ("db", "status"): (),
    ("db", "retention"): (),
    ("db", "quotas"): (),
}
# The doctor tells it as a line; the others have no database, bring their own, or are tried where they are tested.
OTHERS = {("doctor",), ("demo",), ("dev",), ("init",), ("lint",), ("console",), ("scaffold",), ("verify",)} | {
    ("verbs", "list"),
    ("verbs", "schemas"),
    ("verbs", "templates"),
    ("migrate", "report"),
    ("api", "schema"),
}


def words(path: tuple[str, ...]) -> str:
    return " ".join(path)


@pytest.fixture
def clinic(tmp_path: Path, dsn: str, unique: Callable[[str], str]) -> Clinic:
    return Clinic(make_shop(tmp_path, unique("x").removeprefix("x-")), dsn)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """The command line in this process, which is quicker where nothing but words are asked for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name in [name for name in os.environ if name.startswith("VERBWORKER_")]:
        monkeypatch.delenv(name)

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["verbworker", *arguments])
        with pytest.raises(SystemExit) as end:
            app.main()
        return int(end.value.code or 0)

    return run


@pytest.mark.parametrize("path", COMMANDS, ids=words)
def test_a_command_helps_with_an_example(
    path: tuple[str, ...], call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    code = call(*path, "--help")

    said = capsys.readouterr()
    assert (code, said.err) == (0, "")
    assert "usage:" in said.out.lower()
    assert path == ("lint",) or f"Example: verbworker {words(path)}" in said.out


@pytest.mark.parametrize("path", COMMANDS, ids=words)
def test_an_option_nobody_knows_is_refused(
    path: tuple[str, ...], call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    code = call(*path, "--no-such-option")

    said = capsys.readouterr()
    assert code == 2
    assert "--no-such-option" in said.err
    assert "Traceback" not in said.err + said.out


@pytest.mark.parametrize("group", sorted({path[0] for path in COMMANDS if len(path) > 1}))
def test_a_word_nobody_knows_is_refused(
    group: str, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(group, "no-such-word") == 2
    assert "no-such-word" in capsys.readouterr().err


def test_every_command_is_walked_to_its_database_or_has_none() -> None:
    assert ASKING.keys() | OTHERS == COMMANDS.keys()


# They wait for a database that is away: test_late_database.
SERVERS = {("worker",), ("ingress",), ("api", "serve"), ("consume",)}


@pytest.mark.parametrize("path", [path for path in ASKING if path not in SERVERS], ids=words)
def test_a_database_that_nobody_serves_is_one_sentence(path: tuple[str, ...], clinic: Clinic) -> None:
    clinic.write_model()
    lost = f"postgresql://kyc:{SECRET}@{LOOPBACK}:{free_ports(1)[0]}/cases"

    said = clinic.run(*path, *ASKING[path], VERBWORKER_DSN=lost, **QUIET)

    assert said.code == 2
    assert "cannot be reached" in said.sentence()
    assert said.sentence().endswith("; check VERBWORKER_DSN")
    assert SECRET not in said.out + said.err


@pytest.mark.parametrize("path", [("worker",), ("ingress",), ("console",)], ids=words)
def test_a_server_tells_a_mistyped_setting_and_starts_all_the_same(path: tuple[str, ...], clinic: Clinic) -> None:
    unusable = f"mysql://kyc@{LOOPBACK}/cases"

    given = {"VERBWORKER_DSN": unusable, "VERBWORKER_LEESE": "5", "VERBWORKER_HTTP_PORT": "0"}
    said = clinic.run(*path, *ASKING.get(path, ()), **given)

    words = "VERBWORKER_LEESE is not a setting and is ignored; did you mean VERBWORKER_LEASE?"
    assert words in said.err


def lock(clinic: Clinic) -> None:
    """Have the database take no writes, as a standby does or a server whose disk is nearly full."""
    name = urlsplit(clinic.dsn).path.removeprefix("/")
    run_apart(execute(clinic.dsn, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))


# What writes nothing answers as ever.
READING = {
    *(("runbook", word) for word in ("list", "show", "events", "where", "verify")),
    *(("gates", "list"), ("dead-letters", "list"), ("frames", "list"), ("frames", "show"), ("frames", "explain")),
    *(
        ("incidents", "list"),
        ("incidents", "show"),
        ("db", "status"),
        ("db", "quotas"),
        ("repl",),
        ("engine", "tokens"),
    ),
}


def prepare(path: tuple[str, ...], clinic: Clinic) -> list[str]:
    """Whatever the command changes where it can, and the words that name it."""
    clinic.write_model()
    known = ID
    match path:
        case ("runbook", "cancel"):
            known = told(clinic, "start", '(shop.order :item "a ring")', *SHOP)["entry_id"]
        case ("erase",):
            known = told(clinic, "start", '(shop.order :item "a ring")', *SHOP)["entry_id"]
            end = "status = 'cancelled', ended_at = now() WHERE entry_id"
            run_apart(execute(clinic.dsn, f"UPDATE verbworker.runbook_entry SET {end} = '{known}'"))
        case ("gates", _):
            known = str(clinic.put_gate())
        case ("dead-letters", _):
            known = str(clinic.put_letter())
            run_apart(execute(clinic.dsn, "UPDATE verbworker.dead_letter SET message_id = 'm', code = 'ended'"))
        case ("frames", "release"):
            clinic.put_held(7)
        case ("incidents", "resolve"):
            known = "70077"
            clinic.put_held(int(known))
        case ("message", "send"):
            run_apart(deploy_model(clinic.dsn, "embedded", "shop.paid"))
        case ("db", "migrate"):
            run_apart(execute(clinic.dsn, "DELETE FROM verbworker.migration WHERE name LIKE '0010%'"))
    if path == ("gates", "release"):
        told(clinic, "gates", "claim", known, "--by", "ada")
    return [known if word == ID else word for word in ASKING[path]]


# A plain process is looked up first, and none is deployed here.
@pytest.mark.parametrize("path", sorted(ASKING.keys() - READING - {("start-plain",)}), ids=words)
def test_a_database_that_takes_no_writes_is_one_sentence_with_what_to_do(path: tuple[str, ...], clinic: Clinic) -> None:
    arguments = prepare(path, clinic)
    lock(clinic)

    said = clinic.run(*path, *arguments, **QUIET)

    assert said.code == 2, said.out + said.err
    assert "takes no writes" in said.sentence()
    assert "set VERBWORKER_DSN to the primary" in said.sentence()
    assert "default_transaction_read_only" in said.sentence()


@pytest.mark.parametrize("path", sorted(READING - {("repl",)}), ids=words)
def test_what_only_reads_answers_where_nothing_can_be_written(path: tuple[str, ...], clinic: Clinic) -> None:
    lock(clinic)

    said = clinic.run(*path, *ASKING[path])

    assert said.code == (1 if ASKING[path] else 0), said.err


@pytest.fixture
def crowded(dsn: str) -> Iterator[str]:
    """The address of the same database for a role that has no connection left."""
    role = f"crowd_{uuid4().hex[:12]}"
    run_apart(execute(dsn, f"CREATE ROLE {role} LOGIN PASSWORD '{SECRET}' CONNECTION LIMIT 0"))
    parts = urlsplit(dsn)
    yield urlunsplit(parts._replace(netloc=f"{role}:{SECRET}@{parts.hostname}:{parts.port}"))
    run_apart(execute(dsn, f"DROP ROLE {role}"))


@pytest.mark.parametrize("path", [("db", "status"), ("start",), ("worker",), ("gates", "list")], ids=words)
def test_a_server_without_a_free_connection_is_one_sentence_with_what_to_do(
    path: tuple[str, ...], clinic: Clinic, crowded: str
) -> None:
    said = clinic.run(*path, *ASKING[path], VERBWORKER_DSN=crowded, **QUIET)

    assert said.code == 2
    assert "too many connections" in said.sentence()
    assert "VERBWORKER_CONTROL_CONNECTIONS" in said.sentence()
    assert "check VERBWORKER_DSN" not in said.sentence()
    assert SECRET not in said.err


@pytest.mark.parametrize("path", sorted(COMMANDS.keys() - SPOKEN), ids=words)
def test_what_a_program_may_want_is_told_as_json(path: tuple[str, ...]) -> None:
    options = {option for parameter in COMMANDS[path].params for option in parameter.opts}

    assert "--json" in options


@pytest.mark.parametrize("path", LISTINGS, ids=words)
def test_a_listing_is_json_when_it_is_asked_for(path: tuple[str, ...], clinic: Clinic) -> None:
    more = SHOP if path[0] == "verbs" else ()

    said = clinic.run(*path, *more, "--json")

    assert said.code == 0, said.err
    told = json.loads(said.out)
    assert isinstance(told[PAGED[path]] if path in PAGED else told, list)


def test_what_was_migrated_is_told_as_json(postgres: Postgres | ForeignPostgres, tmp_path: Path) -> None:
    with empty_database(postgres.dsn) as empty:
        first = verbworker("db", "migrate", "--json", dsn=empty, directory=tmp_path)
        second = verbworker("db", "migrate", "--json", dsn=empty, directory=tmp_path)

    assert json.loads(first.out)["applied"][0] == "0001_workflow_instance"
    assert json.loads(second.out) == {"applied": []}


def told(clinic: Clinic, *arguments: str) -> dict[str, Any]:
    said = clinic.run(*arguments, "--json")
    assert said.code == 0, said.err
    answer: dict[str, Any] = json.loads(said.out)
    return answer


def test_an_entry_that_is_asked_for_and_cancelled_is_told_as_json(clinic: Clinic) -> None:
    entry = told(clinic, "start", '(shop.order :item "a ring")', *SHOP)

    cancelled = told(clinic, "runbook", "cancel", entry["entry_id"], "--reason", "twice")

    assert (cancelled["entry_id"], cancelled["status"]) == (entry["entry_id"], "cancelled")


def test_an_end_that_was_waited_for_in_vain_is_a_no(clinic: Clinic) -> None:
    said = clinic.run("start", '(shop.order :item "a ring")', *SHOP, "--wait", "0.2", "--json")

    entry = json.loads(said.out)
    assert (said.code, entry["status"]) == (1, "executing")
    words = f"the entry did not end within 0.2 seconds; run: verbworker runbook show {entry['entry_id']}"
    assert said.sentence() == f"verbworker: {words}"


def test_a_gate_that_is_claimed_and_given_back_is_told_as_json(clinic: Clinic) -> None:
    token = clinic.put_gate()

    claimed = told(clinic, "gates", "claim", str(token), "--by", "ada")
    released = told(clinic, "gates", "release", str(token), "--by", "ada")

    assert (claimed["token_id"], claimed["claimed_by"]) == (str(token), "ada")
    assert (released["token_id"], released["claimed_by"]) == (str(token), None)


def test_a_letter_that_is_discarded_is_told_as_json(clinic: Clinic) -> None:
    letter = clinic.put_letter()

    discarded = told(clinic, "dead-letters", "discard", str(letter), "--reason", "twice", "--by", "ada")

    assert (discarded["state"], discarded["resolved_by"], discarded["resolved_reason"]) == ("discarded", "ada", "twice")


def test_a_job_that_is_released_is_told_as_json(clinic: Clinic) -> None:
    clinic.put_held(7)

    released = told(clinic, "frames", "release", "7", "--reason", "again", "--by", "ada", "--frame-only")

    assert (released["job_key"], released["by"], released["done"]) == (7, "ada", True)


def test_what_came_from_outside_breaks_no_line_and_steers_no_terminal(clinic: Clinic) -> None:
    clinic.put_gate("[red]re\x1b[31mview\tnow\n")

    said = clinic.run("gates", "list")

    header, row = said.out.splitlines()
    assert header.split("\t")[:3] == ["token_id", "entry_id", "gate"]
    assert row.split("\t")[2] == "[red]re\\x1b[31mview now "


@pytest.fixture
def terminal(clinic: Clinic) -> Callable[..., str]:
    """The same command at a real terminal, and everything it showed."""

    def show(*arguments: str, dsn: str = clinic.dsn, columns: int = 240) -> str:
        given = environment(dsn, TERM="xterm-256color", **EMBEDDED)
        given.pop("COLUMNS", None)  # pytest-xdist sets it, and it outdoes the terminal
        child = pexpect.spawn(
            str(COMMAND),
            list(arguments),
            cwd=str(clinic.shop.folder),
            env=given,
            encoding="utf-8",
            dimensions=(50, columns),
            timeout=60,
        )
        child.expect(pexpect.EOF)
        child.close()
        return str(child.before)

    return show


def test_a_terminal_gets_a_table_and_a_pipe_gets_lines(clinic: Clinic, terminal: Callable[..., str]) -> None:
    shown, piped = terminal("db", "status"), clinic.run("db", "status").out

    assert "┃" in shown
    assert [line.split("\t")[:2] for line in piped.splitlines()[:2]] == [
        ["name", "state"],
        ["0001_workflow_instance", "applied"],
    ]


@pytest.mark.parametrize("columns", [60, 80, 240])
def test_an_id_in_a_table_is_short_and_whole_and_every_command_takes_it(
    clinic: Clinic, terminal: Callable[..., str], columns: int
) -> None:
    clinic.put_gate("review")
    (gate,) = clinic.json("gates", "list")["gates"]

    shown = terminal("gates", "list", columns=columns)

    assert gate["token_id"][:8] in shown
    assert gate["entry_id"][:8] in shown
    assert gate["token_id"] not in shown
    claimed = clinic.run("gates", "claim", gate["token_id"][:8], "--by", "ada", "--json")
    assert json.loads(claimed.out)["token_id"] == gate["token_id"]
    nobody = clinic.run("gates", "claim", "ffff0000", "--by", "ada")
    assert (nobody.code, "no entry or gate whose id begins with ffff0000" in nobody.sentence()) == (1, True)
    assert clinic.run("gates", "claim", "review", "--by", "ada").code == 2


def test_a_list_that_is_cut_tells_how_many_more_there_are(clinic: Clinic) -> None:
    for name in ("one", "two", "three"):
        clinic.put_gate(name)

    said, whole = clinic.run("gates", "list", "--limit", "1"), clinic.run("gates", "list", "--limit", "3")

    assert len(said.out.splitlines()) == 2
    assert said.err == "verbworker: there are 2 more; to see them: --limit 3\n"
    assert (len(whole.out.splitlines()), whole.err) == (4, "")


def test_a_terminal_gets_the_doctor_as_a_table_and_is_told_what_is_looked_at(terminal: Callable[..., str]) -> None:
    shown = terminal("doctor")

    assert "┃" in shown
    assert "checking " in shown
    assert "→ pass --app module:attribute" in shown


def test_an_id_is_shown_in_full_however_narrow_the_terminal(clinic: Clinic, terminal: Callable[..., str]) -> None:
    token = clinic.put_gate()

    shown = terminal("gates", "list", columns=60)

    assert "…" not in shown
    assert str(token)[:4] in shown


def test_brackets_are_shown_at_a_terminal_as_they_are(clinic: Clinic, terminal: Callable[..., str]) -> None:
    clinic.put_gate("[red]a[/red]")

    assert "[red]a[/red]" in terminal("gates", "list")


def test_what_moves_at_a_terminal_is_not_in_a_pipe(postgres: Postgres | ForeignPostgres, tmp_path: Path) -> None:
    with empty_database(postgres.dsn) as empty:
        said = verbworker("db", "migrate", dsn=empty, directory=tmp_path)

    assert said.err == ""
    assert "\x1b" not in said.out


def test_what_moves_at_a_terminal_is_seen_there(
    postgres: Postgres | ForeignPostgres, terminal: Callable[..., str]
) -> None:
    with empty_database(postgres.dsn) as empty:
        shown = terminal("db", "migrate", dsn=empty)

    assert "applying migrations" in shown
    assert "the database is up to date" in shown


@pytest.mark.parametrize("at", range(3))
def test_debug_may_stand_anywhere(at: int, tmp_path: Path) -> None:
    typed = ["db", "status"]
    typed.insert(at, "--debug")

    said = verbworker(*typed, dsn=f"postgresql://kyc:{SECRET}@{LOOPBACK}:9/cases", directory=tmp_path)

    assert said.code == 2
    assert "Traceback" in said.err
    assert said.err.splitlines()[-1].startswith("verbworker: the database at postgresql://kyc@")
    assert SECRET not in said.err


def test_debug_behind_the_dashes_is_somebodys_word(clinic: Clinic) -> None:
    said = clinic.run("gates", "decide", ID, "--", "--debug")

    assert said.code == 1
    assert "Traceback" not in said.err


def completed(*typed: str, folder: Path) -> list[str]:
    """What a shell offers for the last word."""
    settings = {"_VERBWORKER_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["verbworker", *typed])}
    done = subprocess.run(
        [COMMAND],
        cwd=folder,
        env={**environment(), **settings, "COMP_CWORD": str(len(typed))},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("ga",), {"gates"}),
        (("d",), {"demo", "dev", "dead-letters", "deploy", "db", "doctor"}),
        (("gates", "c"), {"claim"}),
        (("gates", "decide", "--re"), {"--reason"}),
        (("runbook", "list", "--status", "pa"), {"parked"}),
        (("deploy", "--dry"), {"--dry-run"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_shell_completes_commands_options_and_choices(
    typed: tuple[str, ...], offered: set[str], tmp_path: Path
) -> None:
    assert set(completed(*typed, folder=tmp_path)) == offered


HEAVY = (
    "asyncpg",
    "grpc",
    "pyzeebe",
    "pydantic",
    "starlette",
    "uvicorn",
    "httpx",
    "prompt_toolkit",
    "asyncio",
    "verblint",
)


def test_the_first_help_waits_for_nobody(tmp_path: Path) -> None:
    script = (
        "import sys, atexit; sys.argv = ['verbworker', '--help'];"
        f"atexit.register(lambda: print('LOADED', [name for name in {HEAVY} if name in sys.modules]));"
        "from verbworker.cli.app import main; main()"
    )

    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "LOADED []"


@pytest.mark.parametrize("command", ["demo", "dev"])
def test_a_help_shows_the_brackets_of_an_extra(
    command: str, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    call(command, "--help")

    assert "pip install 'verbworker[dev]'" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("path", [path for path in COMMANDS if path != ("lint",)], ids=words)
def test_no_help_loses_a_bracket(
    path: tuple[str, ...], call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    command = COMMANDS[path]
    texts = [command.help or "", *(getattr(parameter, "help", None) or "" for parameter in command.params)]

    call(*path, "--help")

    bracket = re.compile(r"\[[a-z][\w.]*\]")
    written = Counter(word for text in texts for word in bracket.findall(text))
    assert written - Counter(bracket.findall(capsys.readouterr().out)) == Counter()


@pytest.mark.parametrize("command", ["deploy", "dev", "verify"])
def test_a_help_shows_the_brackets_of_a_settings_table(command: str, tmp_path: Path) -> None:
    assert "[tool.verblint]" in verbworker(command, "--help", directory=tmp_path, COLUMNS="200").out


@pytest.mark.parametrize("words", [("--status", "parked"), ("--verb", "kyc.open-case")], ids=lambda words: words[0])
def test_filters_that_stuck_would_ignore_are_refused(
    words: tuple[str, ...], call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    code = call("runbook", "list", "--stuck", "3600", *words)

    assert code == 2
    assert capsys.readouterr().err == "verbworker: --stuck cannot be combined with --status or --verb\n"


@pytest.mark.parametrize("words", [("--version",), ("--version", "no-such-command")], ids=len)
def test_the_versions_of_both_packages_are_one_line(
    words: tuple[str, ...], call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    code = call(*words)

    said = capsys.readouterr()
    assert (code, said.err) == (0, "")
    assert said.out == f"verbworker {version('verbworker')}, verblint {version('verbworker-lint')}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("start", "(x)", "--wait", "inf"),
        ("start", "(x)", "--wait", "1e300"),
        ("message", "send", "n", "k", "--ttl", "1e30"),
        ("runbook", "list", "--stuck", "inf"),
        ("frames", "show", "9" * 23),
        ("frames", "release", "1", "--reason", " "),
        ("runbook", "cancel", ID, "--reason", ""),
        ("dead-letters", "discard", ID, "--reason", ""),
    ],
    ids=lambda words: f"{words[0]} {words[-1][:9]}",
)
def test_a_value_that_no_clock_or_key_can_hold_and_a_blank_reason_are_refused(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    said = verbworker(*words, directory=tmp_path, dsn="postgresql://127.0.0.1:1/none", **EMBEDDED)

    assert said.code == 2
    assert "Invalid value" in said.err
    assert "bug" not in said.err
