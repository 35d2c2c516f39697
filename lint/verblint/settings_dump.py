"""Print the settings of a run as the TOML table they could be read from."""

from collections.abc import Iterator, Mapping
from json import dumps
from re import Match

from verblint.settings import Project, Settings
from verblint.startup.pattern import pattern
from verblint.startup.value import fields

_BARE_KEY = pattern("[A-Za-z0-9_-]+")
# Escaped, so that the text is the same in every encoding; TOML forbids control characters even in comments.
_ESCAPED = pattern(r"[^\x20-\x7e]")
_SURROGATE = pattern("[\ud800-\udfff]")


def settings_text(project: Project) -> str:
    """Return every setting as TOML, and the file it was read from."""
    origin = project.file or "no pyproject.toml with [tool.verblint]; the defaults hold"
    return f"# {_ascii(origin)}\n" + "\n".join(_lines(project)) + "\n"


def _lines(project: Project) -> Iterator[str]:
    settings = project.settings
    yield "[tool.verblint]"
    for name in fields(Settings):
        if name != "limits":
            yield _line(name, getattr(settings, name))
    for name in fields(Project):
        content = getattr(project, name)
        if name not in ("settings", "folder", "file") and not isinstance(content, Mapping):
            yield _line(name, content)
    yield from _table("limits", {name: getattr(settings.limits, name) for name in fields(type(settings.limits))})
    yield from _table("severity", project.severity)
    yield from _table("per-file-ignores", project.per_file_ignores)


def _table(name: str, content: Mapping[str, object]) -> Iterator[str]:
    if content:
        yield f"[tool.verblint.{name}]"
        yield from (f"{_key(key)} = {_value(value)}" for key, value in content.items())


def _line(name: str, content: object) -> str:
    written = f"{name.replace('_', '-')} = {_value(content)}"
    return written if content not in ("", ()) and _is_unicode(content) else f"# {written}"


def _is_unicode(content: object) -> bool:
    """Return False for an argument with bytes that are not UTF-8, which TOML cannot express."""
    texts = content if isinstance(content, tuple) else (content,)
    return not any(isinstance(text, str) and _SURROGATE.search(text) for text in texts)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _value(name)


def _value(content: object) -> str:
    # JSON and TOML write strings, lists, numbers and booleans the same way, except for characters beyond 16 bits.
    return _ascii(dumps(list(content) if isinstance(content, tuple) else content, ensure_ascii=False))


def _ascii(text: str) -> str:
    return _ESCAPED.sub(_escape, text)


def _escape(found: Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
