"""The terminal: a prompt with completion, hints and a live status line."""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import DummyHistory, History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output

from verbworker.repl.completer import SessionNames, Suggestion, shape_at, suggest, suggest_answer
from verbworker.repl.formatting import ORDERS, plain
from verbworker.repl.lines import is_open
from verbworker.repl.session import ReplAnswer, ReplSession
from verbworker.repl.shapes import ArgumentSlot, Shapes
from verbworker.repl.status_line import StatusLine

T = TypeVar("T")

PROMPT = "verbs> "
_CONTINUED = "  ...> "
_REFRESH = 1.0  # seconds; the status line is read anew as often
_GREETING = "Type a verb or help. Tab completes, Ctrl-D leaves."
_STOPPED = "You stopped waiting; it may still run. Check the runbook."


class FunctionCompleter(Completer):
    """Completion by a function of the text before the cursor."""

    def __init__(self, suggesting: Callable[[str], list[Suggestion]]) -> None:
        self._suggesting = suggesting

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what may follow here."""
        for found in self._suggesting(document.text_before_cursor):
            yield Completion(found.text, start_position=-found.replaces, display_meta=plain(found.meta))


class Terminal:
    """Reads lines and answers from a user at a terminal."""

    def __init__(
        self, shapes: Shapes, history: History, *, source: Input | None = None, target: Output | None = None
    ) -> None:
        self._shapes = shapes
        self._known: Callable[[], SessionNames] = lambda: SessionNames(ORDERS)
        self._standing: Callable[[], str] = lambda: ""
        self._attend: Callable[[], None] = _nothing
        self._lines: PromptSession[str] = PromptSession(
            PROMPT,
            history=history,
            completer=FunctionCompleter(lambda text: suggest(text, shapes, self._known())),
            complete_while_typing=False,
            multiline=True,
            prompt_continuation=_CONTINUED,
            key_bindings=_bindings(),
            bottom_toolbar=self._toolbar,
            refresh_interval=_REFRESH,
            input=source,
            output=target,
        )
        self._answers: PromptSession[str] = PromptSession(
            history=DummyHistory(),
            bottom_toolbar=self._toolbar,
            refresh_interval=_REFRESH,
            complete_while_typing=False,
            input=source,
            output=target,
        )

    def show(self, known: Callable[[], SessionNames], standing: Callable[[], str]) -> None:
        """Set the sources of the completions and the status line."""
        self._known, self._standing = known, standing

    def refresh(self) -> None:
        """Redraw the status line."""
        for prompt in (self._lines, self._answers):
            prompt.app.invalidate()

    async def read(self) -> str | None:
        """Read the next line; an empty one after Ctrl-C, None after Ctrl-D."""
        try:
            return await self._lines.prompt_async()
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None

    async def attend(self, task: asyncio.Task[T]) -> T | None:
        """Return the result of the task, or None if Ctrl-C ended the wait for it."""
        loop = asyncio.get_running_loop()
        # A prompt takes over the signal, so the handler is set again after each question.
        self._attend = lambda: loop.add_signal_handler(signal.SIGINT, task.cancel)
        self._attend()
        try:
            await asyncio.wait({task})
        finally:
            self._attend = _nothing
            loop.remove_signal_handler(signal.SIGINT)
            task.cancel()
        return None if task.cancelled() else task.result()

    async def ask(self, question: str, slot: ArgumentSlot) -> str | None:
        """Ask a question; Ctrl-C and Ctrl-D return None."""
        _say(question)
        return await self._answer(f"{plain(slot.name)}> ", FunctionCompleter(lambda text: suggest_answer(text, slot)))

    async def agrees(self, sentence: str) -> bool | None:
        """Ask whether to go on; Enter alone means yes."""
        _say(sentence)
        while (reply := await self._answer("Go on? [Y/n] ", None)) is not None:
            match reply.strip().lower():
                case "" | "y" | "yes":
                    return True
                case "n" | "no" | "cancel":
                    return False
            _say("Type yes or no.")
        return False

    async def _answer(self, prompt: str, completer: Completer | None) -> str | None:
        try:
            # Without one the prompt would keep the completer of the previous question.
            return await self._answers.prompt_async(prompt, completer=completer or FunctionCompleter(lambda _: []))
        except (KeyboardInterrupt, EOFError):
            return None
        finally:
            self._attend()

    def _toolbar(self) -> FormattedText:
        shape = shape_at(self._lines.default_buffer.document.text_before_cursor, self._shapes)
        hint = [] if shape is None or not shape.slots else [plain(shape.hint)]
        return FormattedText([("", "\n".join([*hint, plain(self._standing())]))])


async def converse(session: ReplSession, terminal: Terminal, watch: StatusLine) -> None:
    """Evaluate one line after the other until the user leaves."""

    def collect_words() -> SessionNames:
        return SessionNames(ORDERS, session.numbers.newest_first, {**session.takes, **watch.takes})

    terminal.show(collect_words, lambda: watch.line)
    _say(_GREETING)
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch.run(terminal.refresh))
        try:
            while (line := await terminal.read()) is not None:
                answer = await terminal.attend(tasks.create_task(session.evaluate(line)))
                if answer is None:
                    _say(_STOPPED)
                elif answer.leaves:
                    break
                else:
                    _tell(answer)
                    watch.follow(answer.entry_id)
        finally:
            watching.cancel()


def _tell(answer: ReplAnswer) -> None:
    for line in answer.lines:
        _say(line)
    if answer.complaint is not None:
        _say(answer.complaint)


def _say(line: str) -> None:
    sys.stdout.write(f"{plain(line)}\n")
    sys.stdout.flush()


def _nothing() -> None:
    return


def _bindings() -> KeyBindings:
    """Bind Enter: it starts a new line while a parenthesis is open; an empty line always submits."""
    bindings = KeyBindings()

    @bindings.add("enter", filter=has_focus(DEFAULT_BUFFER))
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif is_open(buffer.text) and buffer.document.current_line.strip():
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    return bindings
