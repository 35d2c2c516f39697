"""What the reader refuses in a file and the grammar in a condition: a table of rules, each a code and its page."""

from collections.abc import Callable, Iterator

from verblint.bpmn import reader
from verblint.feel import syntax_errors
from verblint.report import Finding
from verblint.rule import REFUSED, Context, Rule, rule


def refuse(code: str) -> Callable[[Callable[[], None]], Rule]:
    """Turn a page into the rule with the code of a refusal.

    The linter reports what the reader refuses; there is no tree to check. A condition is reported here.
    """

    def decorate(row: Callable[[], None]) -> Rule:
        def check(context: Context) -> Iterator[Finding]:
            return context.refused_conditions()

        check.__name__, check.__doc__ = row.__name__, row.__doc__
        return rule(code, on=(REFUSED,))(check)

    return decorate


@refuse(reader.NOT_WELL_FORMED)
def not_well_formed() -> None:
    """A model is well-formed XML.

    What no parser can read, no engine can run. The position is where the reader stopped; the cause is often a line or
    two above it.

    Wrong:  <serviceTask id="ask"> without its end tag
    Right:  <serviceTask id="ask"> ... </serviceTask>
    """


@refuse(reader.DOCUMENT_TYPE)
def document_type() -> None:
    """A model has no DOCTYPE.

    A document type can define entities, and entities can read files, fetch addresses and grow without limit. BPMN does
    not need them, and the engine refuses them, as does every careful reader.

    Wrong:  <!DOCTYPE definitions [<!ENTITY x "...">]>
    Right:  <?xml version="1.0" encoding="UTF-8"?> and then the definitions
    """


@refuse(reader.FOREIGN_ENCODING)
def foreign_encoding() -> None:
    """A model is written in UTF-8.

    Two readers that disagree about the encoding read two different models. UTF-7 can even spell markup that another
    reader takes for text.

    Wrong:  <?xml version="1.0" encoding="ISO-8859-1"?>
    Right:  <?xml version="1.0" encoding="UTF-8"?>
    """


@refuse(reader.OVER_LIMIT)
def over_limit() -> None:
    """A model stays within the size, depth, elements, attributes and findings that the settings allow.

    People do not draw models of two megabytes or a hundred levels. A larger one was generated or is hostile, and a
    linter that runs on every change must answer quickly. Of a file with more findings than the limit, the first ones
    are reported, and this finding tells how many are left out.

    Wrong:  100,000 nested subProcess elements
    Right:  several processes that hand over by message
    """


@refuse(syntax_errors.NOT_FEEL)
def condition_not_feel() -> None:
    """A condition starts with an equals sign.

    The engine evaluates FEEL only, and reads a text as FEEL only if its first character is `=`. A condition in another
    language, or an empty one, is refused when the model is deployed.

    Wrong:  <conditionExpression>${approved}</conditionExpression>
    Right:  <conditionExpression>=orch_approved = true</conditionExpression>
    """


@refuse(syntax_errors.SYNTAX)
def condition_syntax() -> None:
    """A condition follows the grammar of conditions.

    A condition joins tests of flags with `and`, `or`, `not(...)` and parentheses. A test compares one flag with one
    literal, or looks it up in a list. Everything else is refused, because a text that two parsers read differently
    becomes an unintended branch: `==`, single quotes and escapes have other meanings in other languages.

    Wrong:  =orch_outcome == 'approved'
    Right:  =orch_outcome = "approved"
    """


@refuse(syntax_errors.NOT_A_FLAG)
def condition_not_a_flag() -> None:
    """A condition reads flags; a flag's name is `orch_` and lower-case words.

    Flags are the whole contract between verbs and gateways. Any other variable is domain knowledge in the diagram, a
    correlation key, or a misspelt name that is always null.

    Wrong:  =customer_type = "vip"
    Right:  =orch_customer_type = "vip"     (set by a sub-verb, declared in the verb's flags)
    """


