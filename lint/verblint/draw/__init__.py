"""Draws models as SVG: from the diagram in the file, or with a layout of its own where there is none.

It is pure: bytes or elements in, text out. It knows no file, no rule and no command, and nothing else of verblint loads
it. The output has no script, no reference to anything outside and no id, so that pages can contain several pictures.
"""

from verblint.draw.picture import Picture, draw
from verblint.draw.stylesheet import STATES, STYLESHEET

__all__ = ["STATES", "STYLESHEET", "Picture", "draw"]
