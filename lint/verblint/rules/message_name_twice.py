"""In a file with the Ameide extension every message has its own name."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import is_used
from verblint.bpmn.element import AMEIDE
from verblint.report.finding import Finding, Severity
from verblint.rule import NARROWED, Context, rule


@rule("AM718", "message-name-twice", Severity.ERROR, on=(AMEIDE, NARROWED))
def check(context: Context) -> Iterator[Finding]:
    """In a file with the Ameide extension every message has its own name.

    Messages are matched by name. Two declarations of one name are two subscriptions for one message, and only one of
    them can be right.

    Wrong:  two messages with name="documents-received"
    Right:  one message, which both waits refer to
    """
    seen: set[str] = set()
    for message in context.model.messages.values() if is_used(context) else ():
        if message.name in seen:
            text = f"another message is called {message.name}"
            yield context.at(message.element, text, hint="Keep one, and let both waits refer to it")
        seen.add(message.name)
