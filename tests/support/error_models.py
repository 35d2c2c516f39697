"""A table of models in which the job `work` ends with a code, and the event that catches it on every engine."""

from dataclasses import dataclass
from functools import partial

from tests.support.drawing import Drawing

ALL = ("inline", "embedded", "zeebe", "zeebe-8.8", "zeebe-8.9")
BROKERS = ALL[2:]  # what they execute and the kernel does not

_MANY = (
    "<bpmn:multiInstanceLoopCharacteristics><bpmn:extensionElements>"
    '<zeebe:loopCharacteristics inputCollection="=[1]"/>'
    "</bpmn:extensionElements></bpmn:multiInstanceLoopCharacteristics>"
)


@dataclass(frozen=True)
class Row:
    """One model: `by` is the event that catches `code`, which leads to the job `after_<by>`.

    A `message` brings a token to `work` beside or in the place of the job `main`, which then is among `beside`.
    """

    name: str
    drawing: Drawing
    by: str | None
    code: str = "NO"
    message: str = ""
    beside: tuple[str, ...] = ()
    is_event: bool = False  # brokers answer a ThrowError of an event's job with an internal error
    on: tuple[str, ...] = ALL


class _Uncoded(Drawing):
    """Errors are declared, and have no code."""

    def xml(self) -> bytes:
        return super().xml().replace(b' errorCode="NO"', b"")


def _helped(drawing: Drawing, event: str) -> Drawing:
    return drawing.task(f"after_{event}").end(f"end_{event}").flow(event, f"after_{event}", f"end_{event}")


def _boundary(drawing: Drawing, event: str, host: str, code: str) -> Drawing:
    return _helped(drawing.boundary(event, host, error=code), event)


def _sub(drawing: Drawing, event: str, code: str) -> Drawing:
    """An event subprocess that catches a code."""
    return drawing.event_subprocess(f"sub_{event}", _helped(Drawing().event_start(event, error=code), event))


def _task() -> Drawing:
    return Drawing().start().task("work").end().flow("begin", "work", "end")


def _inside(kind: str = "") -> Drawing:
    drawing = Drawing().start("in")
    if kind == "endEvent":
        return drawing.send("work", kind).flow("in", "work")
    drawing = drawing.send("work", kind) if kind else drawing.task("work")
    return drawing.end("out").flow("in", "work", "out")


def _box(inside: Drawing, name: str = "box", *, before: str = "") -> Drawing:
    begin, end = f"before_{name}", f"behind_{name}"
    return Drawing().start(begin).subprocess(name, inside, before=before).end(end).flow(begin, name, end)


def _beside_main(*, interrupting: bool, own: str | None = None) -> Drawing:
    """A scope that is busy with `main`, and an event subprocess with `work` that a message starts."""
    inside = Drawing().event_start("came", message="m", interrupting=interrupting)
    inside.task("work").end("done").flow("came", "work", "done")
    if own is not None:
        _boundary(inside, "b", "work", own)
    scope = Drawing().start("in").task("main").end("out").flow("in", "main", "out")
    return scope.event_subprocess("beside", inside)


def _undone() -> Drawing:
    """`work` undoes `done`, in a subprocess whose boundary catches."""
    inside = Drawing().start("in").plain("done").compensated("done", "work").compensate("undo").end("out")
    return _boundary(_box(inside.flow("in", "done", "undo", "out")), "b", "box", "NO")


def _many_tasks() -> Drawing:
    inside = '<bpmn:extensionElements><zeebe:taskDefinition type="work" retries="3"/></bpmn:extensionElements>'
    drawing = Drawing().start()
    drawing.parts.append(f'<bpmn:serviceTask id="work">{inside}{_MANY}</bpmn:serviceTask>')
    return _boundary(drawing.end().flow("begin", "work", "end"), "b", "work", "NO")


_broker = partial(Row, on=BROKERS)
_busy = partial(Row, on=BROKERS, message="m")

