"""A seeded source of damaged models: bytes flipped, cut and swapped, elements moved, doubled and renamed."""

from collections.abc import Callable, Sequence
from random import Random

from verblint.bpmn.reader import ModelError, read

Damage = Callable[[bytes, Random], bytes]

_PIECES = (
    *(
        b"<!DOCTYPE x [<!ENTITY a 'b'>]>",
        b"<!-- -->",
        b"<![CDATA[ ]]>",
        b"<?x?>",
        b"&lt;",
        b"&#0;",
        b"&#xD800;",
        b"&a;",
    ),
    *(
        b"&a;",
        b"\x00",
        b"\xff",
        b"\xc3",
        b"\xef\xbb\xbf",
        b"\r\n",
        b"\r",
        b"\xe2\x80\x8b",
        b'"',
        b"'",
        b"<",
        b">",
        b"=",
    ),
    *(b" id='start'", b" xmlns=''", b" zeebe:type='x'", b"<x/>", b"</process>", b"=domain_payload", b"=" + b"(" * 99),
)


def damaged(contents: Sequence[bytes], random: Random) -> bytes:
    """One of some models, damaged once, twice or three times."""
    content = random.choice(contents)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        content = random.choice(_DAMAGES)(content, random)
    return content


def _flip(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content) + 1)
    return content[:at] + bytes([random.randrange(256)]) + content[at + 1 :]


def _cut(content: bytes, random: Random) -> bytes:
    start = random.randrange(len(content) + 1)
    return content[:start] + content[start + random.randrange(200) :]


def _truncate(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def _insert(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content) + 1)
    return content[:at] + random.choice(_PIECES) + content[at:]


def _rename(content: bytes, random: Random) -> bytes:
    """Every use of one word becomes another: elements turn into others, references lead elsewhere."""
    words = content.translate(bytes.maketrans(b'<>/"=', b"     ")).split()
    if len(words) < 2:
        return content
    old, new = random.sample(words, 2)
    return content.replace(old, new, random.choice((1, 1, -1)))


def _move(content: bytes, random: Random) -> bytes:
    """A whole element is taken out, doubled, or put somewhere else: still well-formed, hardly ever sensible."""
    try:
        elements = list(read(content).walk())[1:]
    except ModelError:
        return content
    if len(elements) < 2:
        return content
    moved, anchor = random.sample(elements, 2)
    written = content[moved.start : moved.end]
    if random.random() < 0.3:
        return content[: moved.start] + content[moved.end :]
    at = random.choice((anchor.start, anchor.end, anchor.tag_end))
    return content[:at] + written + content[at:]


_DAMAGES: tuple[Damage, ...] = (_flip, _flip, _cut, _truncate, _insert, _insert, _rename, _rename, _move, _move, _move)
