"""Which rules check a file: the families of rules, and those that a project selects."""

from collections.abc import Iterable, Iterator
from functools import cache

from verblint.bpmn.element import AMEIDE, VERBWORKER
from verblint.paths import NoMatch, compile_pattern, matches
from verblint.rule import CONTRACTS, CRASHED, NARROWED, REFUSED, Context, Rule, attribute_mark
from verblint.settings import Project, SettingError
from verblint.startup.value import replace

# The modules of rules. A family with marks is imported for a file that has one of them; the others for every file.
FAMILIES: dict[str, tuple[str, ...]] = {
    "refusals": (REFUSED,),
    "schema": (),
    "structure": (),
    "forbidden_elements": (),
    "foreign": (),
    "zeebe_extension": (),
    "gateways": ("conditionExpression", "exclusiveGateway", "inclusiveGateway", CONTRACTS),
    "mappings": (),
    "verb_calls": (CONTRACTS, "errorEventDefinition"),
    "waits": (),
    "ameide_extension": (AMEIDE, attribute_mark(AMEIDE)),
    "ameide_model": (AMEIDE, NARROWED, "updateDefinition"),
    "strict_profile": (NARROWED,),
    "suppressions": (VERBWORKER,),
}
_ALL = "all"


@cache
def family(name: str) -> tuple[Rule, ...]:
    """Import one module of rules and return its rules."""
    module = __import__(f"verblint.rules.{name}", fromlist=(name,))
    return tuple(content for content in vars(module).values() if isinstance(content, Rule))


@cache
def rules() -> tuple[Rule, ...]:
    """Return all rules by code, without CRASHED, for which there is no model."""
    return tuple(sorted((rule for name in FAMILIES for rule in family(name)), key=lambda rule: rule.code))


def find(name: str) -> Rule | None:
    """Return the rule with this code or slug, ignoring case, or None."""
    wanted = name.lower()
    return next((rule for rule in (*rules(), CRASHED) if wanted in (rule.code.lower(), rule.slug)), None)


def find_relevant(context: Context, chosen: Iterable[Rule] | None = None) -> list[Rule]:
    """Return the rules that may find something in a file, of the chosen ones or of all."""
    marks = frozenset(context.marks)
    if chosen is None:
        needed = (name for name, on in FAMILIES.items() if not on or not marks.isdisjoint(on))
        chosen = (rule for name in needed for rule in family(name))
    return [rule for rule in chosen if rule.concerns(marks, context.root.document)]


class Selection:
    """The rules that a project selects; file safety is always among them."""

    def __init__(self, project: Project) -> None:
        """Resolve every rule name and pattern in the settings, or raise SettingError for an invalid one."""
        self._selected = _select(project)
        self._ignored_in = {
            _pattern(files): frozenset(_codes(names, may_guard=False))
            for files, names in project.per_file_ignores.items()
        }

    def of(self, path: str) -> tuple[Rule, ...] | None:
        """Return the rules for one file, given its path relative to the project; None for all rules."""
        ignored = frozenset[str]().union(*(codes for files, codes in self._ignored_in.items() if matches(path, files)))
        if not ignored:
            return self._selected
        selected = rules() if self._selected is None else self._selected
        return tuple(rule for rule in selected if _guards(rule) or rule.code not in ignored)


def _select(project: Project) -> tuple[Rule, ...] | None:
    if not project.select and not project.ignore and not project.severity:
        return None
    selected = _codes(project.select or [_ALL])
    ignored = _codes(project.ignore, may_guard=False)
    levels = {code: level for name, level in project.severity.items() for code in _codes([name], may_guard=False)}
    return tuple(
        replace(rule, severity=levels.get(rule.code, rule.severity))
        for rule in rules()
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
    found = [rule for rule in rules() if name.lower() in (_ALL, rule.slug) or rule.code.startswith(name.upper())]
    if not found:
        raise SettingError(f"{name}: no rule has this code or name; see verblint rules")
    if not may_guard and all(_guards(rule) for rule in found):
        raise SettingError(f"{name}: file safety (HB0xx) cannot be ignored or softened")
    return (rule.code for rule in found)
