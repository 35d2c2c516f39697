"""Check one file: read it, run every selected rule on it, and apply suppressions."""

from collections.abc import Iterable, Set

from verblint.bpmn.element import VERBWORKER, Element
from verblint.bpmn.reader import ModelError, read
from verblint.contracts.contract import Contracts
from verblint.report.finding import Finding
from verblint.report.report import Suppressed
from verblint.rule import CRASHED, Context, Rule
from verblint.rules.index import concerning, find, rules
from verblint.settings import HOLLOW, Settings
from verblint.startup.value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from verblint.report.suppression import Suppression

_NO_CONTRACTS = Contracts()
_DEFAULTS = Settings()
_UNUSED = "HB901"


@value
class Inspection:
    """The findings in one file, ordered by position, and the findings suppressed there."""

    findings: tuple[Finding, ...]
    suppressed: tuple[Suppressed, ...] = ()


def inspect(
    content: bytes,
    name: str = "<bytes>",
    settings: Settings = _DEFAULTS,
    contracts: Contracts = _NO_CONTRACTS,
    chosen: Iterable[Rule] | None = None,
    *,
    today: str = "",
) -> Inspection:
    """Return all findings in one file. Never raises: a file the reader rejects has exactly one finding, the reason."""
    try:
        root = read(content, name, settings.limits)
    except ModelError as error:
        return Inspection((_refusal(error, name),))
    try:
        return _look(Context.of(root, settings, contracts, today), None if chosen is None else tuple(chosen))
    except Exception as error:
        return Inspection((_failure(error, root),))
    finally:
        root.document.take_apart()


def _look(context: Context, chosen: tuple[Rule, ...] | None) -> Inspection:
    findings: list[Finding] = []
    for rule in concerning(context, chosen):
        findings += rule.run(context)
    suppressed: list[Suppressed] = []
    if any(namespace == VERBWORKER for namespace, _ in context.elements):
        from verblint.report.suppression import current_date, sort_out

        today = context.today or current_date()
        findings, suppressed, unused = sort_out(context.root, findings, today)
        # A narrower profile leaves some rules nothing to find, but a model is not written for one profile alone.
        chosen = rules() if chosen is None else chosen
        codes = {rule.code for rule in chosen} if context.settings.profile == HOLLOW else set()
        context = replace(context, unused=tuple(s for s in unused if _could_match(s, codes)))
        findings += [finding for rule in chosen if rule.code == _UNUSED for finding in rule.run(context)]
    return Inspection(tuple(sorted(findings, key=_place)), tuple(suppressed))


def _could_match(suppression: "Suppression", codes: Set[str]) -> bool:
    """Return whether its rule ran. If it did not, the suppression may still be needed."""
    rule = find(suppression.rule)
    return rule is not None and rule.is_suppressible and rule.code in codes


def _place(finding: Finding) -> tuple[int, int, str, str]:
    return finding.line, finding.column, finding.code, finding.detail


def _refusal(error: ModelError, name: str) -> Finding:
    rule = find(error.code)
    assert rule is not None, "every refusal of the reader has its rule"
    return Finding(
        code=rule.code,
        slug=rule.slug,
        severity=rule.severity,
        message=error.message,
        file=name,
        line=error.line,
        column=error.column,
        end_line=error.line,
        end_column=error.column + 1,
    )


def _failure(error: Exception, root: Element) -> Finding:
    return Finding(
        code=CRASHED.code,
        slug=CRASHED.slug,
        severity=CRASHED.severity,
        message=f"the model could not be made of this file: {type(error).__name__}, so no rule has checked it",
        hint="This is a bug of verblint: report it with the model",
        file=root.document.source.name,
        line=1,
        column=1,
        end_line=1,
        end_column=2,
    )
