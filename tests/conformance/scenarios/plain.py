"""Stories of plain models: mappings, variables of one task alone, and conditions over any variable."""

from tests.support.drawing import Drawing, listeners, mappings
from tests.support.scenario import Play, scenario

ORDER = {"id": "o-1", "amount": 7, "wait": "PT1M", "lines": [{"price": 1}, {"price": 2}]}
AMOUNT = {"amount": "=order.amount"}


def mapped(mapping: str, more: str = "") -> Drawing:
    return Drawing().start().task("a", listeners=mapping + more).task("b").end().flow("begin", "a", "b", "end")


def split(condition: str) -> Drawing:
    drawing = Drawing().start().gateway("exclusive", "choice", default="choice_l").task("l").task("r").end("e1", "e2")
    return drawing.flow("begin", "choice", "l", "e1").flow("choice", "r", when=condition).flow("r", "e2")


@scenario(mapped(mappings(AMOUNT)))
async def an_input_belongs_to_its_task_alone(play: Play) -> None:
    await play.start(order=ORDER)
    await play.sees("a")
    assert play.carries("a") == {"order": ORDER, "amount": 7}
    await play.complete("a", price=9)
    await play.sees("b")
    assert play.carries("b") == {"order": ORDER, "price": 9}


@scenario(mapped(mappings(AMOUNT)))
async def an_answer_under_the_name_of_an_input_stays_in_the_task(play: Play) -> None:
    await play.start(order=ORDER, amount=1)
    await play.sees("a")
    assert play.carries("a")["amount"] == 7
    await play.complete("a", amount=8, price=9)
    await play.sees("b")
    assert play.carries("b") == {"order": ORDER, "amount": 1, "price": 9}


@scenario(mapped(mappings({"country": '="DE"', "amount": "=-3", "price": "=1.5", "paid": "=true", "order": "=null"})))
async def inputs_may_be_constants(play: Play) -> None:
    await play.start()
    await play.sees("a")
    assert play.carries("a") == {"country": "DE", "amount": -3, "price": 1.5, "paid": True, "order": None}


@scenario(mapped(mappings({"country": "DE", "order.total": "=amount", "price.a.b": "=order.total", "price.a.c": "=1"})))
async def inputs_may_be_texts_and_may_lead_into_a_variable(play: Play) -> None:
    await play.start(amount=3, order=ORDER)
    await play.sees("a")
    inputs = {"country": "DE", "order": {"total": 3}, "price": {"a": {"b": 3, "c": 1}}}
    assert play.carries("a") == {"amount": 3, **inputs}


@scenario(
    mapped(mappings(outputs={"order.total": "=amount", "price.a": "=1", "order.id": "=2", "paid.a.b": "=order.total"}))
)
async def an_output_into_a_variable_keeps_the_rest_of_it(play: Play) -> None:
    await play.start(order={"id": 1, "x": 2}, price=3)
    await play.sees("a")
    await play.complete("a", amount=4)
    await play.sees("b")
    order = {"id": 2, "x": 2, "total": 4}
    assert play.carries("b") == {"order": order, "price": None, "paid": {"a": {"b": 4}}}


@scenario(mapped(mappings({"amount": "=order.amount", "price": "=amount", "country": "=order.nothing.more"})))
async def an_input_sees_those_before_it_and_null_where_there_is_nothing(play: Play) -> None:
    await play.start(order=ORDER, amount=1)
    await play.sees("a")
    assert play.carries("a") == {"order": ORDER, "amount": 7, "price": 7, "country": None}


@scenario(mapped(mappings({"price": "=order.lines.price"})))
async def a_path_into_a_list_gives_a_list(play: Play) -> None:
    await play.start(order=ORDER)
    await play.sees("a")
    assert play.carries("a")["price"] == [1, 2]


@scenario(mapped(mappings(outputs={"price": "=paid.total", "country": "=order"})))
async def with_outputs_nothing_else_leaves_a_task(play: Play) -> None:
    await play.start(order="o-1")
    await play.sees("a")
    await play.complete("a", paid={"total": 5}, amount=3)
    await play.sees("b")
    assert play.carries("b") == {"order": "o-1", "price": 5, "country": "o-1"}