@refuse(syntax_errors.CALL)
def condition_calls() -> None:
    """A condition does not compute: no functions, no `if`, `for`, `some` or `every`, no dates.

    A computed answer is a decision of the domain. A sub-verb makes it, where it is tested and typed, and passes the
    answer to the gateway as a flag.

    Wrong:  =count(orders) > 0
    Right:  =orch_has_orders = true
    """


@refuse(syntax_errors.ARITHMETIC)
def condition_computes() -> None:
    """A condition does not do arithmetic.

    Sums and differences compute over data, and a dash inside a name is a minus: `orch_risk-class` is the flag
    `orch_risk` minus the variable `class`, which is null.

    Wrong:  =orch_attempts + 1 > 3
    Right:  =orch_attempts >= 3
    """


@refuse(syntax_errors.PATH_OR_FILTER)
def condition_path() -> None:
    """A condition has no paths, filters, lists, ranges or contexts.

    Flags are flat. A dot or a bracket looks into a structure, and a structure in a process variable is domain data
    that the engine must not know. Contexts can even hide what they read from the engine's own analysis.

    Wrong:  =orch.outcome = "approved"
    Right:  =orch_outcome = "approved"
    """


@refuse(syntax_errors.PAYLOAD)
def condition_reads_payload() -> None:
    """A condition reads neither the payload nor its hash.

    `domain_payload` is one opaque string to the engine. A branch on it breaks with the next change of the schema,
    and hides a decision of the domain in the diagram. Backticks, comments and invisible characters do not help.

    Wrong:  =contains(domain_payload, "approved")
    Right:  =orch_outcome = "approved"
    """


@refuse(syntax_errors.FLAG_AGAINST_VARIABLE)
def condition_compares_variables() -> None:
    """A condition compares a flag with a literal, never with another variable.

    Comparing two variables relates data, which is a sub-verb's work. It also cannot be checked: no linter knows which
    values are compared at run time.

    Wrong:  =orch_score > orch_limit
    Right:  =orch_score_over_limit = true
    """


@refuse(syntax_errors.MISSING_OPERATOR)
def condition_missing_operator() -> None:
    """Two tests have `and` or `or` between them, and `not` has parentheses.

    The engine reads keywords without checking where the word ends. As every flag starts with `or`, a forgotten operator
    deploys and means something else: `orch_x = "a" orch_y` is `orch_x = "a" or ch_y`.

    Wrong:  =orch_x = "a" orch_y = true
    Right:  =orch_x = "a" and orch_y = true
    """


@refuse(syntax_errors.LIST_WITHOUT_PARENTHESES)
def condition_list_brackets() -> None:
    """The list after `in` is in parentheses.

    After `in [` and `in "a"` the engine reads everything that follows as the list: the condition `orch_x in ["a", "b"]
    and orch_y = true` is false when both parts are true. With parentheses the list ends where they close.

    Wrong:  =orch_x in ["a", "b"] and orch_y = true
    Right:  =orch_x in ("a", "b") and orch_y = true
    """


@refuse(syntax_errors.MIXED_LIST)
def condition_mixed_list() -> None:
    """A list after `in` holds strings only or integers only.

    `true` in such a list is not a value to compare with but a test that always passes: `orch_n in (4, true)` is true
    for every number. Values of two types can never all match one flag.

    Wrong:  =orch_attempts in (4, true)
    Right:  =orch_attempts in (4, 5)
    """


@refuse(syntax_errors.NOT_ASCII)
def condition_not_ascii() -> None:
    """A condition is written in plain ASCII.

    A Cyrillic `o` makes another variable, which is null. A zero width space is invisible and is skipped by the engine.
    What is invisible cannot be reviewed.

    Wrong:  =orch_x<U+200B> = "a"
    Right:  =orch_x = "a"
    """


@refuse(syntax_errors.OVER_LIMIT)
def condition_over_limit() -> None:
    """A condition has at most 1,000 characters, and parentheses at most 16 deep.

    A few hundred nested parentheses overflow the stack of the engine's parser. The broker stops, and stops again at
    every restart, because the deployment is replayed. This limit is about safety, not style.

    Wrong:  =((((((((((((((((((orch_x = "a"))))))))))))))))))
    Right:  =orch_x = "a"
    """
