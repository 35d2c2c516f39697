"""The prompt: keys as a person presses them, a line at the bottom, and a history of one's own."""

import asyncio
import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from tests.support.talking import make_shapes
from verbworker.repl.completer import Suggestion
from verbworker.repl.history import open_history, place
from verbworker.repl.shapes import ArgumentSlot
from verbworker.repl.terminal import FunctionCompleter, Terminal

ENTER, CTRL_C, CTRL_D, UP = "\r", "\x03", "\x04", "\x1b[A"
DECISION = ArgumentSlot("the decision", "enum", "What do you decide?", values=("approve", "reject"))


class TypedTerminal:
    """A terminal and the keys somebody presses on it."""

    def __init__(self, terminal: Terminal, keys: PipeInput) -> None:
        self.terminal = terminal
        self._keys = keys

    def press(self, *keys: str) -> None:
        self._keys.send_text("".join(keys))


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[TypedTerminal]:
    shapes = make_shapes(tmp_path / "contracts")
    with create_pipe_input() as keys:
        yield TypedTerminal(Terminal(shapes, InMemoryHistory(), source=keys, target=DummyOutput()), keys)


async def test_enter_takes_a_whole_line(terminal: TypedTerminal) -> None:
    terminal.press("gates", ENTER)

    assert await terminal.terminal.read() == "gates"


async def test_an_open_parenthesis_goes_on_below(terminal: TypedTerminal) -> None:
    terminal.press("(shop.refund", ENTER, ":amount 1)", ENTER)

    assert await terminal.terminal.read() == "(shop.refund\n:amount 1)"


async def test_an_empty_line_ends_even_what_is_open(terminal: TypedTerminal) -> None:
    terminal.press("(shop.refund", ENTER, ENTER)

    assert await terminal.terminal.read() == "(shop.refund\n"


async def test_ctrl_c_clears_the_line_and_ctrl_d_leaves(terminal: TypedTerminal) -> None:
    terminal.press("(shop", CTRL_C)
    cleared = await terminal.terminal.read()
    terminal.press(CTRL_D)

    assert (cleared, await terminal.terminal.read()) == ("", None)


def test_a_completion_replaces_what_was_begun_and_shows_its_meaning() -> None:
    suggesting = FunctionCompleter(lambda text: [Suggestion("decide", len(text), "decide\x1b at a gate")])

    (found,) = suggesting.get_completions(Document("dec"), CompleteEvent())

    assert (found.text, found.start_position, found.display_meta_text) == ("decide", -3, "decide\\x1b at a gate")


async def test_an_earlier_line_comes_back_and_an_answer_does_not(terminal: TypedTerminal) -> None:
    terminal.press("gates", ENTER)
    await terminal.terminal.read()
    terminal.press("approve", ENTER)
    await terminal.terminal.ask("What do you decide?", DECISION)
    terminal.press(UP, ENTER)

    assert await terminal.terminal.read() == "gates"


@pytest.mark.parametrize(
    ("keys", "agreed"),
    [
        ([ENTER], True),
        (["y", ENTER], True),
        (["No", ENTER], False),
        (["perhaps", ENTER, "yes", ENTER], True),
        ([CTRL_C], False),
        ([CTRL_D], False),
    ],
)
async def test_just_enter_agrees_and_leaving_does_not(terminal: TypedTerminal, keys: list[str], agreed: bool) -> None:
    terminal.press(*keys)

    assert await terminal.terminal.agrees("You are about to: Charge 12 to Ann.") is agreed


async def test_a_question_is_left_by_ctrl_c(terminal: TypedTerminal) -> None:
    terminal.press("app", CTRL_C)

    assert await terminal.terminal.ask("What do you decide?", DECISION) is None


async def test_ctrl_c_ends_the_wait_for_an_answer_also_after_a_question(terminal: TypedTerminal) -> None:
    asked = asyncio.Event()

    async def work() -> str:
        await terminal.terminal.ask("What do you decide?", DECISION)
        asked.set()
        await asyncio.Event().wait()
        return "never"

    async def interrupt() -> None:
        await asked.wait()
        os.kill(os.getpid(), signal.SIGINT)

    terminal.press("approve", ENTER)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(interrupt())
        answer = await terminal.terminal.attend(tasks.create_task(work()))

    assert answer is None


async def test_what_a_task_answers_is_handed_over(terminal: TypedTerminal) -> None:
    async def work() -> str:
        return "done"

    async with asyncio.TaskGroup() as tasks:
        assert await terminal.terminal.attend(tasks.create_task(work())) == "done"


@contextmanager
def mask(bits: int) -> Iterator[None]:
    before = os.umask(bits)
    try:
        yield
    finally:
        os.umask(before)


def test_history_is_kept_where_only_its_owner_reads(tmp_path: Path) -> None:
    with mask(0):
        open_history({"XDG_STATE_HOME": str(tmp_path / "state")}).append_string("(shop.refund\n:amount 1)")

    file = tmp_path / "state" / "verbworker" / "repl-history"
    again = list(open_history({"XDG_STATE_HOME": str(tmp_path / "state")}).load_history_strings())
    assert (stat.S_IMODE(file.stat().st_mode), again) == (0o600, ["(shop.refund\n:amount 1)"])
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_history_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    file = place({"XDG_STATE_HOME": str(tmp_path)})
    file.parent.mkdir()
    file.touch(0o666)
    open_history({"XDG_STATE_HOME": str(tmp_path)})

    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_a_state_home_it_is_the_usual_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert place({"XDG_STATE_HOME": "relative"}) == tmp_path / ".local" / "state" / "verbworker" / "repl-history"


def _taken(folder: Path) -> None:
    (folder / "verbworker").write_text("a file where a folder should be")


def _gone(folder: Path) -> None:
    (folder / "verbworker" / "repl-history").mkdir(parents=True)


@pytest.mark.parametrize("spoil", [_taken, _gone])
def test_where_nothing_can_be_kept_it_lasts_as_long_as_the_session(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(tmp_path)
    history = open_history({"XDG_STATE_HOME": str(tmp_path)})
    history.append_string("gates")

    assert history.get_strings() == ["gates"]


def test_a_disk_that_goes_away_takes_no_line_from_this_session(tmp_path: Path) -> None:
    history = open_history({"XDG_STATE_HOME": str(tmp_path)})
    file = place({"XDG_STATE_HOME": str(tmp_path)})
    file.unlink()
    file.mkdir()
    history.append_string("gates \udcff")

    assert (history.get_strings(), list(history.load_history_strings())) == (["gates \udcff"], [])
