"""A model leaves no part of the extension to a default if its profile requires it."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import extensions
from verblint.bpmn.element import AMEIDE
from verblint.contracts.profiles import Profile, profile_of
from verblint.names import describe, extended_by
from verblint.report.finding import Finding, Severity
from verblint.rule import NARROWED, Context, rule


@rule("AM752", "strict-part", Severity.ERROR, on=(NARROWED,))
def check(context: Context) -> Iterator[Finding]:
    """A model leaves no part of the extension to a default if its profile requires it.

    With the profile `strict-v1` tasks, and only tasks, have headers and a mapping, even when they are empty. Messages
    have a subscription, and user tasks an update definition called `Update_` and their id.

    Wrong:  <userTask id="Review" /> with profile = "strict-v1"
    Right:  <userTask id="Review"> with <ameide:updateDefinition name="Update_Review" />
    """
    profile = profile_of(context)
    for local, parts in profile.parts.items():
        for element in context.every(local):
            for part in (part for part in parts if not extensions(element, part)):
                message = f"the {describe(element)} has no {part}"
                yield context.at(element, message, hint=f"Add an ameide:{part}", detail=part)
    for part, places in profile.places.items():
        for element in context.every(part, namespace=AMEIDE):
            parent = extended_by(element, "ameide")
            if parent not in places:
                message = f"{part} stands in {parent or 'no element'}, where the profile {profile.name} has none"
                yield context.at(element, message, hint="Remove it", detail=part)
    if profile.update_prefix:
        yield from _updates(context, profile)


def _updates(context: Context, profile: Profile) -> Iterator[Finding]:
    for task in context.every("userTask"):
        wanted = f"{profile.update_prefix}{task.id}"
        for number, update in enumerate(extensions(task, "updateDefinition")):
            if update.get("name") != wanted:
                message = f"the update of {task.id} is called {update.get('name')}"
                yield context.at(update, message, hint=f'Write name="{wanted}"', detail=f"name {number}")
