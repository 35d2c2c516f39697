"""The app of the embedded engine's chaos run: a fork, a timer, a message, a join, and effects on every way.

A worker loads it as `verbworker worker --app tests.chaos.mixed:registry`.
"""

from tests.chaos.verbs import verbs_of
from tests.support.drawing import Drawing
from verblint.contracts.contract import Argument
from verbworker.contract.registry import Registry
from verbworker.contract.workflow import WorkflowVerb

DOMAIN = "mixed"
LETTER = "mixed.letter"
STEPS = ("book", "send", "falter-book")
VERB = f"{DOMAIN}.run"


def model() -> bytes:
    """Two branches, one over a timer and one over a message; behind their join a step that fails once."""
    book, send, last = (f"{DOMAIN}.{step}" for step in STEPS)
    drawing = Drawing(f"{DOMAIN}-run").start().gateway("parallel", "split", "join").end()
    drawing.task("book", book).catch("rest", timer="PT1S")
    drawing.task("send", send).catch("letter", message=LETTER).task("last", last)
    drawing.flow("begin", "split", "book", "rest", "join", "last", "end")
    return drawing.flow("split", "send", "letter", "join").xml()


def _registry() -> Registry:
    chosen, verbs = Registry(), verbs_of(DOMAIN)
    for step in STEPS:
        verb = verbs.find(f"{DOMAIN}.{step}")
        assert verb is not None
        chosen.add(verb)
    return chosen.declare(
        WorkflowVerb(
            name=VERB,
            version=1,
            process=f"{DOMAIN}-run",
            schema=f"{DOMAIN}.run/v1",
            args={"number": Argument(type="integer", required=True)},
            initial={"number": "args.number"},
            outcome={"booked": "data.booked", "sent": "data.sent"},
            correlation={"corr_key": "${args.number}"},
            messages={LETTER: "corr_key"},
            sub_verbs=tuple(f"{DOMAIN}.{step}" for step in STEPS),
        )
    )


registry = _registry()
