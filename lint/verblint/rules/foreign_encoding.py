"""A model is written in UTF-8."""

from collections.abc import Iterator

from verblint.bpmn.reader import FOREIGN_ENCODING
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_by_reader
from verblint.rule import Context, rule


@rule(FOREIGN_ENCODING, "foreign-encoding", Severity.ERROR, on=(FOREIGN_ENCODING,))
def check(context: Context) -> Iterator[Finding]:
    """A model is written in UTF-8.

    Two readers that disagree about the encoding read two different models. UTF-7 can even spell markup that another
    reader takes for text.

    Wrong:  <?xml version="1.0" encoding="ISO-8859-1"?>
    Right:  <?xml version="1.0" encoding="UTF-8"?>
    """
    return refused_by_reader(context)
