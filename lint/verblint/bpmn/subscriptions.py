"""The correlation key of a message, in whichever extension it is written."""

from verblint.bpmn.binding import find_attribute
from verblint.bpmn.element import AMEIDE, FLEANS, ZEEBE, Element, Place
from verblint.bpmn.expression import Expression
from verblint.startup.pattern import pattern

# The one template that is the value of one variable, unchanged.
_ONE_VARIABLE = pattern(r"\$\{state\.([A-Za-z_][A-Za-z0-9_]*)\}")


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
