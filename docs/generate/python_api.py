"""The page of the Python API: what `verbworker.__all__` names, and the test kit, by mkdocstrings."""

import verbworker

TESTING = {
    "verbworker.testing.kit.Kit": "one verb",
    "verbworker.testing.kit.Ran": "what became of it",
    "verbworker.testing.play.Play": "a whole process",
    "verbworker.testing.Point": "where a worker can die",
    "verbworker.testing.verification.assert_verified": "models and code agree",
}


def page() -> str:
    """Return the page of the Python API."""
    parts = [
        "# Python API\n\n"
        "Everything here is imported from `verbworker`. Other modules may change without notice, except"
        " `verbworker.testing`.\n\n"
    ]
    parts += [f"::: verbworker.{name}\n\n" for name in verbworker.__all__]
    parts.append(
        "## Testing\n\nThe fixtures `kit`, `play` and `crash_point` come with the pytest plugin; see"
        " [Test verbs and processes](../how-to/test.md).\n\n"
    )
    parts += [f"::: {name}\n    options:\n      heading_level: 3\n\n" for name in TESTING]
    return "".join(parts)
