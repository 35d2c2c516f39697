"""What the zeebe extension binds to an element: job type, retries, headers, listeners, mappings and correlation key."""

from collections.abc import Iterable, Iterator

from verblint.bpmn.element import AMEIDE, BPMN, FLEANS, ZEEBE, Element, Place
from verblint.bpmn.expression import Expression
from verblint.contracts.syntax import ONE_VARIABLE
from verblint.startup.pattern import pattern
from verblint.startup.value import value

_ONE_VARIABLE = pattern(ONE_VARIABLE)


@value
class Header:
    """One task header: a key and a literal value for the worker."""

    key: str
    value: str
    element: Element


@value
class Listener:
    """One execution or task listener: an event and the job it creates."""

    event: str
    type: Expression | None
    retries: Expression | None
    element: Element


@value
class Mapping:
    """One input or output mapping from a source expression to a target variable."""

    direction: str
    source: Expression | None
    target: str
    element: Element


@value(guarded=False)
class Binding:
    """Everything the zeebe extension defines for one element.

    If something is written twice, the first one counts, as in the engine; rules check the tree and report the second.
    """

    type: Expression | None = None
    retries: Expression | None = None
    headers: tuple[Header, ...] = ()
    execution_listeners: tuple[Listener, ...] = ()
    task_listeners: tuple[Listener, ...] = ()
    mappings: tuple[Mapping, ...] = ()
    is_user_task: bool = False
    element: Element | None = None

    @property
    def job_type(self) -> str:
        """The literal job type; empty if it is missing or an expression."""
        return "" if self.type is None or self.type.is_feel else self.type.text


_NOTHING = Binding()


def bind(element: Element) -> Binding:
    """Read the extension elements of a process, activity or event."""
    found = _extensions(element)
    if not found:
        return _NOTHING
    definition = next(iter(found.get("taskDefinition", ())), None)
    if definition is not None and len(found) == 1:
        # Most tasks have only this.
        return Binding(
            find_attribute(definition, "type"), find_attribute(definition, "retries"), (), (), (), (), False, definition
        )
    return Binding(
        type=find_attribute(definition, "type"),
        retries=find_attribute(definition, "retries"),
        headers=tuple(_headers(found.get("taskHeaders", ()))),
        execution_listeners=tuple(_listeners(found.get("executionListeners", ()), "executionListener")),
        task_listeners=tuple(_listeners(found.get("taskListeners", ()), "taskListener")),
        mappings=tuple(_mappings(found.get("ioMapping", ()))),
        is_user_task="userTask" in found,
        element=definition,
    )


def find_attribute(element: Element | None, local: str) -> Expression | None:
    """Return the value of an unqualified attribute with its place, or None if either is missing."""
    text = element.values.get(local) if element is not None else None
    return Expression(text, element, local) if element is not None and text is not None else None


def _extensions(element: Element) -> dict[str, list[Element]]:
    """Return the zeebe extension elements by name."""
    found: dict[str, list[Element]] = {}
    for holder in element.children:
        if holder.local == "extensionElements" and holder.namespace == BPMN:
            for child in holder.children:
                if child.namespace == ZEEBE:
                    found.setdefault(child.local, []).append(child)
    return found


def _headers(groups: Iterable[Element]) -> Iterator[Header]:
    for group in groups:
        for header in group.find_all("header", ZEEBE):
            yield Header(header.get("key") or "", header.get("value") or "", header)


def _listeners(groups: Iterable[Element], singular: str) -> Iterator[Listener]:
    for group in groups:
        for listener in group.find_all(singular, ZEEBE):
            event = listener.get("eventType") or ""
            yield Listener(event, find_attribute(listener, "type"), find_attribute(listener, "retries"), listener)


def _mappings(groups: Iterable[Element]) -> Iterator[Mapping]:
    for group in groups:
        for entry in group.children:
            if entry.namespace == ZEEBE and entry.local in ("input", "output"):
                yield Mapping(entry.local, find_attribute(entry, "source"), entry.get("target") or "", entry)


class RewrittenKey(Expression):
    """A key in the words of the engine: its text is not that of the attribute, whose value is its place."""

    __slots__ = ()

    def part(self, start: int, end: int) -> Place:
        """Return the place of the whole attribute."""
        return self.origin.place


def read_key(message: Element) -> Expression | None:
    """Return the correlation key of a message: of Zeebe, else of Ameide, else of Fleans."""
    return (
        find_attribute(find_subscription(message, ZEEBE), "correlationKey")
        or _read_template(find_subscription(message, AMEIDE))
        or _read_variable(next(filter(None, (find_subscription(message, name) for name in FLEANS)), None))
    )


def find_subscription(message: Element, namespace: str) -> Element | None:
    """Return the first subscription of a message in a namespace."""
    extensions = message.find("extensionElements")
    return None if extensions is None else extensions.find("subscription", namespace)


def _read_template(element: Element | None) -> Expression | None:
    """Return a template that is the value of one variable; any other is the runtime's, which no engine evaluates."""
    text = element.get("correlationKeyTemplate") if element is not None else None
    match = None if text is None else _ONE_VARIABLE.fullmatch(text)
    return None if match is None or element is None else RewrittenKey(f"={match[1]}", element, "correlationKeyTemplate")


def _read_variable(element: Element | None) -> Expression | None:
    """Return the variable that Fleans names, with an equals sign or without."""
    text = element.get("correlationKey") if element is not None else None
    if element is None or text is None:
        return None
    return RewrittenKey(f"={text.strip().removeprefix('=').strip()}", element, "correlationKey")
