"""Conditions: what parses, what is refused with which words, and what a test means for which values."""

import pytest

from tests.support.bpmn import conditional_flow, process, tree
from verblint.bpmn.assembly import assemble
from verblint.feel.branch import branches
from verblint.feel.condition import (
    And,
    BareFlag,
    Comparison,
    FlagRead,
    Membership,
    Not,
    Or,
    Value,
    evaluate,
    flags,
    variables,
    walk,
)
from verblint.feel.condition_parser import parse_any
from verblint.feel.grammar import MAX_DEPTH, MAX_LENGTH, ConditionError, parse, plain_comparison


def refused(text: str) -> ConditionError:
    with pytest.raises(ConditionError) as caught:
        parse(text)
    return caught.value


# The grammar


@pytest.mark.parametrize(
    ("text", "operator", "value"),
    [
        ('=orch_x = "a"', "=", "a"),
        ('=orch_x="a"', "=", "a"),
        ('= orch_x != ""', "!=", ""),
        ("=orch_x = true", "=", True),
        ("=orch_x = false", "=", False),
        ("=orch_x != null", "!=", None),
        ("=orch_x = 0", "=", 0),
        ("=orch_x >= -12", ">=", -12),
        ("=orch_x < 9007199254740991", "<", 9007199254740991),
        ("=\n\torch_x\r\n<=\n3 ", "<=", 3),
        ("=(orch_x > 3)", ">", 3),
    ],
)
def test_a_flag_is_compared_with_a_literal(text: str, operator: str, value: Value) -> None:
    test = parse(text)

    assert isinstance(test, Comparison)
    assert (test.flag.name, test.operator, test.literal.value) == ("orch_x", operator, value)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('=orch_x in ("a")', ["a"]),
        ('=orch_x in("a","b" , "c d")', ["a", "b", "c d"]),
        ("=orch_x in (1, -2)", [1, -2]),
    ],
)
def test_a_flag_is_looked_up_in_a_list_of_one_type(text: str, values: list[Value]) -> None:
    test = parse(text)

    assert isinstance(test, Membership)
    assert [literal.value for literal in test.literals] == values


def test_and_binds_closer_than_or_and_parentheses_closer_than_both() -> None:
    test = parse("=orch_a = 1 or orch_b = 2 and (orch_c = 3 or not(orch_d)) or orch_e")

    assert isinstance(test, Or)
    first, second, third = test.tests
    assert isinstance(first, Comparison)
    assert isinstance(second, And)
    assert isinstance(second.tests[1], Or)
    assert isinstance(second.tests[1].tests[1], Not)
    assert isinstance(third, BareFlag)


def test_a_bare_flag_parses_so_that_its_fix_has_a_place() -> None:
    assert parse("=not (orch_f)") == Not(BareFlag(FlagRead("orch_f", 6, 12)))


def test_places_count_from_the_equals_sign() -> None:
    test = parse('=orch_x = "a"')

    assert isinstance(test, Comparison)
    assert (test.flag.start, test.flag.end) == (1, 7)
    assert (test.literal.start, test.literal.end) == (10, 13)


def test_the_caps_themselves_are_allowed() -> None:
    deep = "=" + "(" * MAX_DEPTH + "orch_f" + ")" * MAX_DEPTH
    long = '=orch_x = "' + "a" * (MAX_LENGTH - 12) + '"'

    assert isinstance(parse(deep), BareFlag)
    assert len(long) == MAX_LENGTH
    assert isinstance(parse(long), Comparison)


# What is refused: the traps of the engine, the habits of other languages, and plain mistakes


