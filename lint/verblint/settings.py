"""The settings of a project, and what of them rules read. `[tool.verblint]` is validated: a typo disables no check.

    [tool.verblint]
    engine = "8.8"                        # what the models must deploy on: 8.6 to 8.10
    profile = "hollow"                    # or strict-v1: fewer elements, nothing left to a default; or plain
    plain = ["processes/legacy/*.bpmn"]   # files of the profile plain: served by plain tasks, not hollow
    verbs = "verbs"                       # the folder of verb contracts; policies.yaml files in it count too
    policies = ["processes/policies.yaml"]
    select = ["HB", "AM"]                 # codes, prefixes of codes, or names; default: all rules
    ignore = ["HB601"]
    max-warnings = 0                      # maximum number of warnings that still count as clean
    baseline = "verblint-baseline.json"
    service-tasks = 15                    # the N of HB601
    [tool.verblint.severity]
    HB601 = "error"
    [tool.verblint.per-file-ignores]
    "processes/legacy/*.bpmn" = ["HB601"]
    [tool.verblint.limits]
    size = 2097152                        # bytes
    depth = 100
    elements = 50000
    attributes = 500                      # of one element
    findings = 1000                       # told of one file

Every field of `Settings` is a setting under its own name, with dashes. Paths are relative to the settings file.
"""

import os
from collections.abc import Iterable, Mapping

from verblint.bpmn.reader import Limits
from verblint.names import nearest
from verblint.report import Severity
from verblint.startup.value import field, fields, replace, value

ENGINES = ("8.6", "8.7", "8.8", "8.9", "8.10")
# Defined in `verblint.contracts.profiles`, which is imported only if the profile restricts something.
HOLLOW = "hollow"
STRICT_V1 = "strict-v1"
PLAIN = "plain"
PROFILES = (HOLLOW, STRICT_V1, PLAIN)
FILE = "pyproject.toml"
_TABLE = "tool.verblint"
_MARK = b"verblint"


@value
class Settings:
    """Settings that rules read; the defaults are the strictest."""

    engine: str = "8.8"
    limits: Limits = field(default_factory=Limits)
    service_tasks: int = 15
    allow_identity_mappings: bool = False
    profile: str = HOLLOW

    @property
    def engine_version(self) -> tuple[int, int]:
        """The engine profile as numbers, so that 8.10 is newer than 8.9."""
        major, minor = self.engine.split(".")
        return int(major), int(minor)


class SettingError(Exception):
    """A setting that does not exist or has an invalid value; the message is shown to the user."""


@value
class Project:
    """All settings of a project; paths are relative to `folder`, and `file` is the settings file, if there is one."""

    settings: Settings = field(default_factory=Settings)
    verbs: str = ""
    policies: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, Severity] = field(default_factory=dict)
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    max_warnings: int = 0
    baseline: str = ""
    folder: str = ""
    file: str = ""

    def path(self, name: str) -> str:
        """Return a path from the settings relative to the current folder."""
        return os.path.join(self.folder, name) if self.folder else name


def find_project(start: str = "") -> Project:
    """Read the nearest pyproject.toml with a `[tool.verblint]` table, searching upwards, or return the defaults."""
    folder = os.path.abspath(start or os.curdir)
    while True:
        file = os.path.join(folder, FILE)
        if os.path.isfile(file):
            project = _read(file)
            if project is not None:
                return project
        parent = os.path.dirname(folder)
        if parent == folder:
            return Project()
        folder = parent


def read_project(file: str) -> Project:
    """Read the settings from one file, or raise SettingError."""
    project = _read(file)
    if project is None:
        raise SettingError(f"{file}: there is no [{_TABLE}]")
    return project


def _read(file: str) -> Project | None:
    try:
        with open(file, "rb") as opened:
            content = opened.read()
    except OSError as error:
        raise SettingError(f"{file}: {error.strerror}") from None
    # Most files have no such table, and importing a TOML parser takes longer than this search.
    table = _table(content, file) if _MARK in content else None
    if table is None:
        return None
    folder = os.path.relpath(os.path.dirname(file) or os.curdir)
    return replace(_TableReading(file).run(table), folder="" if folder == os.curdir else folder, file=file)


