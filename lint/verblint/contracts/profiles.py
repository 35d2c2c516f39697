"""Profiles: named sets of what a model may and must have, as data for the rules.

`hollow` is the default: what an engine executes and the other rules accept, with the Ameide extension if a file uses
it. `strict-v1` is exactly the first Ameide profile: few elements, no loops, and nothing left to a default. `plain` is
for models that are not hollow and are served by plain tasks: anything that the engine accepts, mappings and conditions
over variables included.
"""

from collections.abc import Mapping

from verblint.bpmn.element import AMEIDE, BPMN
from verblint.rule import Context
from verblint.settings import HOLLOW, PLAIN, STRICT_V1
from verblint.startup.value import field, value


@value(kw_only=True)
class Profile:
    """What the models of one profile may and must have; the defaults require nothing."""

    name: str
    # BPMN elements that a file may have; empty means all.
    elements: frozenset[str] = frozenset()
    # The exact definitions of each kind of event.
    definitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    allows_loops: bool = True
    # Direct children of the file and of its process that must occur exactly once.
    single: tuple[str, ...] = ()
    # Prefixes that the root must declare, and their namespaces.
    prefixes: Mapping[str, str] = field(default_factory=dict)
    # Whether the extension's rules also apply to files that do not use the extension.
    needs_extension: bool = False
    # Whether a policy that a task names must be known, even if the linter was given no contracts.
    needs_catalogue: bool = False
    # Parts of the extension that an element must have, and the only elements that may have a part.
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # The prefix of every update name, before the id of its user task; empty if a model may choose the name.
    update_prefix: str = ""
    # Codes and prefixes of codes of the rules that apply; empty for all.
    rules: tuple[str, ...] = ()

    def applies(self, code: str) -> bool:
        """Return whether the rule of this code applies to the profile's models."""
        return not self.rules or code.startswith(self.rules)

    def has(self, local: str) -> bool:
        """Return whether a file may have this BPMN element."""
        return not self.elements or local in self.elements

    def may_have(self, part: str, local: str) -> bool:
        """Return whether the profile allows this part of the extension on a BPMN element."""
        return local in self.places.get(part, (local,))


_TASKS = ("serviceTask", "sendTask")
_MESSAGE = ("messageEventDefinition",)
# Markup of the profile's elements. It includes conditions because engines branch by nothing else.
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

# What an engine refuses or can never run. Everything else is a question of being hollow.
_PLAIN = Profile(
    name=PLAIN,
    rules=(
        *("HB0", "HB9"),
        *("HB110", "HB112", "HB114", "HB118", "HB119", "HB120", "HB121", "HB127"),
        *("HB201", "HB221", "HB222", "HB223", "HB224"),
        *("HB313", "HB409", "HB410", "HB501", "HB504", "HB515", "HB602"),
    ),
)

BY_NAME: Mapping[str, Profile] = {HOLLOW: Profile(name=HOLLOW), STRICT_V1: _STRICT_V1, PLAIN: _PLAIN}


def profile_of(context: Context) -> Profile:
    """Return the profile that a file is checked against."""
    return BY_NAME[context.settings.profile]