@pytest.mark.req("ORC-04", "LNT-03", "LNT-09")
@pytest.mark.parametrize(
    ("text", "code", "blamed"),
    [
        ("", "HB201", ""),
        ("orch_f", "HB201", "orch_f"),
        ("${orch_f}", "HB201", "${orch_f}"),
        ("#{orch_f}", "HB201", "#{orch_f}"),
        ("=", "HB202", ""),
        ("= ", "HB202", ""),
        ('=orch_x == "a"', "HB202", "="),
        ("=orch_x = 'a'", "HB202", "'"),
        ('=orch_x = "a', "HB202", '"'),
        ("=orch_x = `a", "HB202", "`"),
        ('=orch_x = "a" && orch_f', "HB202", "&"),
        ("=orch_f || orch_g", "HB202", "|"),
        ("=!orch_f", "HB202", "!"),
        ('=orch_x = "\\u0061"', "HB202", '"\\u0061"'),
        ('=orch_x = "a\nb"', "HB202", '"a\nb"'),
        ("=orch_x = 1.5", "HB202", "1.5"),
        ("=orch_x = 007", "HB202", "007"),
        ("=orch_x = 9007199254740992", "HB202", "9007199254740992"),
        ("=orch_x = - 3", "HB206", "-"),
        ('=orch_x < "a"', "HB202", '"a"'),
        ("=orch_x >= true", "HB202", "true"),
        ('="a" = orch_x', "HB202", '"a"'),
        ("=(orch_f = true", "HB202", "("),
        ("=orch_f)", "HB202", ")"),
        ("=()", "HB202", ")"),
        ("=(orch_f orch_g)", "HB210", "orch_g"),
        ("=orch_f = true = true", "HB202", "="),
        ('=(orch_x = "a") = true', "HB202", "="),
        ("=orch_f and", "HB202", ""),
        ("=or orch_f", "HB202", "or"),
        ("=in (1)", "HB202", "in"),
        ("=orch_x = ", "HB202", ""),
        ("=orch_x = and", "HB202", "and"),
        ("=orch_x = (3)", "HB202", "("),
        ("=orch_x in ()", "HB202", ")"),
        ("=orch_x in (1", "HB202", ""),
        ("=orch_x in (1..3)", "HB202", ".."),
        ("=orch_x in (> 3)", "HB202", ">"),
        ("=orch_x in (1,)", "HB202", ")"),
        ("=orch_f // why", "HB202", "// why"),
        ("=orch_f /* why */", "HB202", "/* why */"),
        ("=?", "HB202", "?"),
        ('=first name = "Al"', "HB203", "first"),
        ('=case_id = "a"', "HB203", "case_id"),
        ('=corr_x = "a"', "HB203", "corr_x"),
        ('=Orch_x = "a"', "HB203", "Orch_x"),
        ('=orch__x = "a"', "HB203", "orch__x"),
        ('=orch_ = "a"', "HB203", "orch_"),
        ('=orchx = "a"', "HB203", "orchx"),
        ("=`orch_x` = 1", "HB203", "`orch_x`"),
        ("=$x = 1", "HB203", "$x"),
        ("=count(orch_x) > 1", "HB205", "count"),
        ("=string length(orch_x) > 1", "HB205", "string"),
        ('=contains(orch_x, "a")', "HB205", "contains"),
        ("=orch_x(1)", "HB205", "orch_x"),
        ("=orch_x = now()", "HB205", "now"),
        ("=if orch_f then true else false", "HB205", "if"),
        ("=for x in orch_l return x", "HB205", "for"),
        ("=some x in orch_l satisfies x", "HB205", "some"),
        ("=every x in orch_l satisfies x", "HB205", "every"),
        ("=function(x) x", "HB205", "function"),
        ("=orch_n between 1 and 3", "HB205", "between"),
        ("=orch_n instance of number", "HB205", "instance"),
        ("=orch_x = if orch_f then 1 else 2", "HB205", "if"),
        ('=@"2020-01-01" = orch_d', "HB205", "@"),
        ('=orch_d = @"2020-01-01"', "HB205", "@"),
        ("=orch_n + 1 = 2", "HB206", "orch_n"),
        ("=orch_n = 1 + 1", "HB206", "+"),
        ("=orch_n ** 2 = 4", "HB206", "orch_n"),
        ("=1 + orch_n = 2", "HB206", "1"),
        ("=-orch_n = 2", "HB206", "-"),
        ('=orch-x = "a"', "HB206", "orch"),
        ("=orch_n = -orch_m", "HB206", "-"),
        ("=orch_x.y = 1", "HB207", "orch_x"),
        ("=orch_x[1] = 1", "HB207", "orch_x"),
        ("=orch_x = y.z", "HB207", "y"),
        ("=(orch_f).x", "HB207", "."),
        ("=[1, 2][1] = 1", "HB207", "["),
        ("=]1..2[", "HB207", "]"),
        ("={a: orch_f}.a", "HB207", "{"),
        ("=orch_x = [1]", "HB207", "["),
        ("=orch_x = {a: 1}", "HB207", "{"),
        ('="a".b', "HB207", '"a"'),
        ("=orch_n = orch_m", "HB209", "orch_m"),
        ("=orch_n = `orch_m`", "HB209", "`orch_m`"),
        ("=orch_n in (orch_m)", "HB209", "orch_m"),
        ('=orch_x = "a" orch_y', "HB210", "orch_y"),
        ('=orch_x = "a" other', "HB210", "other"),
        ("=orch_x = 3 4", "HB210", "4"),
        ('=orch_f "a"', "HB210", '"a"'),
        ("=orch_f `a`", "HB210", "`a`"),
        ("=not orch_y", "HB210", "not"),
        ("=not", "HB210", "not"),
        ('=orch_x="a"andorch_f', "HB210", "andorch_f"),
        ("=orch_n = 3or orch_f", "HB210", "or"),
        ('=orch_x in ["a","b"] and orch_y = true', "HB211", "["),
        ('=orch_x in "a" and orch_y', "HB211", '"a"'),
        ("=orch_x in orch_y", "HB211", "orch_y"),
        ("=orch_x in", "HB211", ""),
        ("=orch_n in (4, true)", "HB212", "true"),
        ("=orch_n in (null)", "HB212", "null"),
        ('=orch_n in (4, "a")', "HB212", '"a"'),
        ('=orch_x\u200b = "a"', "HB213", "\u200b"),
        ('=\u043erch_x = "a"', "HB213", "\u043e"),
        ('=orch_x = "ä"', "HB213", "ä"),
        ("=orch_x\x7f = 1", "HB213", "\x7f"),
        ("\xa0=orch_f", "HB213", "\xa0"),
        ("=true", "HB217", "true"),
        ("=null", "HB217", "null"),
        ("=1 = 1", "HB217", "1"),
        ('="a" = "a"', "HB217", '"a"'),
        ('="a" in ("a")', "HB217", '"a"'),
    ],
)
def test_what_is_no_condition_is_refused_at_the_token_to_blame(text: str, code: str, blamed: str) -> None:
    error = refused(text)

    assert (error.code, text[error.start : error.end]) == (code, blamed)
    assert error.message
    assert error.hint