def _table(content: bytes, file: str) -> Mapping[str, object] | None:
    from tomllib import TOMLDecodeError, loads

    try:
        table: object = loads(content.decode())
    except (TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingError(f"{file}: this is not TOML: {error}") from None
    for name in _TABLE.split("."):
        table = table.get(name) if isinstance(table, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SettingError(f"{file}: [{_TABLE}] must be a table")
    return table


class _TableReading:
    """Validates one settings table."""

    def __init__(self, file: str) -> None:
        self._file = file

    def run(self, table: Mapping[str, object]) -> Project:
        """Return the project that a table describes."""
        rules = [_to_dashes(name) for name in fields(Settings)]
        others = [_to_dashes(name) for name in fields(Project) if name not in ("settings", "folder", "file")]
        self._only(table, (*rules, *others))
        return Project(
            settings=self._settings(table),
            verbs=self._text(table, "verbs"),
            policies=self._texts(table, "policies"),
            plain=self._texts(table, "plain"),
            select=self._texts(table, "select"),
            ignore=self._texts(table, "ignore"),
            severity={rule: self._severity(rule, level) for rule, level in self._members(table, "severity").items()},
            per_file_ignores={
                files: self._texts(self._members(table, "per-file-ignores"), files)
                for files in self._members(table, "per-file-ignores")
            },
            max_warnings=self._integer(table, "max-warnings", 0, least=0),
            baseline=self._text(table, "baseline"),
        )

    def _settings(self, table: Mapping[str, object]) -> Settings:
        settings = Settings()
        changes = {
            name: self._like(getattr(settings, name), table, _to_dashes(name))
            for name in fields(Settings)
            if _to_dashes(name) in table and name != "limits"
        }
        if "engine" in changes and changes["engine"] not in ENGINES:
            raise self._wrong("engine", "one of " + ", ".join(ENGINES))
        if "profile" in changes and changes["profile"] not in PROFILES:
            raise self._wrong("profile", "one of " + ", ".join(PROFILES))
        return replace(settings, limits=self._limits(self._members(table, "limits")), **changes)

    def _limits(self, table: Mapping[str, object]) -> Limits:
        self._only(table, fields(Limits), "limits.")
        limits = Limits()
        return replace(limits, **{name: self._integer(table, name, getattr(limits, name), least=1) for name in table})

    def _like(self, default: object, table: Mapping[str, object], name: str) -> object:
        """Return a value of the same type as the default it replaces."""
        if isinstance(default, bool):
            given = table[name]
            if not isinstance(given, bool):
                raise self._wrong(name, "true or false")
            return given
        if isinstance(default, int):
            return self._integer(table, name, default, least=0)
        return self._texts(table, name) if isinstance(default, tuple) else self._text(table, name)

    def _text(self, table: Mapping[str, object], name: str) -> str:
        given = table.get(name, "")
        if not isinstance(given, str) or (name in table and not given):
            raise self._wrong(name, "a text")
        return given

    def _texts(self, table: Mapping[str, object], name: str) -> tuple[str, ...]:
        given = table.get(name, [])
        if not isinstance(given, list) or not all(isinstance(item, str) and item for item in given):
            raise self._wrong(name, "a list of texts")
        return tuple(given)

    def _integer(self, table: Mapping[str, object], name: str, default: int, *, least: int) -> int:
        given = table.get(name, default)
        if not isinstance(given, int) or isinstance(given, bool) or given < least:
            raise self._wrong(name, f"a number of {least} or more")
        return given

    def _severity(self, rule: str, level: object) -> Severity:
        found = next((severity for severity in Severity if severity == level), None)
        if found is None:
            raise self._wrong(f"severity.{rule}", "error or warning")
        return found

    def _members(self, table: Mapping[str, object], name: str) -> Mapping[str, object]:
        given = table.get(name, {})
        if not isinstance(given, dict):
            raise self._wrong(name, "a table")
        return given

    def _only(self, table: Mapping[str, object], known: Iterable[str], prefix: str = "") -> None:
        known = sorted(known)
        for name in table:
            if name not in known:
                raise SettingError(f"{self._file}: [{_TABLE}] has no setting {prefix}{name}{_suggestion(name, known)}")

    def _wrong(self, name: str, wanted: str) -> SettingError:
        return SettingError(f"{self._file}: {name} in [{_TABLE}] must be {wanted}")


def _to_dashes(name: str) -> str:
    return name.replace("_", "-")


def _suggestion(name: str, known: list[str]) -> str:
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else f"; it has {', '.join(known)}"
