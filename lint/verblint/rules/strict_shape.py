"""A file has the shape that its profile requires: its declarations, and what occurs exactly once."""

from collections.abc import Iterator

from verblint.bpmn.element import Element
from verblint.bpmn.model import NodeKind
from verblint.contracts.profiles import Profile, profile_of
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import NARROWED, Context, rule
from verblint.startup.pattern import pattern

_ATTRIBUTE = pattern(rb"""\s([^\s=]+)\s*=\s*("[^"]*"|'[^']*')""")


@rule("AM753", "strict-shape", Severity.ERROR, on=(NARROWED,))
def check(context: Context) -> Iterator[Finding]:
    """A file has the shape that its profile requires: its declarations, and what occurs exactly once.

    With the profile `strict-v1` the root declares the prefixes `bpmn` and `ameide`. A file has one process, the process
    one start and one end, and a subprocess one end or more.

    Wrong:  <endEvent id="done" /> and <endEvent id="done-too" /> with profile = "strict-v1"
    Right:  one endEvent behind an exclusiveGateway that joins
    """
    profile = profile_of(context)
    declared = _read_prefixes(context.root) if profile.prefixes else {}
    for prefix, namespace in profile.prefixes.items():
        if declared.get(prefix) != namespace:
            message = f"the root does not declare the prefix {prefix}"
            yield context.at(context.root, message, hint=f'Write xmlns:{prefix}="{namespace}"', detail=prefix)
    if profile.single:
        yield from _check_counts(context, profile)
        yield from _endless(context)


def _read_prefixes(root: Element) -> dict[str, str]:
    """Return the prefixes that the root declares, with their namespaces."""
    tag = root.document.source.content[root.start : root.tag_end]
    written = ((name.decode(), value[1:-1].decode()) for name, value in _ATTRIBUTE.findall(tag))
    return {name.removeprefix("xmlns:"): value for name, value in written if name.startswith("xmlns:")}


def _check_counts(context: Context, profile: Profile) -> Iterator[Finding]:
    for owner in (context.root, *(process.element for process in context.model.processes)):
        known = ("process",) if owner is context.root else ("startEvent", "endEvent")
        for local in (name for name in profile.single if name in known):
            count = sum(1 for _ in owner.find_all(local))
            if count != 1:
                message = f"the {describe(owner)} has {count} elements {local}"
                hint = f"The profile {profile.name} wants exactly one"
                yield context.at(owner, message, hint=hint, detail=local)


def _endless(context: Context) -> Iterator[Finding]:
    for process in context.model.processes:
        for _, node in process.walk(NodeKind.SUB_PROCESS):
            if node.element.find("endEvent") is None:
                message = f"the {describe(node.element)} has no end"
                yield context.at(node.element, message, hint="Draw an endEvent inside", detail="no end")