@pytest.mark.req("LNT-02", "ORC-04")
@pytest.mark.parametrize(
    "text",
    [
        '=domain_payload = "x"',
        '=domain_payload_hash = "x"',
        '=`domain_payload` = "x"',
        "=`domain_\npayload`",
        "={a: domain_payload, domain_payload: 1}.a",
        '=orch_x = "q" or domain_payload = "NEW"',
        "=count(domain_payload) > 1",
        "=domain_payload.data.x",
        "=1 ordomain_payload",
        '=orch_x = "a"anddomain_payload',
        "=ifdomain_payload then 1 else 2",
        "=orch_f // domain_payload",
        '=get value(domain_payload, "x")',
    ],
)
def test_the_payload_is_found_wherever_it_hides(text: str) -> None:
    assert refused(text).code == "HB208"


def test_a_string_that_spells_the_payload_is_only_a_string() -> None:
    assert isinstance(parse('=orch_x = "domain_payload"'), Comparison)


def test_a_plain_comparison_is_what_the_whole_grammar_says_it_is() -> None:
    texts = [
        f"={blank}{flag}{blank}{operator}{blank}{literal}{blank}"
        for blank in ("", " ", "  ")
        for flag in ("orch_x", "orch_a_1", "orch_in", "orch_domain_payload", "orch_", "orch_A", "domain_payload")
        for operator in ("=", "!=", "==", "<")
        for literal in ('"a"', '""', '"a b"', '"domain_payload"', "true", "null", "0", "007", "1.5", "orch_y", '"a\\"')
    ]
    plain = {text: test for text in texts if (test := plain_comparison(text)) is not None}

    assert len(plain) > 100
    assert plain == {text: parse_any(text) for text in plain}


@pytest.mark.parametrize("nested", [MAX_DEPTH + 1, 400])
def test_deep_nesting_is_refused_before_a_broker_sees_it(nested: int) -> None:
    error = refused("=" + "(" * nested + "orch_f" + ")" * nested)

    assert error.code == "HB214"


def test_depth_counts_what_is_open_and_not_what_was() -> None:
    assert isinstance(parse("=" + " and ".join(["(orch_f)"] * 50)), And)


def test_a_long_condition_is_refused() -> None:
    error = refused("=" + " and ".join(["orch_f"] * 500))

    assert (error.code, error.start) == ("HB214", MAX_LENGTH)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('=orch_x = "a" orch_y', "the engine would read: or ch_y"),
        ("=count(orch_x) > 1", "calls count(...)"),
        ("=string length(orch_x) > 1", "calls string length(...)"),
        ("=orch_x-y = 1", "a dash is a minus"),
        ("=\u043erch_x = 1", "U+043E (CYRILLIC SMALL LETTER O)"),
        ("=orch_x\x01", "U+0001 (a control character)"),
        ("=corr_x = 1", "only a subscription may read it"),
        ("${x}", "Camunda 7"),
        ("", "empty"),
    ],
)
def test_a_message_says_what_was_found(text: str, words: str) -> None:
    assert words in refused(text).message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('=orch_x = "a" orch_y', "and orch_y"),
        ("=not orch_y", "not(...)"),
        ('=orch_x in ["a"]', 'in ("a", "b")'),
        ("=count(orch_x) > 1", "=orch_<name> = true"),
        ("=orch_x == 1", "one equals sign"),
        ("=orch_f && orch_g", "and"),
        ('="a" = orch_x', "orch_x ..."),
    ],
)
def test_a_hint_says_what_to_write(text: str, words: str) -> None:
    assert words in refused(text).hint


