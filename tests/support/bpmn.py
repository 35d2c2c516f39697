"""BPMN documents in a line or two: just enough around the part a test is about."""

from verblint.bpmn.element import AMEIDE, BPMN, ZEEBE, Element
from verblint.bpmn.reader import read

_OPEN = (
    f'<definitions xmlns="{BPMN}" xmlns:zeebe="{ZEEBE}" xmlns:ameide="{AMEIDE}" id="file" targetNamespace="urn:test">'
)


def document(*parts: str) -> bytes:
    """A definitions element around some parts."""
    return (_OPEN + "".join(parts) + "</definitions>").encode()


def process(*parts: str, key: str = "case") -> str:
    """An executable process around some parts."""
    return f'<process id="{key}" isExecutable="true">' + "".join(parts) + "</process>"


def conditional_flow(condition: str, key: str = "yes") -> str:
    """A sequence flow with a condition, which is written as XML."""
    return (
        f'<sequenceFlow id="{key}" sourceRef="choice" targetRef="next">'
        f"<conditionExpression>{condition}</conditionExpression></sequenceFlow>"
    )


def tree(*parts: str) -> Element:
    """The root element of a document with these parts."""
    return read(document(*parts), "case.bpmn")
