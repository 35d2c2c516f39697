"""Which attribute names the form of a user task, and how to write it for the other kind of task.

A native user task names a form outside the engine by `externalReference`, a job-based one by `formKey`. Both may name
a deployed form by `formId`. Engines reject any other attribute, and more or less than one.
"""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE, Element
from verblint.report import Edit
from verblint.startup.value import value

_EMBEDDED = "camunda-forms:"
_FORM_ID = "formId"


@value
class FormNames:
    """What one form definition has for one kind of task: the attribute it needs, and the attributes it has."""

    element: Element
    is_native: bool

    @property
    def own_name(self) -> str:
        """The attribute with which this kind of task names a form outside the engine."""
        return "externalReference" if self.is_native else "formKey"

    @property
    def foreign(self) -> str:
        """The attribute with which the other kind of task does."""
        return "formKey" if self.is_native else "externalReference"

    @property
    def written(self) -> tuple[str, ...]:
        """The attributes that name a form; a blank one does not."""
        names = (_FORM_ID, self.own_name, self.foreign)
        return tuple(name for name in names if (self.element.get(name) or "").strip())

    @property
    def fits(self) -> bool:
        """Whether an engine accepts the definition at this kind of task."""
        return self.written in ((_FORM_ID,), (self.own_name,))

    def rename(self) -> Edit | None:
        """Write the other task's attribute as this one's; None if that would name another form or none."""
        found = self.element.attribute(self.foreign)
        is_blocked = self.written != (self.foreign,) or self.element.get(self.own_name) is not None
        # An embedded form is part of the model, found by its key: outside the engine that key names nothing.
        if found is None or is_blocked or is_embedded(found.value):
            return None
        return Edit(found.name_start, found.name_start + len(self.foreign), self.own_name.encode())


def is_embedded(key: str) -> bool:
    """Return whether a form key names a form inside the model."""
    return key.startswith(_EMBEDDED)


def form_names(task: Element, *, is_native: bool) -> Iterator[FormNames]:
    """Yield the form definitions of a user task, seen as those of one kind of task."""
    for holder in task.find_all("extensionElements"):
        yield from (FormNames(form, is_native) for form in holder.find_all("formDefinition", ZEEBE))


def convert_forms(task: Element, *, is_native: bool) -> tuple[Edit, ...] | None:
    """Return the edits that make a task's forms fit the other kind; None if one of them cannot be converted."""
    edits: list[Edit] = []
    for form in form_names(task, is_native=is_native):
        edit = None if form.fits else form.rename()
        if edit is not None:
            edits.append(edit)
        elif not form.fits:
            return None
    return tuple(edits)
