"""A parsed model with line numbers, to locate findings in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from verblint.bpmn.ameide_schema import extensions
from verblint.bpmn.assembly import assemble
from verblint.bpmn.element import AMEIDE, Element, Place
from verblint.bpmn.model import Definitions, Process
from verblint.bpmn.reader import ModelError, read
from verbworker.engine.protocol import Resource
from verbworker.profile.verify.location import Location


@dataclass(frozen=True, slots=True)
class ModelTree:
    """A model while it is verified."""

    file: str
    root: Element
    definitions: Definitions
    by_id: dict[str, Element] = field(default_factory=dict)

    @property
    def has_profile(self) -> bool:
        """Whether it uses the extension profile."""
        return any(namespace == AMEIDE for namespace, _ in self.root.document.elements)

    @property
    def process(self) -> Process | None:
        """The process that an engine would run, if there is one."""
        return next(iter(self.definitions.executable), None)

    def spot(self, where: Place | Element) -> Location:
        """Return a place in this model."""
        return Location.of(self.file, where)

    def process_spot(self) -> Location:
        """Return the place of the process, or of the file without one."""
        return Location.at(self.file) if self.process is None else self.spot(self.process.element)

    def attribute_spot(self, element: Element, local: str) -> Location:
        """Return the place of an attribute's value, or of the element that should have it."""
        attribute = element.attribute(local)
        return self.spot(element if attribute is None else attribute.place)

    def definition_spot(self) -> Location:
        """Return the place of the definitionId, or of the process that should have one."""
        process = self.process
        for definition in extensions(process.element, "workflowDefinition") if process is not None else ():
            return self.attribute_spot(definition, "definitionId")
        return self.process_spot()

    def element_spot(self, path: str) -> Location | None:
        """Return the place of the element whose id starts a path, such as `review.gate.name`, or None."""
        # An id may contain dots, so the longest match counts.
        fitting = [name for name in self.by_id if path == name or path.startswith(f"{name}.")]
        return self.spot(self.by_id[max(fitting, key=len)]) if fitting else None


@contextmanager
def open_model(model: Resource) -> Iterator[ModelTree | None]:
    """Parse a model for the duration of the block; yield None if it cannot be read, which the linter reports."""
    try:
        root = read(model.content)
    except ModelError:
        yield None
        return
    try:
        by_id = {element.id: element for group in root.document.elements.values() for element in group if element.id}
        yield ModelTree(model.name, root, assemble(root), by_id)
    finally:
        root.document.take_apart()