@scenario(mapped(mappings(outputs={"price": "=nothing", "country": '="DE"'})))
async def an_output_of_nothing_is_null(play: Play) -> None:
    await play.start(price=4)
    await play.sees("a")
    await play.complete("a")
    await play.sees("b")
    assert play.carries("b") == {"price": None, "country": "DE"}


@scenario(mapped(mappings({"amount": "=order.amount"}, {"price": "=amount", "paid": "=price"})))
async def an_output_reads_what_the_task_has_of_its_own(play: Play) -> None:
    await play.start(order=ORDER, price=1)
    await play.sees("a")
    await play.complete("a", amount=8)
    await play.sees("b")
    assert play.carries("b") == {"order": ORDER, "price": 8, "paid": 8}


@scenario(mapped(mappings(AMOUNT), listeners(("start", "s"), ("end", "e"))))
async def listeners_see_inputs_and_add_to_what_their_task_sees(play: Play) -> None:
    await play.start(order=ORDER)
    await play.sees("s")
    assert play.carries("s")["amount"] == 7
    await play.complete("s", country="DE")
    await play.sees("a")
    assert play.carries("a") == {"order": ORDER, "amount": 7, "country": "DE"}
    await play.complete("a", price=9)
    await play.sees("e")
    await play.complete("e", paid=True)
    await play.sees("b")
    assert play.carries("b") == {"order": ORDER, "price": 9, "paid": True}


def boxed(mapping: str) -> Drawing:
    inside = Drawing().start("in").task("deep").task("deeper").end("out").flow("in", "deep", "deeper", "out")
    box = Drawing().start()
    box.subprocess("box", inside, before=f"<bpmn:extensionElements>{mapping}</bpmn:extensionElements>")
    return box.task("b").end().flow("begin", "box", "b", "end")


@scenario(boxed(mappings(AMOUNT, {"paid": "=amount"})))
async def a_subprocess_has_variables_of_its_own(play: Play) -> None:
    await play.start(order=ORDER)
    await play.sees("deep")
    assert play.carries("deep") == {"order": ORDER, "amount": 7}
    await play.complete("deep", amount=8, price=9)
    await play.sees("deeper")
    assert play.carries("deeper") == {"order": ORDER, "amount": 8, "price": 9}
    await play.complete("deeper")
    await play.sees("b")
    assert play.carries("b") == {"order": ORDER, "price": 9, "paid": 8}


def waited(mapping: str = "") -> Drawing:
    drawing = Drawing().start().catch("wait", message="docs", listeners=mapping).task("b").end()
    return drawing.flow("begin", "wait", "b", "end")


@scenario(waited(mappings(outputs={"price": "=amount"})))
async def a_message_is_mapped_where_it_is_caught(play: Play) -> None:
    await play.start(corr_key="k")
    await play.lives()
    await play.publish("docs", amount=3, country="DE")
    await play.sees("b")
    assert play.carries("b") == {"corr_key": "k", "price": 3}


@scenario(
    Drawing()
    .start()
    .receive("wait", "docs", mapping=mappings({"paid": "=order.amount"}, {"price": "=amount", "country": "=paid"}))
    .task("b")
    .end()
    .flow("begin", "wait", "b", "end")
)
async def a_receive_task_is_mapped_on_both_sides(play: Play) -> None:
    await play.start(corr_key="k", order=ORDER)
    await play.lives()
    await play.publish("docs", amount=3)
    await play.sees("b")
    assert play.carries("b") == {"corr_key": "k", "order": ORDER, "price": 3, "country": 7}


