"""The subscription of a message, written for Zeebe where it is written for Fleans."""

from verblint.bpmn.binding import find_subscription, read_key
from verblint.bpmn.element import ZEEBE, Element
from verblint.feel.tokenizer import single_name
from verblint.fixes.insertions import name_with_prefix
from verblint.fixes.rewrites import remove
from verblint.report import Edit, Fix


def rewrite_subscription(element: Element) -> Fix | None:
    """Write a subscription of Fleans for Zeebe, or remove one that is not read; None if its key is no variable."""
    message = element.parent.parent if element.parent is not None else None
    key = None if message is None else read_key(message)
    if message is None or key is None:
        return None
    if key.element.namespace == ZEEBE:
        return remove(element, "remove what another subscription overrides")
    if key.element is not element or single_name(key.feel) is None or find_subscription(message, ZEEBE) is not None:
        return None
    name, declared = name_with_prefix(element, "subscription")
    written = f'<{name}{declared} correlationKey="{key.text}" />'
    return Fix("write it for Zeebe", (Edit(element.start, element.end, written.encode()),))
