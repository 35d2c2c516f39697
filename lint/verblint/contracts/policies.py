"""Policy files: every field is validated as in the runtime, so that a wrong number never gets that far.

version: 1
policies:
  - name: standard
    schedule_to_close_timeout_seconds: 3600    # from the first try to the last
    start_to_close_timeout_seconds: 30         # one try
    retry:
      maximum_attempts: 3
      initial_interval_seconds: 1
      maximum_interval_seconds: 60
      backoff_coefficient: 2.0
      non_retryable_error_types: [EntityUnknown]
"""

from collections.abc import Iterator

from verblint.contracts.contract import Origin, PolicyFields
from verblint.contracts.section import FieldShape, Section
from verblint.startup.value import replace, value

_NAME = FieldShape(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "a policy's name, like standard")
_ERROR_TYPE = FieldShape(r"[A-Za-z_][A-Za-z0-9_.]*", "the name of an exception")
_TIMEOUTS = ("schedule_to_close_timeout_seconds", "start_to_close_timeout_seconds")
_FIRST, _LAST = _INTERVALS = ("initial_interval_seconds", "maximum_interval_seconds")
_ERRORS = "non_retryable_error_types"
_RETRY = ("maximum_attempts", *_INTERVALS, "backoff_coefficient", _ERRORS)


@value
class _Bounds:
    """The range of a number; with `above`, the minimum itself is excluded."""

    least: int
    most: int
    above: bool = False
    whole: bool = False

    def wrong(self, given: object) -> str:
        """Return what is wrong with a number, or an empty string."""
        if given is None:
            return "is missing"
        if isinstance(given, bool) or not isinstance(given, int if self.whole else int | float):
            return "must be an integer" if self.whole else "must be a number"
        if self.above and given <= self.least:
            return f"must be greater than {self.least}"
        if not self.least <= given <= self.most:
            return f"must be between {self.least} and {self.most}"
        return ""


_ATTEMPTS = _Bounds(1, 1_000_000, whole=True)
_COEFFICIENT = _Bounds(1, 1_000)
_SECONDS = _Bounds(0, 10 * 366 * 86_400, above=True)


def policies_of(section: Section, *, is_exact: bool = False) -> Iterator[tuple[PolicyFields, Section]]:
    """Yield the policies of a file, each with its section; errors become faults.

    With `is_exact`, seconds must be whole numbers and the list of error types must be present, even if it is empty.
    """
    section.only(["version", "policies"])
    version = section.value("version")
    # In Python, True equals 1.
    if version != 1 or isinstance(version, bool):
        section.fault("must be 1", "version")
    for entry in section.sections("policies"):
        yield _policy(entry, is_exact), entry


def _policy(section: Section, is_exact: bool) -> PolicyFields:
    section.only(["name", *_TIMEOUTS, "retry"])
    name = section.text("name", like=_NAME)
    for timeout in _TIMEOUTS:
        _number(section, timeout, replace(_SECONDS, whole=is_exact))
    if section.value("retry") is None:
        section.fault("is missing", "retry")
        return PolicyFields(name, 1, _origin(section))
    retry = section.section("retry")
    _check_retry(retry, is_exact)
    return PolicyFields(name, int(_number(retry, "maximum_attempts", _ATTEMPTS)), _origin(section))


def _check_retry(section: Section, is_exact: bool) -> None:
    section.only(_RETRY)
    first, last = (_number(section, name, replace(_SECONDS, whole=is_exact)) for name in _INTERVALS)
    if 0 < last < first:
        section.fault(f"must not be less than {_FIRST}", _LAST)
    _number(section, "backoff_coefficient", _COEFFICIENT)
    if _ERRORS in section.members and section.value(_ERRORS) is None:
        section.fault("must be a list", _ERRORS)
    elif _ERRORS not in section.members and is_exact:
        section.fault("is missing", _ERRORS)
    section.texts(_ERRORS, like=_ERROR_TYPE)


def _number(section: Section, name: str, bounds: _Bounds) -> float:
    """Return a number within its bounds, or record a fault and return the minimum."""
    given = section.value(name)
    wrong = bounds.wrong(given)
    if wrong:
        section.fault(wrong, name)
    return given if isinstance(given, int | float) and not wrong else bounds.least


def _origin(section: Section) -> Origin:
    return Origin(section.document.file, *section.position)
