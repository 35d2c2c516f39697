"""Select the rules that check a file, and their severities."""

from collections.abc import Iterable, Iterator

from verblint.paths import NoMatch, compile_pattern, matches
from verblint.project import Project, SettingError
from verblint.rule import Rule
from verblint.rulebook.loader import Choice, everything, shelf
from verblint.startup.value import replace

_ALL = "all"


class Selection:
    """The rules a project selects; file safety is always included."""

    def __init__(self, project: Project) -> None:
        """Resolve every rule name and pattern in the settings, or raise SettingError for an invalid one."""
        self._chosen = _choice(project)
        self._without: dict[frozenset[str], Choice] = {}
        self._ignored_in = {
            _pattern(files): frozenset(_codes(names, may_guard=False))
            for files, names in project.per_file_ignores.items()
        }

    def of(self, path: str) -> Choice:
        """Return the rules for one file, given its path relative to the project."""
        if not self._ignored_in:
            return self._chosen
        ignored = frozenset[str]().union(*(codes for files, codes in self._ignored_in.items() if matches(path, files)))
        if not ignored:
            return self._chosen
        if ignored not in self._without:
            left = (rule for rule in self._chosen.rules if _guards(rule) or rule.code not in ignored)
            self._without[ignored] = Choice(left)
        return self._without[ignored]


def _choice(project: Project) -> Choice:
    if not project.select and not project.ignore and not project.severity:
        return everything()
    selected = _codes(project.select) if project.select else {rule.code for rule in shelf()}
    ignored = _codes(project.ignore, may_guard=False)
    levels = {code: level for name, level in project.severity.items() for code in _codes([name], may_guard=False)}
    return Choice(
        replace(rule, severity=levels[rule.code]) if rule.code in levels else rule
        for rule in shelf()
        if _guards(rule) or (rule.code in selected and rule.code not in ignored)
    )


def _pattern(files: str) -> str:
    """Return a valid pattern unchanged. It is compiled here, because an invalid one must fail before any file."""
    try:
        compile_pattern(files)
    except NoMatch as error:
        raise SettingError(f"per-file-ignores: {error}") from None
    return files


def _guards(rule: Rule) -> bool:
    """Return whether a rule is about file safety."""
    return rule.code.startswith("HB0")


def _codes(names: Iterable[str], *, may_guard: bool = True) -> set[str]:
    return {code for name in names for code in _find_codes(name, may_guard)}


def _find_codes(name: str, may_guard: bool) -> Iterator[str]:
    """Return the codes a name refers to: a code, a prefix of codes, a rule's slug, or all."""
    found = [rule for rule in shelf() if name.lower() in (_ALL, rule.slug) or rule.code.startswith(name.upper())]
    if not found:
        raise SettingError(f"{name}: no rule has this code or name; see verblint rules")
    if not may_guard and all(_guards(rule) for rule in found):
        raise SettingError(f"{name}: file safety (HB0xx) cannot be ignored or softened")
    return (rule.code for rule in found)
