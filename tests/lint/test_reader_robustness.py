"""Thousands of damaged models: the reader reads or refuses, and everything above it copes with what it read."""

import os
from random import Random

from tests.support.bpmn_case import everything
from verblint.bpmn.element import Element
from verblint.bpmn.reader import ModelError, read
from verblint.contracts.contract import Contracts
from verblint.feel.branch import branches
from verblint.rule import Context
from verblint.settings import Settings

SEED = 20261116
# The whole linter meets ten thousand (test_robustness); the reader alone needs fewer.
COUNT = int(os.environ.get("VERBLINT_MUTATIONS", "10000")) // 5


def damaged(content: bytes, random: Random) -> bytes:
    """The content with bytes flipped, cut, doubled or moved, a few times over."""
    for _ in range(random.choice((1, 1, 2, 4))):
        start, end = sorted(random.randrange(len(content) + 1) for _ in range(2))
        end = min(end, start + random.choice((1, 8, 200)))
        piece = content[start:end]
        match random.choice(("flip", "cut", "double", "move", "truncate", "invent")):
            case "flip":
                content = content[:start] + bytes(b ^ (1 << random.randrange(8)) for b in piece) + content[end:]
            case "cut":
                content = content[:start] + content[end:]
            case "double":
                content = content[:end] + piece + content[end:]
            case "move":
                rest = content[:start] + content[end:]
                at = random.randrange(len(rest) + 1)
                content = rest[:at] + piece + rest[at:]
            case "truncate":
                content = content[:end] if random.random() < 0.1 else content
            case _:
                content = content[:start] + random.choice(_INVENTIONS) + content[start:]
    return content


_INVENTIONS = (
    *(
        b"<",
        b">",
        b"&",
        b'"',
        b"'",
        b"/>",
        b"</",
        b"<!--",
        b"-->",
        b"<![CDATA[",
        b"]]>",
        b"<?",
        b"?>",
        b"\x00",
        b"\xff",
    ),
    *(
        b"<!DOCTYPE x>",
        b"&lt;",
        b"&#0;",
        b"&#xD800;",
        b"\r\n",
        b"\xe2\x80\x8b",
        b" id='start'",
        b"=",
        b" xmlns=''",
        b"<x/>",
    ),
)


def swapped(content: bytes, random: Random) -> bytes:
    """The content with two whole elements exchanged: still well-formed, hardly ever sensible."""
    elements = list(read(content).walk())[1:]
    one, other = sorted(random.sample(elements, 2), key=lambda element: element.start)
    if other.start < one.end:
        return content[: one.start] + content[one.end :]
    first, second = content[one.start : one.end], content[other.start : other.end]
    return content[: one.start] + second + content[one.end : other.start] + first + content[other.end :]


def visit(root: Element) -> None:
    """Ask everything of everything."""
    content = root.document.source.content
    for element in root.walk():
        assert content[element.start : element.start + 1] == b"<"
        assert content[element.end - 1 : element.end] == b">"
        assert element.start < element.tag_end <= element.end
        for attribute in element.attributes:
            assert attribute.part(0, len(attribute.value)) == attribute.place
        if element.text:
            assert element.part(0, len(element.text)).start >= element.start
    context = Context.of(root, Settings(), Contracts())
    for branch in branches(context.model):
        assert (branch.test is None) is not (branch.error is None)
        if branch.error is not None:
            assert branch.condition.part(branch.error.start, branch.error.end).position.line >= 1


def test_damaged_models_are_read_or_refused_and_never_crash() -> None:
    random = Random(SEED)
    model = everything()
    outcomes = {"read": 0, "refused": 0}
    for number in range(COUNT):
        content = swapped(model, random) if number % 5 == 0 else damaged(model, random)
        try:
            root = read(content, "damaged.bpmn")
        except ModelError as error:
            outcomes["refused"] += error.line >= 1 and error.column >= 1
        else:
            visit(root)
            outcomes["read"] += 1

    assert sum(outcomes.values()) == COUNT
    assert min(outcomes.values()) > COUNT // 10  # both sides were tried