def test_an_error_reads_as_its_message() -> None:
    assert str(refused("=true")) == "the condition does not depend on a flag"


# The meaning


UNSET = object()


@pytest.mark.req("ORC-06")
@pytest.mark.parametrize(
    ("text", "value", "meaning"),
    [
        ("=orch_v", True, True),
        ("=orch_v", False, False),
        ("=orch_v", UNSET, None),
        ("=orch_v", None, None),
        ("=orch_v", "true", None),
        ("=orch_v", 1, None),
        ("=not(orch_v)", True, False),
        ("=not(orch_v)", UNSET, None),
        ("=orch_v = true", UNSET, False),
        ("=orch_v = true", "true", None),
        ("=orch_v = true", 1, None),
        ('=orch_v = "a"', "a", True),
        ('=orch_v = "a"', "A", False),
        ('=orch_v != "a"', UNSET, True),
        ('=orch_v != "a"', "a", False),
        ('=orch_v != "a"', 3, None),
        ('=orch_v = "3"', 3, None),
        ("=orch_v = 1", True, None),
        ("=orch_v = null", UNSET, True),
        ("=orch_v = null", "a", False),
        ("=orch_v != null", None, False),
        ("=orch_v > 2", 3, True),
        ("=orch_v >= 3", 3, True),
        ("=orch_v < 3", 3, False),
        ("=orch_v <= 2", 3, False),
        ("=orch_v > 2", UNSET, None),
        ("=orch_v > 2", "3", None),
        ("=orch_v > 0", True, None),
        ('=orch_v in ("a", "b")', "b", True),
        ('=orch_v in ("a", "b")', "c", False),
        ('=orch_v in ("a", "b")', UNSET, False),
        ('=orch_v in ("a", "b")', 1, None),
        ("=orch_v in (1, 2)", 2, True),
    ],
)
def test_one_flag_means_what_the_engine_says(text: str, value: Value, meaning: bool | None) -> None:
    values = {} if value is UNSET else {"orch_v": value}

    assert evaluate(parse(text), values) is meaning


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (True, True, True, True),
        (True, False, False, True),
        (False, False, False, False),
        (True, None, None, True),
        (None, True, None, True),
        (False, None, False, None),
        (None, False, False, None),
        (None, None, None, None),
    ],
)
def test_and_and_or_have_three_values(
    left: bool | None, right: bool | None, both: bool | None, either: bool | None
) -> None:
    values = {"orch_l": left, "orch_r": right}

    assert evaluate(parse("=orch_l and orch_r"), values) is both
    assert evaluate(parse("=orch_l or orch_r"), values) is either


@pytest.mark.req("LNT-11")
def test_a_test_lists_the_flags_it_reads() -> None:
    test = parse('=orch_a = 1 and not(orch_b) or (orch_c in ("x") and orch_a > 2)')

    assert variables(test) == {"orch_a", "orch_b", "orch_c"}
    assert [flag.name for flag in flags(test)] == ["orch_a", "orch_b", "orch_c", "orch_a"]
    assert len(list(walk(test))) == 8


# Branches


def test_every_conditional_flow_of_every_process_is_a_branch() -> None:
    gateway = "<exclusiveGateway id='choice'/><sequenceFlow id='plain' sourceRef='choice' targetRef='next'/>"
    model = assemble(
        tree(
            process(gateway, conditional_flow("=orch_f", "good"), key="one"),
            process(f"<subProcess id='s'>{conditional_flow('=true', 'bad')}</subProcess>", key="two"),
        )
    )
    good, bad = branches(model)

    assert (good.process.id, good.flow.id, good.test) == ("one", "good", BareFlag(FlagRead("orch_f", 1, 7)))
    assert good.error is None
    assert good.gateway is not None
    assert good.gateway.id == "choice"
    assert bad.error is not None
    assert (bad.process.id, bad.flow.id, bad.test, bad.error.code) == ("two", "bad", None, "HB217")
    assert bad.gateway is None
