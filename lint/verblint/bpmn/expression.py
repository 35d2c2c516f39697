"""A value the engine might evaluate, and the place in the file it was written at."""

from verblint.bpmn.element import Attribute, Element, Place
from verblint.startup.value import value

# The engine trims element text like Java does; XML lets only these four through.
_BLANK = " \t\r\n"


@value(guarded=False)
class Expression:
    """Text as the engine reads it: an attribute's value as it stands, an element's text trimmed."""

    text: str
    element: Element
    key: str = ""
    skipped: int = 0

    @classmethod
    def of(cls, written: Element | Attribute) -> "Expression":
        """The expression an attribute or an element holds."""
        if isinstance(written, Attribute):
            return cls(written.value, written.element, written.key)
        text = written.text
        return cls(text.strip(_BLANK), written, "", len(text) - len(text.lstrip(_BLANK)))

    @property
    def written(self) -> Element | Attribute:
        """What holds the text: the attribute under the key, or without a key the element."""
        return self.element.written(self.key) if self.key else self.element

    @property
    def is_feel(self) -> bool:
        """True when the engine evaluates the text; otherwise it takes it literally."""
        return len(self.text) > 1 and self.text.startswith("=")

    @property
    def feel(self) -> str:
        """The text behind the equals sign."""
        return self.text[1:] if self.is_feel else ""

    @property
    def place(self) -> Place:
        """Where the text stands; an element without text gives its start tag."""
        return self.part(0, len(self.text))

    def part(self, start: int, end: int) -> Place:
        """The bytes that hold characters `start` to `end` of `text`; of nothing, one character or the tag is shown."""
        if not self.text:
            return self.written.place
        start = max(0, min(start, len(self.text) - 1))
        end = max(start + 1, min(end, len(self.text)))
        return self.written.part(self.skipped + start, self.skipped + end)
