"""Models that reach for files, the network, memory or time: the linter finds a fault and reads nothing else."""

from pathlib import Path

import pytest

from tests.support.command import Said, verbworker

pytestmark = pytest.mark.attack("XML")

SECRET = "the-content-of-another-file"
_SPACE = 'xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"'
_PROCESS = '<process id="p" isExecutable="true"><startEvent id="s"/></process>'
_MODEL = f'<definitions {_SPACE} targetNamespace="x">{_PROCESS}</definitions>'


def declared(inside: str, text: str = "&x;") -> bytes:
    """A model with a document type of its own."""
    process = f'<process id="p" name="{text}"><documentation>{text}</documentation></process>'
    return (
        f'<?xml version="1.0"?><!DOCTYPE definitions [{inside}]>'
        f'<definitions {_SPACE} targetNamespace="x">{process}</definitions>'
    ).encode()


_LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))

MODELS: dict[str, bytes] = {
    "nothing": b"",
    "no XML": b"PK\x03\x04",
    "a null": _MODEL.encode().replace(b"<process", b"\x00<process"),
    "half a letter": _MODEL.encode().replace(b'id="s"', b'id="\xc3"'),
    "cut off": _MODEL.encode()[:-20],
    "two roots": _MODEL.encode() * 2,
    "another root": b"<html/>",
    "a file": declared('<!ENTITY x SYSTEM "file://{secret}">'),
    "a file by its path": declared('<!ENTITY x SYSTEM "{secret}">'),
    "a file by the locale": declared('<!ENTITY x PUBLIC "a" "{secret}">'),
    "a parameter": declared('<!ENTITY % p SYSTEM "file://{secret}"> %p;', "x"),
    "the network": declared('<!ENTITY x SYSTEM "http://127.0.0.1:1/x">'),
    "a document type from outside": b'<!DOCTYPE definitions SYSTEM "http://127.0.0.1:1/x">' + _MODEL.encode(),
    "laughs": declared('<!ENTITY l0 "ha">' + _LAUGHS, "&l9;"),
    "a long entity many times": declared(f'<!ENTITY x "{"a" * 50_000}">', "&x;" * 500),
    "itself": declared('<!ENTITY x "&y;"><!ENTITY y "&x;">'),
    "an entity that is unknown": _MODEL.replace('id="s"', 'id="&x;"').encode(),
    "an include": _MODEL.replace(
        _PROCESS, '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{secret}" parse="text"/>'
    ).encode(),
    "a style sheet": b'<?xml-stylesheet href="file://{secret}"?>' + _MODEL.encode().replace(b"isExecutable", b"isX"),
    "an import": _MODEL.replace(
        _PROCESS, '<import importType="x" location="{secret}" namespace="y"/>' + _PROCESS
    ).encode(),
    "another encoding": b'<?xml version="1.0" encoding="UTF-7"?>' + _MODEL.encode(),
    "an encoding that is none": b'<?xml version="1.0" encoding="evil"?>' + _MODEL.encode(),
    "UTF-16 that says UTF-8": ('<?xml version="1.0" encoding="UTF-8"?>' + _MODEL).encode("utf-16"),
    "depth": b"<a>" * 100_000 + b"</a>" * 100_000,
    "a prefix of no namespace": _MODEL.replace("<startEvent", "<x:startEvent").encode(),
    "an attribute twice": _MODEL.replace('id="s"', 'id="s" id="t"').encode(),
    "many attributes": _MODEL.replace('id="s"', 'id="s" ' + " ".join(f'a{n}="1"' for n in range(5_000))).encode(),
    "an id that is a script": _MODEL.replace('id="s"', 'id="&lt;script>alert(1)&lt;/script>"').encode(),
    "an id that is a path": _MODEL.replace('id="p"', 'id="../../etc/passwd"').encode(),
    "an id that colours the terminal": _MODEL.replace('id="s"', 'id="&#x9b;31m"').encode(),
}


def check(folder: Path, content: bytes, *words: str) -> Said:
    secret = folder / "secret.txt"
    secret.write_text(SECRET)
    model = folder / "model.bpmn"
    model.write_bytes(content.replace(b"{secret}", str(secret).encode()))
    return verbworker("lint", *words, str(model), directory=folder)


@pytest.mark.parametrize("content", MODELS.values(), ids=MODELS)
def test_the_linter_finds_a_fault_and_reads_nothing_else(tmp_path: Path, content: bytes) -> None:
    said = check(tmp_path, content)

    assert said.code in (1, 2), said
    assert SECRET not in said.out + said.err
    assert "Traceback" not in said.out + said.err
    assert "\x9b" not in said.out + said.err
    assert len(said.out) < 1_000_000
