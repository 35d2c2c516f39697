"""Which rules check a file: the families of rules, and those that a project selects."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache

from verblint.bpmn.element import AMEIDE, VERBWORKER
from verblint.paths import NoMatch, compile_pattern, matches
from verblint.rule import CONTRACTS, CRASHED, NARROWED, REFUSED, Context, Rule, attribute_mark
from verblint.settings import PLAIN, Project, SettingError
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
# The families that have codes of a hundred, so that a selection by codes imports no others.
HUNDREDS = {
    "HB0": ("refusals", "schema", "structure"),
    "HB1": ("forbidden_elements", "foreign", "zeebe_extension"),
    "HB2": ("refusals", "gateways"),
    "HB3": ("zeebe_extension", "gateways", "mappings", "verb_calls"),
    "HB4": ("zeebe_extension", "verb_calls"),
    "HB5": ("waits",),
    "HB6": ("structure",),
    "HB9": ("suppressions",),
    "AM7": ("ameide_extension", "ameide_model", "strict_profile"),
}
_SAFETY = "HB0"
_ALL = "all"

Choice = Callable[[Iterable[str]], Iterable[Rule]]
"""Returns the rules to run, given the families that a file needs."""


@cache
def family(name: str) -> tuple[Rule, ...]:
    """Import one module of rules and return its rules."""
    module = __import__(f"verblint.rules.{name}", fromlist=(name,))
    return tuple(content for content in vars(module).values() if isinstance(content, Rule))


@cache
def rules() -> tuple[Rule, ...]:
    """Return all rules by code, without CRASHED, for which there is no model."""
    return tuple(sorted(rules_of(FAMILIES), key=lambda rule: rule.code))


def rules_of(families: Iterable[str]) -> Iterator[Rule]:
    """Yield the rules of some families."""
    return (rule for name in families for rule in family(name))


def find(name: str) -> Rule | None:
    """Return the rule with this code or slug, ignoring case, or None."""
    wanted = name.lower()
    return next((rule for rule in (*rules(), CRASHED) if wanted in (rule.code.lower(), rule.slug)), None)


def find_relevant(context: Context, choose: Choice = rules_of) -> list[Rule]:
    """Return the rules that may find something in a file, of the chosen ones or of all."""
    marks = frozenset(context.marks)
    needed = [name for name, on in FAMILIES.items() if not on or not marks.isdisjoint(on)]
    found = [rule for rule in choose(needed) if rule.concerns(marks, context.root.document)]
    if context.settings.profile != PLAIN:
        return found
    from verblint.contracts.profiles import profile_of

    return [rule for rule in found if profile_of(context).applies(rule.code)]


class Selection:
    """The rules that a project selects; file safety is always among them."""

    def __init__(self, project: Project) -> None:
        """Resolve every rule name and pattern in the settings, or raise SettingError for an invalid one."""
        self._is_plain = project.settings.profile == PLAIN
        self._plain = tuple(_pattern(files, "plain") for files in project.plain)
        self._selected = _codes(project.select)
        self._ignored = _codes(project.ignore, may_guard=False)
        self._levels = {
            code: level for name, level in project.severity.items() for code in _codes([name], may_guard=False)
        }
        self._ignored_in = {
            _pattern(files, "per-file-ignores"): _codes(names, may_guard=False)
            for files, names in project.per_file_ignores.items()
        }
        hundreds = {_SAFETY, *(code[:3] for code in self._selected)} if self._selected else HUNDREDS
        self._families = {name for hundred in hundreds for name in HUNDREDS[hundred]}

    def is_plain(self, path: str) -> bool:
        """Return whether one file, by its path relative to the project, is checked against the profile plain."""
        return self._is_plain or any(matches(path, files) for files in self._plain)

    def of(self, path: str) -> Choice:
        """Return the choice for one file, given its path relative to the project."""
        ignored = self._ignored.union(*(codes for files, codes in self._ignored_in.items() if matches(path, files)))
        if not self._selected and not ignored and not self._levels:
            return rules_of
        return lambda families: [
            replace(rule, severity=self._levels[rule.code]) if rule.code in self._levels else rule
            for rule in rules_of(name for name in families if name in self._families)
            if rule.code.startswith(_SAFETY)
            or (rule.code not in ignored and (not self._selected or rule.code in self._selected))
        ]


def _pattern(files: str, setting: str) -> str:
    """Return a valid pattern unchanged. It is compiled here, because an invalid one must fail before any file."""
    try:
        compile_pattern(files)
    except NoMatch as error:
        raise SettingError(f"{setting}: {error}") from None
    return files


def _codes(names: Iterable[str], *, may_guard: bool = True) -> set[str]:
    return {code for name in names for code in _find_codes(name, may_guard)}


def _find_codes(name: str, may_guard: bool) -> Iterator[str]:
    """Return the codes a name refers to: a code, a prefix of codes, a rule's slug, or all."""
    families = HUNDREDS.get(name[:3].upper(), FAMILIES)
    # A slug is in one family: those after it are not imported.
    found = next(([rule] for rule in rules_of(families) if rule.slug == name.lower()), None) or [
        rule for rule in rules_of(families) if name.lower() == _ALL or rule.code.startswith(name.upper())
    ]
    if not found:
        raise SettingError(f"{name}: no rule has this code or name; see verblint rules")
    if not may_guard and all(rule.code.startswith(_SAFETY) for rule in found):
        raise SettingError(f"{name}: file safety (HB0xx) cannot be ignored or softened")
    return (rule.code for rule in found)
