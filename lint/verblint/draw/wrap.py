"""Break texts into lines that fit into a box, without a font: widths are those of common sans-serif fonts."""

import re
from unicodedata import category, combining, east_asian_width

LINE = 1.2
"""The height of a line, in font sizes."""

ELLIPSIS = "…"
_MOST_CHARACTERS = 400  # of a label; longer names are whole in the title
# What browsers obey without showing it: controls, separators of lines, changes of direction, the byte order mark, the
# invisible alphabet. Joiners are letters in some scripts and stay.
_HIDDEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_NARROW = frozenset("ijltfrI1|!.,:;'`()[]{} -/\\\"")
_SOFT = frozenset("-_/.,:;")  # a long word may be broken after these, and before a capital
_WIDE = frozenset("mwMW@%—…")


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is."""
    return sum(map(_advance, text)) * size


def wrap(text: str, width: float, lines: int, size: float) -> list[str]:
    """Return at most so many lines, each at most so wide; what does not fit is replaced by an ellipsis.

    Line breaks of the text are kept. A word that is wider than a line is broken.
    """
    is_cut = len(text) > _MOST_CHARACTERS
    wrapped: list[str] = []
    for paragraph in printable(text[:_MOST_CHARACTERS]).splitlines():
        wrapped += _wrap_words(paragraph.split(), width, size)
    if len(wrapped) > lines or (is_cut and wrapped):
        wrapped = wrapped[: max(lines, 1)]
        wrapped[-1] = _shorten(wrapped[-1], width, size)
    return wrapped


def printable(text: str) -> str:
    """Return a text as it may be shown: without what XML does not allow, and hidden characters as escapes."""
    whole = "".join(sign if _is_allowed(sign) else "�" for sign in text)
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), whole)


def _is_allowed(sign: str) -> bool:
    return sign in "\t\n\r" or (sign >= " " and not "\ud800" <= sign <= "\udfff" and sign not in "￾￿")


def _wrap_words(words: list[str], width: float, size: float) -> list[str]:
    lines: list[str] = []
    line, used = "", 0.0
    space = text_width(" ", size)
    for word in words:
        for piece in _pieces(word, width, size):
            length = text_width(piece, size)
            joint = " " if piece is word or word.startswith(piece) else ""
            if line and used + space * len(joint) + length <= width:
                line, used = line + joint + piece, used + space * len(joint) + length
            else:
                lines += [line] if line else []
                line, used = piece, length
    return [*lines, line] if line else lines


def _pieces(word: str, width: float, size: float) -> list[str]:
    """Break a word that is wider than a line."""
    if text_width(word, size) <= width:
        return [word]
    pieces, start, used, soft = [], 0, 0.0, 0
    for index, sign in enumerate(word):
        length = _advance(sign) * size
        if index > start and used + length > width:
            end = soft if soft > start else index
            pieces.append(word[start:end])
            start, used = end, text_width(word[end:index], size)
        if index and (word[index - 1] in _SOFT or (sign.isupper() and word[index - 1].islower())):
            soft = index
        used += length
    return [*pieces, word[start:]]


def _shorten(line: str, width: float, size: float) -> str:
    while line and text_width(line + ELLIPSIS, size) > width:
        line = line[:-1]
    return line.rstrip() + ELLIPSIS


def _advance(sign: str) -> float:
    """Return the width of a character in font sizes."""
    if sign in _NARROW:
        return 0.33
    if sign.isascii():
        return 0.92 if sign in _WIDE else 0.7 if sign.isupper() else 0.59
    if combining(sign) or category(sign) in ("Mn", "Me", "Cf"):
        return 0.0
    return 1.0 if east_asian_width(sign) in "WF" else 0.92 if sign in _WIDE else 0.65
