"""Profiles: named sets of what a model may have and must have, as data that the rules read.

`hollow` is the default: what an engine executes and the other rules let pass, with the Ameide extension where a file
uses it. `strict-v1` is the first Ameide profile to the letter: few elements, no loops, and nothing left to a default.
"""

from collections.abc import Mapping

from verblint.bpmn.element import AMEIDE, BPMN
from verblint.rulebook.rule import Context
from verblint.settings import HOLLOW, STRICT_V1
from verblint.startup.value import field, value


@value(kw_only=True)
class Profile:
    """What the models of one profile may have and must have; the defaults ask for nothing."""

    name: str
    # Elements of BPMN that a file may have; without any, all of them.
    elements: frozenset[str] = frozenset()
    # Kinds of events, and the definitions each of them has: exactly these.
    definitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    allows_loops: bool = True
    # Direct children of the file and of its process, of which there is exactly one.
    single: tuple[str, ...] = ()
    # Prefixes that the root declares, and what they stand for.
    prefixes: Mapping[str, str] = field(default_factory=dict)
    # True when the rules of the extension hold for files that have nothing of it, too.
    needs_extension: bool = False
    # True when a policy that a task names must be known, even to a linter that was given no contracts.
    needs_catalogue: bool = False
    # Parts of the extension that an element must have, and the elements that alone may have a part.
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # The name of every update, before the id of its user task; empty when a model may choose it.
    update_prefix: str = ""

    def has(self, local: str) -> bool:
        """True when a file may have this element of BPMN."""
        return not self.elements or local in self.elements

    def may_have(self, part: str, local: str) -> bool:
        """True when an element of BPMN may have this part of the extension, as far as the profile says."""
        return local in self.places.get(part, (local,))


_TASKS = ("serviceTask", "sendTask")
_MESSAGE = ("messageEventDefinition",)
# What the elements of the profile are written with. A condition is among them because engines branch by nothing else.
_MARKUP = ("definitions", "extensionElements", "incoming", "outgoing", "conditionExpression", *_MESSAGE)

_STRICT_V1 = Profile(
    name=STRICT_V1,
    elements=frozenset(
        (
            *("process", "subProcess", "startEvent", "endEvent", "sequenceFlow", *_TASKS, "userTask", "receiveTask"),
            *("intermediateCatchEvent", "intermediateThrowEvent", "exclusiveGateway", "message", *_MARKUP),
        )
    ),
    definitions={
        "startEvent": (),
        "endEvent": (),
        "intermediateCatchEvent": _MESSAGE,
        "intermediateThrowEvent": _MESSAGE,
    },
    allows_loops=False,
    single=("process", "startEvent", "endEvent"),
    prefixes={"bpmn": BPMN, "ameide": AMEIDE},
    needs_extension=True,
    needs_catalogue=True,
    parts={
        **dict.fromkeys(_TASKS, ("taskHeaders", "ioMapping")),
        "userTask": ("updateDefinition",),
        "message": ("subscription",),
    },
    places={"taskHeaders": _TASKS, "ioMapping": _TASKS},
    update_prefix="Update_",
)

BY_NAME: Mapping[str, Profile] = {HOLLOW: Profile(name=HOLLOW), STRICT_V1: _STRICT_V1}


def profile_of(context: Context) -> Profile:
    """The profile that a file is checked under."""
    return BY_NAME[context.settings.profile]
