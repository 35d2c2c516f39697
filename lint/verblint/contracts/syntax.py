"""The syntax of every name and text in contracts, models and invocations. Each pattern is written here only."""

from re import fullmatch

from verblint.startup.value import value

UNSIGNED = r"0|[1-9][0-9]*"
INTEGER = rf"-?(?:{UNSIGNED})"
# A place in the template of a correlation key.
KEY_PLACE = r"\$\{((?:state|args)\.[A-Za-z0-9_.]+)\}"
# The place of an argument in a sentence for people.
SENTENCE_PLACE = r"\{([^{}]*)\}"
# The schema of a payload. Looser than SCHEMA_NAME: cases may run under names that only Python code declared.
PAYLOAD_SCHEMA = r"(?P<verb>[a-z][a-z0-9]*(?:[._-][a-z0-9]+)*)/v(?P<version>[1-9][0-9]{0,8})"
# An engine cuts a longer error code, which makes it another code.
MAX_ERROR_CODE = 200
MAX_TEXT = 1000  # characters; a sentence for people is far shorter, and it is stored with every entry

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
# The one template that is the value of one variable, unchanged.
ONE_VARIABLE = rf"\$\{{state\.({_IDENTIFIER})\}}"
_WORD = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_VERB = rf"{_WORD}(?:\.{_WORD})+"
_ARGUMENT = r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*"
_VARIABLE = r"[a-z0-9]+(?:_[a-z0-9]+)*"


@value
class Syntax:
    """The syntax of a text: a regular expression, and a description for messages."""

    expression: str
    description: str

    def fits(self, text: str) -> bool:
        """Return whether the whole text matches."""
        return fullmatch(self.expression, text) is not None


TEXT = Syntax(rf"(?s:.{{1,{MAX_TEXT}}})", f"a text of 1 to {MAX_TEXT} characters")
# What a condition can have between its quotes.
PLAIN_TEXT = Syntax(r"[ !#-\[\]-~]{1,200}", "1 to 200 characters of plain ASCII without quotes and backslashes")
PROJECT_NAME = Syntax(_WORD, "a name in lower case, like parcel-return")
VERB_NAME = Syntax(_VERB, "a verb's name, like kyc.open-case")
SCHEMA_NAME = Syntax(rf"{_VERB}/v[1-9][0-9]{{0,8}}", "a schema with its version, like kyc.open-case/v1")
FLAG_NAME = Syntax(f"orch_{_VARIABLE}", "a flag's name, like orch_docs_received")
KEY_NAME = Syntax(f"corr_{_VARIABLE}", "a correlation key's name, like corr_documents")
ARGUMENT_NAME = Syntax(_ARGUMENT, "an argument's name, like case-type")
POLICY_NAME = Syntax(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "a policy's name, like standard")
ELEMENT_ID = Syntax(r"[A-Za-z_][A-Za-z0-9_.-]*", "an element id of BPMN")
DATA_FIELD = Syntax(rf"{_IDENTIFIER}(?:\.{_IDENTIFIER})*", "a payload field, like entity_ref")
FROM_ARGUMENT = Syntax(rf"args\.{_ARGUMENT}", "an argument, like args.entity")
FROM_DATA = Syntax(rf"data(?:\.{_IDENTIFIER})+", "a field of the data, like data.review_decision")
KEY_TEMPLATE = Syntax(
    rf"(?:[^$]|\$\{{(?:state|args)(?:\.{_IDENTIFIER})+\}}){{1,200}}", "a text with places like ${state.entity_ref}"
)
ERROR_CODE = Syntax(
    rf"[!-~](?:[ -~]{{0,{MAX_ERROR_CODE - 2}}}[!-~])?",
    f"an error code: 1 to {MAX_ERROR_CODE} printable ASCII characters",
)
# An address, or a host by its form: local, a number, with a port, or ending as hosts do.
ENDPOINT = Syntax(
    r"(?s:.*)://(?s:.*)|(?:localhost|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[A-Za-z][A-Za-z0-9.-]*(?::[0-9]{4,5}|"
    r"\.(?:com|org|net|io|dev|app|cloud|local|internal|intranet|lan|corp|svc)))(?::[0-9]{1,5})?(?:/\S*)?",
    "an address of an environment, like api.example.com",
)
# Directories name groups with slashes, colons and spaces; a comma separates roles in a setting.
ROLE = Syntax(
    r"[^\s,\x00-\x1f\x7f-\x9f]+(?: [^\s,\x00-\x1f\x7f-\x9f]+){0,9}", "a role, like reviewer: words without commas"
)
LABEL = Syntax(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,80}", "a label: one line of 1 to 80 characters")
CURRENCY = Syntax(r"[A-Z]{3}", "a currency by its ISO code, like EUR")
JOB_TYPE = Syntax(r"[a-z0-9.-]+", "a job type in lower case, like kyc.open-case")
HEADER_KEY = Syntax(r"[a-z0-9][a-z0-9_.-]{0,63}", "a header's key, like letter")
ERROR_TYPE = Syntax(r"[A-Za-z_][A-Za-z0-9_.]*", "the name of an exception")
