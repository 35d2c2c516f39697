"""The deployed models as pictures: read once, drawn with what is known about their elements."""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from markupsafe import Markup

from verblint.bpmn.assembly import assemble
from verblint.bpmn.element import Element
from verblint.bpmn.model import FlowNode, Scope
from verblint.bpmn.reader import ModelError, read
from verblint.draw import draw
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments

_KEPT = 16  # models in memory; each is some hundred kilobytes
_FRONT = ("incident", "waiting", "active")


@dataclass(slots=True)
class ElementView:
    """What a picture shows of one element: its states, a short label, and a note."""

    marks: set[str] = field(default_factory=set)
    label: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class PicturedModel:
    """A model: its process, by id the nodes and the subprocesses around each, and what its picture shows."""

    root: Element
    scope: Scope
    nodes: Mapping[str, FlowNode]
    around: Mapping[str, tuple[str, ...]]
    shown: Collection[str]
    is_made_up: bool

    def name(self, element_id: str) -> str:
        """Return the name of an element for people."""
        node = self.nodes.get(element_id)
        return " ".join(node.name.split()) or element_id if node is not None else element_id

    async def draw(self, views: Mapping[str, ElementView], flows: Collection[str] = ()) -> Markup:
        """Return the picture. What is inside a collapsed subprocess is shown at the subprocess."""
        shown = self._raise(views)
        picture = await asyncio.to_thread(
            partial(
                draw,
                self.root,
                marks={id: view.marks for id, view in shown.items()} | {id: {"taken"} for id in flows},
                notes={id: view.note for id, view in shown.items()},
                labels={id: view.label for id, view in shown.items()},
                has_style=False,
                is_focusable={id for id, view in shown.items() if view.note},
            )
        )
        # The renderer escapes what comes from the model and from the notes.
        return Markup(picture.svg)  # noqa: S704

    def _raise(self, views: Mapping[str, ElementView]) -> dict[str, ElementView]:
        shown = {id: view for id, view in views.items() if id in self.shown}
        for id, view in views.items():
            if id in shown:
                continue
            place = next((scope for scope in reversed(self.around.get(id, ())) if scope in self.shown), None)
            if place is not None:
                here = shown.get(place, ElementView())
                note = f"{self.name(id)}: {view.note}" if view.note else ""
                marks = here.marks | (view.marks if not view.marks.isdisjoint(_FRONT) else set())
                shown[place] = ElementView(marks, here.label, "\n".join(filter(None, (here.note, note))))
        return shown


class ModelPictures:
    """The models of all engines of a database, as deployed; a definition never changes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._models: OrderedDict[tuple[str, int], PicturedModel] = OrderedDict()

    async def find(self, engine_id: str, definition_key: int, process_id: str) -> PicturedModel | None:
        """Return the model of a definition; None if it was not deployed by verbworker or cannot be read."""
        place = engine_id, definition_key
        model = self._models.get(place)
        if model is None:
            content = await Deployments(self._database, engine_id=engine_id).content(definition_key)
            model = None if content is None else await asyncio.to_thread(_read, content, process_id)
            if model is None:
                return None
        self._models[place] = model
        self._models.move_to_end(place)
        while len(self._models) > _KEPT:
            self._models.popitem(last=False)
        return model


def _read(content: bytes, process_id: str) -> PicturedModel | None:
    try:
        root = read(content)
    except ModelError:
        return None
    process = next((one for one in assemble(root).processes if one.id == process_id), None)
    if process is None:
        return None
    around: dict[str, tuple[str, ...]] = {}
    _note_scopes(process.scope, (), around)
    nodes = {node.id: node for _, node in process.walk() if node.id}
    picture = draw(root)
    return PicturedModel(root, process.scope, nodes, around, frozenset(picture.shapes), picture.is_made_up)


def _note_scopes(scope: Scope, outer: tuple[str, ...], around: dict[str, tuple[str, ...]]) -> None:
    for node in scope.nodes:
        around[node.id] = outer
        if node.scope is not None:
            _note_scopes(node.scope, (*outer, node.id), around)