@scenario(
    Drawing()
    .start()
    .task("a", listeners=mappings(AMOUNT))
    .boundary("event", "a", message="docs", listeners=mappings(outputs={"price": "=paid"}))
    .task("b")
    .end("e1", "e2")
    .flow("begin", "a", "e1")
    .flow("event", "b", "e2")
)
async def a_message_on_the_boundary_is_mapped_without_the_task(play: Play) -> None:
    await play.start(corr_key="k", order=ORDER)
    await play.sees("a")
    await play.publish("docs", paid=3, amount=4)
    await play.sees("b")
    assert play.carries("b") == {"corr_key": "k", "order": ORDER, "price": 3}


def keyed() -> Drawing:
    drawing = waited()
    drawing.correlation_key = "=order.id"
    return drawing


@scenario(keyed())
async def a_key_may_be_a_path(play: Play) -> None:
    await play.start(order=ORDER)
    await play.lives()
    await play.publish("docs", "o-1", price=1)
    await play.lives("b")


@scenario(Drawing().start().catch("wait", timer="=order.wait").task("b").end().flow("begin", "wait", "b", "end"))
async def a_time_may_be_a_path(play: Play) -> None:
    await play.start(order=ORDER)
    await play.lives()
    await play.advance(61)
    await play.lives("b")


@scenario(Drawing().start().user_task("ask", mapping=mappings(AMOUNT, {"price": "=paid"})).task("b").end()
          .flow("begin", "ask", "b", "end"))  # fmt: skip
async def a_user_task_is_mapped_too(play: Play) -> None:
    await play.start(order=ORDER)
    await play.sees("user")
    assert play.carries("user")["amount"] == 7
    await play.complete("user", paid=3)
    await play.sees("b")
    assert play.carries("b") == {"order": ORDER, "price": 3}


@scenario(
    Drawing()
    .start()
    .gateway("parallel", "fork", "join")
    .task("l", listeners=mappings({"amount": "=order.amount"}))
    .task("r", listeners=mappings({"amount": "=order.id"}))
    .task("b")
    .end()
    .flow("begin", "fork", "l", "join", "b", "end")
    .flow("fork", "r", "join")
)
async def tasks_beside_each_other_have_their_own(play: Play) -> None:
    await play.start(order=ORDER)
    await play.sees("l", "r")
    assert (play.carries("l")["amount"], play.carries("r")["amount"]) == (7, "o-1")
    await play.complete("l", price=1)
    await play.complete("r", paid=True)
    await play.sees("b")
    assert play.carries("b") == {"order": ORDER, "price": 1, "paid": True}


@scenario(mapped(mappings(AMOUNT)))
async def a_job_that_is_given_back_keeps_its_inputs(play: Play) -> None:
    await play.start(order=ORDER)
    await play.sees("a")
    await play.fail("a", retries=2)
    await play.sees("a")
    assert play.carries("a") == {"order": ORDER, "amount": 7}


# ---- conditions ------------------------------------------------------------------------------------------------------


@scenario(split("=price > 100"))
async def a_condition_reads_any_variable(play: Play) -> None:
    await play.start(price=100.5)
    await play.lives("r")
    await play.start(price=100)
    await play.sees("l", "r")


@scenario(split("=price > 100"))
async def a_condition_over_a_variable_that_is_missing_is_an_incident(play: Play) -> None:
    await play.start()
    await play.stands("EXTRACT_VALUE_ERROR")
    await play.resolve(price=101)
    await play.lives("r")


@scenario(split('=order.amount >= 6.5 and (country = "DE" or not(paid))'))
async def conditions_are_joined_over_paths(play: Play) -> None:
    await play.start(order=ORDER, country="DE", paid=True)
    await play.lives("r")


@scenario(split("=order.amount = amount"))
async def a_variable_is_compared_with_another(play: Play) -> None:
    await play.start(order=ORDER, amount=7.0)
    await play.lives("r")


@scenario(split('=country in ("DE", "AT") and 5 < amount'))
async def the_constant_may_come_first(play: Play) -> None:
    await play.start(country="AT", amount=6)
    await play.lives("r")


@scenario(split("=paid"))
async def a_boolean_is_a_condition(play: Play) -> None:
    await play.start(paid=True)
    await play.lives("r")
