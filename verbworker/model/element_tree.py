"""The elements of a model, read and taken apart again."""

from collections.abc import Iterator
from contextlib import contextmanager

from verblint.bpmn.element import Element
from verblint.bpmn.reader import ModelError, read
from verbworker.errors import Refused


@contextmanager
def open_tree(content: bytes, name: str = "the model") -> Iterator[Element]:
    """Provide the root element of a model; raises `Refused` if it cannot be read."""
    try:
        root = read(content)
    except ModelError as error:
        raise Refused(f"{name} cannot be read: {error.message}") from error
    try:
        yield root
    finally:
        root.document.take_apart()
