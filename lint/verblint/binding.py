"""What the zeebe extension binds to an element: a job type, retries, headers, listeners, mappings."""

from collections.abc import Iterator

from verblint.element import ZEEBE, Element
from verblint.expression import Expression
from verblint.value import value


@value
class Header:
    """One task header: a key and a literal value for the worker."""

    key: str
    value: str
    element: Element


@value
class Listener:
    """One execution or task listener: an event and the job it makes."""

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


@value
class Binding:
    """Everything the zeebe extension says about one element.

    When a model writes something twice the first one counts here, as it does for the engine; the rules see
    the tree and report the second.
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
        """The literal job type, or an empty string when there is none or the engine would compute it."""
        return "" if self.type is None or self.type.is_feel else self.type.text


def bind(element: Element) -> Binding:
    """Read the extension elements of a process, an activity or an event."""
    extensions = list(_extensions(element))
    if not extensions:
        return Binding()
    definition = next(_named(extensions, "taskDefinition"), None)
    return Binding(
        type=written(definition, "type"),
        retries=written(definition, "retries"),
        headers=tuple(_headers(extensions)),
        execution_listeners=tuple(_listeners(extensions, "executionListeners", "executionListener")),
        task_listeners=tuple(_listeners(extensions, "taskListeners", "taskListener")),
        mappings=tuple(_mappings(extensions)),
        is_user_task=any(_named(extensions, "userTask")),
        element=definition,
    )


def written(element: Element | None, local: str) -> Expression | None:
    """The value of an unqualified attribute with its place, or None when either is missing."""
    attribute = element.attribute(local) if element is not None else None
    return Expression.of(attribute) if attribute is not None else None


def _extensions(element: Element) -> Iterator[Element]:
    for holder in element.find_all("extensionElements"):
        yield from holder.children


def _named(elements: list[Element], local: str) -> Iterator[Element]:
    return (element for element in elements if element.is_a(local, ZEEBE))


def _headers(extensions: list[Element]) -> Iterator[Header]:
    for group in _named(extensions, "taskHeaders"):
        for header in group.find_all("header", ZEEBE):
            yield Header(header.get("key") or "", header.get("value") or "", header)


def _listeners(extensions: list[Element], plural: str, singular: str) -> Iterator[Listener]:
    for group in _named(extensions, plural):
        for listener in group.find_all(singular, ZEEBE):
            event = listener.get("eventType") or ""
            yield Listener(event, written(listener, "type"), written(listener, "retries"), listener)


def _mappings(extensions: list[Element]) -> Iterator[Mapping]:
    for group in _named(extensions, "ioMapping"):
        for entry in group.children:
            if entry.namespace == ZEEBE and entry.local in ("input", "output"):
                yield Mapping(entry.local, written(entry, "source"), entry.get("target") or "", entry)