ROWS = [
    Row("task", _boundary(_task(), "b", "work", "NO"), "b"),
    Row("task another code", _boundary(_task(), "b", "work", "OTHER"), None),
    Row("task case matters", _boundary(_task(), "b", "work", "no"), None),
    Row("task without an event", _task(), None),
    Row("task catch all", _boundary(_task(), "b", "work", ""), "b"),
    Row("named before catch all", _boundary(_boundary(_task(), "a", "work", ""), "b", "work", "NO"), "b"),
    Row("send task", _boundary(_box(_inside("sendTask")), "b", "box", "NO"), "b"),
    Row(
        "declared without a code",
        _boundary(_Uncoded().start().task("work").end().flow("begin", "work", "end"), "b", "work", "NO"),
        "b",
    ),
    Row("subprocess", _boundary(_box(_inside()), "b", "box", "NO"), "b"),
    Row("subprocess catch all", _boundary(_box(_inside()), "b", "box", ""), "b"),
    Row("subprocess another code", _boundary(_box(_inside()), "b", "box", "OTHER"), None),
    Row("nearest catch all", _boundary(_box(_boundary(_inside(), "a", "work", "")), "b", "box", "NO"), "a"),
    Row("past the nearest", _boundary(_box(_boundary(_inside(), "a", "work", "OTHER")), "b", "box", "NO"), "b"),
    Row("two levels", _boundary(_box(_box(_inside(), "inner")), "b", "box", "NO"), "b"),
    Row(
        "two levels the inner one",
        _boundary(_box(_boundary(_box(_inside(), "inner"), "a", "inner", "NO")), "b", "box", "NO"),
        "a",
    ),
    Row("compensation handler", _undone(), "b"),
    _broker(
        "message throw event", _boundary(_box(_inside("intermediateThrowEvent")), "b", "box", "NO"), None, is_event=True
    ),
    _broker("message end event", _boundary(_box(_inside("endEvent")), "b", "box", "NO"), None, is_event=True),
    _broker("event subprocess", _sub(_task(), "s", "NO"), "s"),
    _broker("event subprocess another code", _sub(_task(), "s", "OTHER"), None),
    _broker("event subprocess catch all", _sub(_task(), "s", ""), "s"),
    _broker("event subprocess of the scope around", _sub(_box(_inside()), "s", "NO"), "s"),
    _broker("event subprocess of a subprocess", _box(_sub(_inside(), "s", "NO")), "s"),
    _broker("task before event subprocess", _boundary(_sub(_task(), "s", "NO"), "b", "work", ""), "b"),
    _broker("event subprocess before boundary", _boundary(_box(_sub(_inside(), "s", "NO")), "b", "box", "NO"), "s"),
    _broker("both catch all", _boundary(_box(_sub(_inside(), "s", "")), "b", "box", ""), "s"),
    _broker("named boundary before catch all", _boundary(_box(_sub(_inside(), "s", "")), "b", "box", "NO"), "b"),
    _broker("named start before catch all", _boundary(_box(_sub(_inside(), "s", "NO")), "b", "box", ""), "s"),
    _busy(
        "beside its scope",
        _boundary(_box(_beside_main(interrupting=False)), "b", "box", "NO"),
        "b",
        beside=("main",),
    ),
    _busy("beside its scope a start", _sub(_beside_main(interrupting=False), "s", "NO"), "s", beside=("main",)),
    _busy("instead of its scope", _boundary(_box(_beside_main(interrupting=True)), "b", "box", "NO"), None),
    _busy("instead of its scope a start", _sub(_beside_main(interrupting=True), "s", "NO"), None),
    _busy(
        "instead of its scope two levels",
        _boundary(_box(_box(_beside_main(interrupting=True), "inner")), "b", "box", "NO"),
        None,
    ),
    _busy("instead of its scope the outer start", _sub(_box(_beside_main(interrupting=True)), "s", "NO"), None),
    _busy("instead of its scope its own event", _beside_main(interrupting=True, own="NO"), "b"),
    _broker("task per item", _many_tasks(), "b"),
    _broker("subprocess per item", _boundary(_box(_inside(), before=_MANY), "b", "box", "NO"), "b"),
]
