"""Somebody to talk to: a registry with every kind of argument, and a person whose answers are known beforehand."""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from uuid import UUID

from pydantic import BaseModel, Field

from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call, Result
from verbworker.repl.shapes import ArgumentSlot, VerbShape, shapes_of

CONTRACTS = """\
verbs:
  - verb: kyc.open-case
    version: 1
    strategy: workflow
    summary: Opens a case
    sentences:
      step: Open a case for {entity}
      clarify: {entity: "Who is it about?", case-type: "Why is it opened?"}
    args:
      entity: {type: string, required: true, summary: The registered name}
      case-type: {type: enum, values: [onboarding, periodic-review, "two words"], required: true}
      pages: {type: integer, required: true}
      score: {type: number}
      urgent: {type: boolean}
    process: kyc-open-case
    payload: {initial: {entity: args.entity}}
  - verb: shop.charge
    sentences:
      step: Charge {amount} to {customer}
      clarify: {customer: "Who pays?"}
    args:
      amount: {type: integer, required: true}
      customer: {type: string, required: true}
"""


class Colour(StrEnum):
    """Two of them."""

    RED = "red"
    BLUE = "blue"


class Bill(BaseModel):
    """What a direct verb is given."""

    customer: str = Field(min_length=2)
    amount: int = Field(description="In cents", gt=0)
    colour: Colour = Colour.RED
    paid_by: UUID | None = None
    lines: tuple[str, ...] = ()


def make_registry(folder: Path) -> Registry:
    """A workflow verb, a direct verb with a contract, and one without."""
    verbs = Registry()

    @verbs.verb("shop.charge", mode="external")
    async def charge(bill: Bill, call: Call) -> Result[Bill]:
        """Never shown: the contract has a better sentence."""
        return Result(bill)

    @verbs.verb("shop.refund", mode="external")
    async def refund(bill: Bill, call: Call) -> Result[Bill]:
        """Pay a bill back."""
        if bill.customer == "nobody":
            raise RuntimeError("a mistake of the verb's author")
        return Result(bill)

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "verbs.yaml").write_text(CONTRACTS)
    return verbs.load(folder).check()


def make_shapes(folder: Path) -> dict[str, VerbShape]:
    """The same as somebody at a terminal knows them."""
    return shapes_of(make_registry(folder))


class Scripted:
    """A person who says one thing after the other, and remembers what they were asked."""

    def __init__(self, answers: Iterable[str | None] = (), *, agrees: bool | None = True) -> None:
        self._answers = iter(answers)
        self._agrees = agrees
        self.heard: list[str] = []

    async def ask(self, question: str, slot: ArgumentSlot) -> str | None:
        """The next answer; none when there are no more."""
        self.heard.append(question)
        return next(self._answers, None)

    async def agrees(self, sentence: str) -> bool | None:
        """As decided beforehand."""
        self.heard.append(sentence)
        return self._agrees
