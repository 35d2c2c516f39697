"""Print the settings of a run as the TOML table they could be read from."""

from collections.abc import Iterator, Mapping
from json import dumps

from verblint.project import Project
from verblint.settings import Settings
from verblint.startup.value import fields


def settings_text(project: Project) -> str:
    """Return every setting as TOML, and the file it was read from."""
    origin = project.file or "no pyproject.toml with [tool.verblint]; the defaults hold"
    return f"# {origin}\n" + "\n".join(_lines(project)) + "\n"


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
        yield from (f"{key if key.isalnum() else dumps(key)} = {_value(value)}" for key, value in content.items())


def _line(name: str, content: object) -> str:
    written = f"{name.replace('_', '-')} = {_value(content)}"
    return written if content not in ("", ()) else f"# {written}"


def _value(content: object) -> str:
    # JSON and TOML write strings, lists, numbers and booleans the same way.
    return dumps(list(content) if isinstance(content, tuple) else content)
