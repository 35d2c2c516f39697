"""The facts of a task, written for people: each value in the format that the contract declares, and never as JSON."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlsplit

from verblint.contracts.contract import GateFact
from verbworker.contract.text import holds_controls

MISSING = "Not known yet"
HIDDEN = "Not shown in this console"

_MOST_ITEMS = 100  # of a list; a person who needs more opens the case
_MOST_DEPTH = 4  # of objects in objects; deeper ones are counted
# Currencies without a smaller unit (ISO 4217).
_WHOLE = frozenset({"CLP", "ISK", "JPY", "KRW", "PYG", "UGX", "VND", "XAF", "XOF", "XPF"})
_LARGEST_EXPONENT = 40  # digits; an amount beyond them is no amount, and would take memory to write


@dataclass(frozen=True, slots=True)
class Item:
    """One value as it is shown; with `href`, as a link."""

    text: str
    href: str | None = None


@dataclass(frozen=True, slots=True)
class ShownFact:
    """One fact: its label and its values, with `is_list` as items of a list. `note` says what is not there."""

    label: str
    items: tuple[Item, ...] = ()
    is_list: bool = False
    note: str = ""


def facts_of(detail: Mapping[str, Any]) -> tuple[GateFact, ...]:
    """Return the facts that a gate was opened with."""
    names = ("field", "label", "format", "currency")
    return tuple(GateFact(**{name: row[name] for name in names if name in row}) for row in detail.get("show", ()))


def show_facts(
    facts: Iterable[GateFact], data: Mapping[str, Any], may_show: Sequence[str] | None = None
) -> list[ShownFact]:
    """Return facts with their values in the data. Of fields outside `may_show`, if it is given, only the label."""
    return [
        ShownFact(fact.label, note=HIDDEN)
        if may_show is not None and not _is_visible(fact.field, may_show)
        else show_fact(fact, _at(data, fact.field))
        for fact in facts
    ]


def show_fact(fact: GateFact, value: object) -> ShownFact:
    """Return one fact with its value; None and what is empty is not known yet."""
    if value is None or value == "" or value == [] or value == {}:
        empty = "None" if isinstance(value, list) else MISSING
        return ShownFact(fact.label, note=empty)
    if isinstance(value, list):
        more = len(value) - _MOST_ITEMS
        items = tuple(_item(fact, one) for one in value[:_MOST_ITEMS])
        return ShownFact(fact.label, items, is_list=True, note=f"and {more:,} more" if more > 0 else "")
    if isinstance(value, Mapping) and not (fact.format == "money" and "amount" in value):
        return ShownFact(fact.label, tuple(Item(line) for line in _lines(value)), is_list=True)
    return ShownFact(fact.label, (_item(fact, value),), is_list=fact.format == "list")


def _is_visible(field: str, may_show: Sequence[str]) -> bool:
    return any(field == path or field.startswith(f"{path}.") for path in may_show)


def _at(data: Mapping[str, Any], field: str) -> object:
    value: object = data
    for step in field.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return None
        value = value[step]
    return value


def _item(fact: GateFact, value: object) -> Item:
    match fact.format:
        case "money":
            return Item(_money(value, fact.currency) or _text(value))
        case "number":
            return Item(_number(value) or _text(value))
        case "date":
            return Item(_date(value) or _text(value))
        case "datetime":
            return Item(_moment(value) or _text(value))
        case "yes/no" if isinstance(value, bool):
            return Item("Yes" if value else "No")
        case "link":
            return Item(_text(value), _address(value))
        case _:
            return Item(_text(value))


def _text(value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return "Yes" if value else "No"
        case None:
            return MISSING
        case Mapping():
            return ", ".join(_lines(value))
        case list():
            return ", ".join(_text(one) for one in value[:_MOST_ITEMS])
        case _:
            return str(value)


def _lines(value: Mapping[str, Any], depth: int = 1) -> list[str]:
    """Return `name: value` for each field of an object, with the names as words."""
    lines = []
    for name, inner in list(value.items())[:_MOST_ITEMS]:
        if isinstance(inner, Mapping):
            known = ", ".join(_lines(inner, depth + 1)) if depth < _MOST_DEPTH else f"{len(inner)} fields"
        else:
            known = _text(inner)
        lines.append(f"{str(name).replace('_', ' ')}: {known}")
    return lines


def _decimal(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= _LARGEST_EXPONENT else None


def _places(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _money(value: object, currency: str | None) -> str:
    if isinstance(value, Mapping):
        named = value.get("currency")
        return _money(value.get("amount"), named if isinstance(named, str) else currency)
    number = _decimal(value)
    if number is None:
        return ""
    # Digits beyond the currency's are shown: rounding would tell another amount than the case has.
    places = max(_places(number), 0 if currency in _WHOLE else 2)
    return f"{number:,.{places}f}" + (f" {currency}" if currency else "")


def _number(value: object) -> str:
    number = _decimal(value)
    return "" if number is None else f"{number:,.{_places(number)}f}"


def _date(value: object) -> str:
    try:
        day = date.fromisoformat(str(value)[:10]) if isinstance(value, str) else None
    except ValueError:
        return ""
    return "" if day is None else f"{day.day} {day:%B} {day.year}"


def _moment(value: object) -> str:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return ""
    if at is None:
        return ""
    # Without a zone it is not known which moment it is, and none is made up.
    zone = "" if at.tzinfo is None else " UTC"
    at = at if at.tzinfo is None else at.astimezone(UTC)
    return f"{at.day} {at:%B} {at.year}, {at:%H:%M}{zone}"


def _address(value: object) -> str | None:
    """Return an address that may become a link: https, of a host, without a password and without hidden characters."""
    if (
        not isinstance(value, str)
        or holds_controls(value)
        or any(letter.isspace() or letter == "\\" for letter in value)
    ):
        return None
    try:
        parts = urlsplit(value)
        is_safe = parts.scheme == "https" and bool(parts.hostname) and parts.username is None and parts.port != 0
    except ValueError:
        return None
    return value if is_safe else None
