"""Suppressions: `vw:ignore` elements with which a model's author accepts a finding.

    <bpmn:extensionElements>
      <vw:ignore rule="HB601" reason="one letter per country" until="2027-01-01" xmlns:vw="urn:verbworker:bpmn:v1"/>
    </bpmn:extensionElements>

An extension element survives every modeler; a comment does not. It covers the element that contains it, but not the
activities and flows inside that element. A suppression that is expired, malformed or without a reason covers nothing,
and is a finding itself.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from time import strftime

from verblint.bpmn.element import BPMN, VERBWORKER, Element, name_of
from verblint.report import Finding, Suppressed, is_suppressible
from verblint.startup.pattern import pattern
from verblint.startup.value import value

_DATE = pattern(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")
_ATTRIBUTES = ("rule", "reason", "until")
_CONTAINERS = ("definitions", "collaboration", "process", "subProcess", "transaction", "adHocSubProcess")
# Children of a container that describe the container itself.
_PARTS = (
    *("extensionElements", "documentation", "incoming", "outgoing", "property", "ioSpecification"),
    *("multiInstanceLoopCharacteristics", "standardLoopCharacteristics", "completionCondition"),
    *("dataInputAssociation", "dataOutputAssociation"),
)


@value(eq=False)
class Suppression:
    """One `vw:ignore` as written; a missing attribute is an empty string."""

    rule: str
    reason: str
    until: str
    element: Element

    @property
    def is_placed(self) -> bool:
        """Whether it is in the extension elements of a BPMN element."""
        holder = self.element.parent
        return holder is not None and holder.is_a("extensionElements") and holder.parent is not None

    @property
    def strange_attributes(self) -> list[str]:
        """The names of unknown attributes."""
        return [name_of(key)[1] for key in self.element.values if key not in _ATTRIBUTES]

    @property
    def has_date(self) -> bool:
        """Whether `until` is a date or missing."""
        return not self.until or _DATE.fullmatch(self.until) is not None

    def is_expired(self, today: str) -> bool:
        """Return whether its last day has passed; both dates are YYYY-MM-DD."""
        return bool(self.until) and self.has_date and self.until < today

    def holds(self, today: str) -> bool:
        """Return whether it is valid and can cover findings."""
        is_sound = self.is_placed and self.has_date and bool(self.reason.strip()) and not self.strange_attributes
        return is_sound and not self.is_expired(today)

    def covers(self, finding: Finding, subject: Element) -> bool:
        """Return whether it covers a finding about `subject`."""
        holder = self.element.parent
        named = self.rule.lower() in (finding.code.lower(), finding.slug)
        return named and holder is not None and holder.parent is subject


def suppressions(root: Element) -> Iterator[Suppression]:
    """Yield every suppression of a document, in document order."""
    for element in root.walk("ignore", VERBWORKER):
        yield Suppression(element.get("rule") or "", element.get("reason") or "", element.get("until") or "", element)


def current_date() -> str:
    """Return today's date as YYYY-MM-DD."""
    return strftime("%Y-%m-%d")


def sort_out(
    root: Element, findings: Iterable[Finding], today: str
) -> tuple[list[Finding], list[Suppressed], list[Suppression]]:
    """Split findings into remaining and suppressed ones, and return the unused suppressions."""
    sound = [suppression for suppression in suppressions(root) if suppression.holds(today)]
    left: list[Finding] = []
    suppressed: list[Suppressed] = []
    used: set[int] = set()
    for finding in findings:
        covering = _cover_of(sound, finding, root)
        if covering is None:
            left.append(finding)
        else:
            used.add(id(covering))
            suppressed.append(Suppressed(finding, covering.reason.strip(), True))
    return left, suppressed, [suppression for suppression in sound if id(suppression) not in used]


def _cover_of(sound: list[Suppression], finding: Finding, root: Element) -> Suppression | None:
    if not is_suppressible(finding.code):
        return None
    subject = _subject(root, finding.offset)
    return next((suppression for suppression in sound if suppression.covers(finding, subject)), None)


def _subject(root: Element, offset: int) -> Element:
    """Return what a place in the file is about: the node, flow, process or declaration around it."""
    element = _innermost(root, offset)
    while element.parent is not None and not _is_subject(element, element.parent):
        element = element.parent
    return element


def _is_subject(element: Element, parent: Element) -> bool:
    contained = parent.namespace == BPMN and parent.local in _CONTAINERS
    return contained and not (element.namespace == BPMN and element.local in _PARTS)


def _innermost(root: Element, offset: int) -> Element:
    element = root
    while True:
        index = bisect_right(element.children, offset, key=lambda child: child.start) - 1
        if index < 0 or offset >= element.children[index].end:
            return element
        element = element.children[index]
