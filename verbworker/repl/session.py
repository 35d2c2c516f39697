"""A session: evaluates one line at a time. It knows verbs, entries and gates, but no terminal."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from verbworker.app.output import COUNTED, count_more
from verbworker.client.client import Client
from verbworker.client.records import GateRecord
from verbworker.contract.invocation import Invocation, Value
from verbworker.errors import InvocationInvalid, NotFound, Refused, StoreUnavailable, VerbworkerError
from verbworker.repl import formatting
from verbworker.repl.argument_slots import CANCEL, fill, open_slots, read_answer
from verbworker.repl.lines import Order, read
from verbworker.repl.shapes import ArgumentSlot, Kind, Shapes, VerbShape
from verbworker.repl.short_ids import ShortIds
from verbworker.repl.status_line import AWAY
from verbworker.runbook.event import Status
from verbworker.stores.id_prefixes import IdPrefixes

# The exit codes of every command.
REFUSED = 1
COULD_NOT_RUN = 2
_LATEST = 20  # lines of a listing; they fit a terminal of 24
_LEAVING = ("quit", "exit")
_NOTHING_DONE = "Nothing was done."


class Questioner(Protocol):
    """Asks the user for missing arguments, and whether to go on."""

    async def ask(self, question: str, slot: ArgumentSlot) -> str | None:
        """Return an answer, or None to leave; raises `Refused` if no person is present."""

    async def agrees(self, sentence: str) -> bool | None:
        """Return whether to go on; None if no person is present."""


@dataclass(frozen=True, slots=True)
class ReplAnswer:
    """The result of a line: lines to print or a complaint, and an exit code."""

    lines: Sequence[str] = ()
    complaint: str | None = None
    code: int = 0
    leaves: bool = False
    entry_id: UUID | None = None


class _Cancelled(Exception):
    """The user cancelled a question."""


class ReplSession:
    """What a person can do, one line at a time. The session survives any input."""

    def __init__(
        self,
        client: Client,
        shapes: Shapes,
        person: Questioner,
        *,
        past: Callable[[], Sequence[str]],
    ) -> None:
        self._client = client
        self._shapes = shapes
        self._person = person
        self._past = past
        self.numbers = ShortIds()
        self.takes: dict[str, tuple[str, ...]] = {}
        self._orders: Mapping[str, Callable[[Order], Awaitable[ReplAnswer]]] = {
            "verbs": self._verbs,
            "gates": self._list_gates,
            "decide": self._decide,
            "runbook": self._show_runbook,
            "events": self._show_events,
            "history": self._history,
            "help": self._help,
        }

    async def evaluate(self, line: str) -> ReplAnswer:
        """Evaluate a line; every error becomes one sentence."""
        try:
            return await self._evaluate(line)
        except _Cancelled:
            return ReplAnswer([_NOTHING_DONE], code=REFUSED)
        except Refused as error:
            return _complaint(str(error), REFUSED)
        except StoreUnavailable as error:
            return _complaint(f"{AWAY}; check the runbook before repeating anything: {error}", COULD_NOT_RUN)
        except VerbworkerError as error:
            return _complaint(f"failed: {error}", COULD_NOT_RUN)
        except Exception as error:
            if os.environ.get("VERBWORKER_DEBUG"):
                raise
            # The top of a loop: a bug of ours, or of a verb's author, ends one line and not the session.
            return _complaint(f"a bug ended this ({type(error).__name__}); --debug shows where", COULD_NOT_RUN)

    async def _evaluate(self, line: str) -> ReplAnswer:
        if not line.strip():
            return ReplAnswer()
        if any(letter == "\x00" or "\ud800" <= letter <= "\udfff" for letter in line):
            raise InvocationInvalid("this line has characters that cannot be stored")
        asked = read(line, self._shapes)
        if isinstance(asked, Invocation):
            return await self._perform(asked)
        if asked.word in _LEAVING:
            return ReplAnswer(leaves=True)
        order = self._orders.get(asked.word)
        if order is None:
            raise InvocationInvalid(f"{asked.word[:60]!a} is neither a verb nor a command; type help for a list")
        return await order(asked)

    # ---- verbs ----------------------------------------------------------------------------------------------------

    async def _perform(self, asked: Invocation) -> ReplAnswer:
        shape = self._shapes.get(asked.verb)
        if shape is not None:
            asked = await self._complete(shape, asked)
            if not await self._agreed(shape.playback(asked.args)):
                return ReplAnswer([_NOTHING_DONE], code=REFUSED)
        # An unknown verb takes the same path: the router suggests which one may be meant.
        entry = await (await self._client.start(asked.verb, asked.args)).read()
        code = REFUSED if entry.status in (Status.FAILED, Status.CANCELLED) else 0
        return ReplAnswer(formatting.format_start(entry, self.numbers), code=code, entry_id=entry.entry_id)

    async def _complete(self, shape: VerbShape, asked: Invocation) -> Invocation:
        """Fill in the missing arguments, with one question each."""
        unknown = [name for name in asked.args if shape.slots and shape.slot(name) is None]
        if unknown:
            raise InvocationInvalid(f"{shape.name} has no argument {unknown[0]!a}; for a list: verbs {shape.name}")
        args = dict(asked.args)
        for slot, problem in open_slots(shape, args):
            question = slot.question if problem is None else f"{problem}. {slot.question}"
            args = fill(args, slot, await self._ask_for(slot, question))
        return Invocation(asked.verb, args)

    async def _ask_for(self, slot: ArgumentSlot, question: str) -> Value:
        while True:
            reply = await self._person.ask(f"{question} ({slot.takes})", slot)
            if reply is None or reply.strip().lower() == CANCEL:
                raise _Cancelled
            try:
                return read_answer(slot, reply)
            except InvocationInvalid as error:
                question = f"{error}. {slot.question}"

    async def _agreed(self, sentence: str) -> bool:
        agreed = await self._person.agrees(f"You are about to: {sentence}.")
        if agreed is None:
            raise InvocationInvalid(
                "a pipe cannot confirm, so nothing was done; pass --yes to run without confirmation"
            )
        return agreed

    # ---- gates ----------------------------------------------------------------------------------------------------

    async def _list_gates(self, _order: Order) -> ReplAnswer:
        gates = (await self._client.gates(limit=_LATEST + COUNTED)).gates
        named = formatting.names_of(gates, self.numbers)
        self.takes = {name: gate.decisions for name, gate in named.items()}
        more = count_more(len(gates), _LATEST)
        return ReplAnswer([*formatting.format_gates(named)[:_LATEST], *([f"and {more}"] if more else [])])

    async def _decide(self, order: Order) -> ReplAnswer:
        where, *words = order.words(3) or [""]
        if not where:
            raise InvocationInvalid("which gate? decide <number> <decision> [reason]; for the numbers: gates")
        gate = await self._gate(where)
        decision = words[0] if words else await self._decision(gate)
        if gate.decisions and decision not in gate.decisions:
            raise InvocationInvalid(f"{gate.gate} accepts {', '.join(gate.decisions)}, not {decision[:60]!a}")
        reason = words[1] if len(words) > 1 else ""
        about = f"decide {decision} at {gate.gate} of {self.numbers(gate.entry_id)}, {gate.sentence or gate.verb}"
        is_open = gate.closed_at is None  # if closed, deciding reports its outcome; there is nothing to agree to
        if is_open and not await self._agreed(about + (f", because: {reason}" if reason else "")):
            return ReplAnswer([_NOTHING_DONE], code=REFUSED)
        decided = await self._client.decide(gate.token_id, decision, reason=reason)
        return ReplAnswer(formatting.format_decision(decided, self.numbers), entry_id=decided.entry_id)

    async def _gate(self, where: str) -> GateRecord:
        short, _, name = where.partition("/")
        return await self._client.gate(await self._find_id(short), gate=name or None)

    async def _find_id(self, text: str) -> UUID:
        """Return the entry or gate that a number, an id or its beginning names."""
        try:
            return self.numbers.find(text)
        except NotFound as unknown:
            try:
                prefixes = IdPrefixes(self._client.resources.database, self._client.tenant)
                return await prefixes.entry_or_gate(text)
            except (InvocationInvalid, NotFound):
                raise unknown from None

    async def _decision(self, gate: GateRecord) -> str:
        kind: Kind = "enum" if gate.decisions else "string"
        question = f"What do you decide at {gate.gate}?"

        def misfit(value: object) -> str | None:
            fits = not gate.decisions or value in gate.decisions
            return None if fits else f"must be one of {', '.join(gate.decisions)}"

        slot = ArgumentSlot("the decision", kind, question, is_required=True, values=gate.decisions, misfit=misfit)
        return str(await self._ask_for(slot, question))

    # ---- reading --------------------------------------------------------------------------------------------------

    async def _show_runbook(self, order: Order) -> ReplAnswer:
        if not order.rest:
            page = await self._client.entries(limit=_LATEST + COUNTED)
            entries = page.entries[:_LATEST]
            more = count_more(len(page.entries), _LATEST)
            return ReplAnswer([*formatting.format_entries(entries, self.numbers), *([f"and {more}"] if more else [])])
        entry = await self._client.entry(await self._find_id(_only(order)))
        return ReplAnswer(formatting.format_entry(await entry.read(), await entry.history(), self.numbers))

    async def _show_events(self, order: Order) -> ReplAnswer:
        if not order.rest:
            raise InvocationInvalid("which entry? events <number>; for the numbers: runbook")
        entry = await self._client.entry(await self._find_id(_only(order)))
        return ReplAnswer(formatting.format_events(await entry.history()))

    async def _verbs(self, order: Order) -> ReplAnswer:
        if not order.rest:
            return ReplAnswer(formatting.format_verbs(self._shapes))
        shape = self._shapes.get(_only(order))
        if shape is None:
            raise NotFound(f"there is no verb {_only(order)[:60]!a}; for a list: verbs")
        return ReplAnswer(formatting.format_verb(shape))

    async def _history(self, _order: Order) -> ReplAnswer:
        return ReplAnswer(list(self._past())[-_LATEST:])

    async def _help(self, _order: Order) -> ReplAnswer:
        return ReplAnswer(formatting.format_help())


def _only(order: Order) -> str:
    return order.rest.strip()


def _complaint(sentence: str, code: int) -> ReplAnswer:
    return ReplAnswer(complaint=" ".join(sentence.split()), code=code)
