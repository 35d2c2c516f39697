"""A value the engine might evaluate, with its place in the file."""

from verblint.bpmn.element import Attribute, Element, Place
from verblint.startup.value import value

# The engine trims element text like Java; XML allows only these four characters.
_BLANK = " \t\r\n"


@value(guarded=False)
class Expression:
    """Text as the engine reads it: an attribute's value unchanged, an element's text trimmed."""

    text: str
    element: Element
    key: str = ""
    skipped: int = 0

    @classmethod
    def of(cls, written: Element | Attribute) -> "Expression":
        """Create the expression of an attribute or an element."""
        if isinstance(written, Attribute):
            return cls(written.value, written.element, written.key)
        text = written.text
        return cls(text.strip(_BLANK), written, "", len(text) - len(text.lstrip(_BLANK)))

    @property
    def origin(self) -> Element | Attribute:
        """The attribute with the key, or without a key the element."""
        return self.element.written(self.key) if self.key else self.element

    @property
    def is_feel(self) -> bool:
        """Whether the engine evaluates the text instead of taking it literally."""
        return len(self.text) > 1 and self.text.startswith("=")

    @property
    def feel(self) -> str:
        """The text after the equals sign."""
        return self.text[1:] if self.is_feel else ""

    @property
    def place(self) -> Place:
        """The place of the text, or the start tag of an element without text."""
        return self.part(0, len(self.text))

    def part(self, start: int, end: int) -> Place:
        """Return the bytes of characters `start` to `end` of `text`: at least one, or the tag if there is no text."""
        if not self.text:
            return self.origin.place
        start = max(0, min(start, len(self.text) - 1))
        end = max(start + 1, min(end, len(self.text)))
        return self.origin.part(self.skipped + start, self.skipped + end)
