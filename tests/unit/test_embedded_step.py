"""The kernel, one transition at a time: a model, what is told to it, and what stands afterwards."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.drawing import Drawing, listeners, mappings
from tests.support.kernel import INSTANCE, Game
from verbworker.engine.embedded.instance_step import InstanceStep
from verbworker.engine.embedded.kernel.commands import Begin, CompleteJob, Resolve, TargetMissing
from verbworker.engine.embedded.kernel.inspection import active_elements
from verbworker.engine.embedded.kernel.state_document import dump_state, load_state
from verbworker.errors import CommandInvalid
from verbworker.stores.embedded.tokens import NewInstance, new_instance

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def line() -> Drawing:
    return Drawing().start().task("a").task("b").end().flow("begin", "a", "b", "end")


def test_a_token_goes_from_task_to_task_and_the_instance_ends_with_the_last() -> None:
    game = Game(line()).begin()
    assert game.open_jobs() == ["a"]

    game.complete("a", orch_x=1)
    assert (game.open_jobs(), game.state.variables) == (["b"], {"orch_x": 1})

    game.complete("b")
    assert (game.ended, game.state.tokens, game.open_jobs()) == ("completed", {}, [])


def test_a_job_is_completed_once() -> None:
    game = Game(line()).begin()
    job = game.job("a")
    game.complete("a")

    with pytest.raises(TargetMissing):
        game.complete_key(job)


@pytest.mark.parametrize(
    ("variables", "expected"), [({"orch_x": "left"}, ["l"]), ({"orch_x": "right"}, ["r"]), ({"orch_x": "else"}, ["d"])]
)
def test_an_exclusive_gateway_takes_the_way_that_holds_else_its_default(
    variables: dict[str, object], expected: list[str]
) -> None:
    drawing = Drawing().start().gateway("exclusive", "g", default="g_d").task("l").task("r").task("d").end()
    drawing.flow("begin", "g").flow("g", "l", when='=orch_x = "left"').flow("g", "r", when='=orch_x = "right"')
    drawing.flow("g", "d").flow("l", "end").flow("r", "end").flow("d", "end")

    assert Game(drawing).begin(**variables).open_jobs() == expected


def test_of_two_conditions_that_hold_the_last_in_the_document_wins() -> None:
    drawing = Drawing().start().gateway("exclusive", "g").task("l").task("r").end().flow("begin", "g")
    drawing.flow("g", "l", when="=orch_x = 1").flow("g", "r", when="=orch_x > 0").flow("l", "end").flow("r", "end")

    assert Game(drawing).begin(orch_x=1).open_jobs() == ["r"]  # as on the broker, which reads them from the end


def test_a_duration_below_nothing_is_over_at_once() -> None:
    drawing = Drawing().start().catch("wait", timer="=orch_pause").end().flow("begin", "wait", "end")

    (wait,) = Game(drawing).begin(orch_pause="PT-5S").state.waits.values()
    assert wait.due == NOON - timedelta(seconds=5)


@pytest.mark.parametrize("pause", ["P-3000Y", "P-99999999999Y", "PT-99999999999999H"])
def test_a_duration_far_below_nothing_is_over_at_once_too(pause: str) -> None:
    drawing = Drawing().start().catch("wait", timer="=orch_pause").end().flow("begin", "wait", "end")

    (wait,) = Game(drawing).begin(orch_pause=pause).state.waits.values()
    assert wait.due is not None
    assert wait.due <= NOON


def stuck_gateway(condition: str) -> Drawing:
    drawing = Drawing().start().gateway("exclusive", "g").task("l").end()
    return drawing.flow("begin", "g").flow("g", "l", when=condition).flow("l", "end")


@pytest.mark.parametrize(
    ("condition", "kind"), [("=orch_x = 1", "CONDITION_ERROR"), ("=not(orch_x)", "EXTRACT_VALUE_ERROR")]
)
def test_a_gateway_without_a_way_out_waits_for_a_person(condition: str, kind: str) -> None:
    game = Game(stuck_gateway(condition)).begin(**({"orch_x": 2} if "1" in condition else {}))

    (incident,) = game.state.incidents.values()
    assert (incident.kind, game.open_jobs()) == (kind, [])

    game.state.variables["orch_x"] = 1 if "1" in condition else False
    game.resolve()
    assert (game.open_jobs(), game.state.incidents) == (["l"], {})


def diamond() -> Drawing:
    drawing = Drawing().start().gateway("parallel", "fork", "join").task("l").task("r").task("after").end()
    return drawing.flow("begin", "fork", "l", "join", "after", "end").flow("fork", "r", "join")


def test_a_join_waits_for_every_branch_and_opens_once() -> None:
    game = Game(diamond()).begin()
    assert game.open_jobs() == ["l", "r"]

    game.complete("r")
    assert (game.open_jobs(), game.ended) == (["l"], None)
    game.complete("l")
    assert (game.open_jobs(), [t.flow for t in game.state.tokens.values() if t.flow]) == (["after"], [])
    game.complete("after")
    assert game.ended == "completed"


def test_two_tokens_on_one_branch_do_not_open_a_join() -> None:
    drawing = Drawing().start().gateway("parallel", "fork", "join").gateway("exclusive", "merge")
    drawing.task("a").task("b").task("slow").task("after").end()
    drawing.flow("begin", "fork", "a", "merge", "join", "after", "end").flow("fork", "b", "merge")
    drawing.flow("fork", "slow", "join")
    game = Game(drawing).begin()

    game.complete("a").complete("b")
    assert game.open_jobs() == ["slow"]
    game.complete("slow")
    assert game.open_jobs() == ["after"]
    game.complete("after")
    # The second token waits at the join for a partner that never comes, and the instance lives, as on the broker.
    assert (game.ended, game.open_jobs()) == (None, [])


def test_an_inclusive_gateway_takes_every_way_that_holds() -> None:
    drawing = (
        Drawing().start().gateway("inclusive", "g", default="g_d").task("l").task("r").task("d").end("e1", "e2", "e3")
    )
    drawing.flow("begin", "g").flow("g", "l", when="=orch_l = true").flow("g", "r", when="=orch_r = true")
    drawing.flow("g", "d").flow("l", "e1").flow("r", "e2").flow("d", "e3")

    assert Game(drawing).begin(orch_l=True, orch_r=True).open_jobs() == ["l", "r"]
    assert Game(drawing).begin(orch_l=False, orch_r=False).open_jobs() == ["d"]


def test_a_timer_is_set_when_its_event_is_reached_and_fires_once() -> None:
    drawing = Drawing().start().catch("wait", timer="PT90S").task("a").end().flow("begin", "wait", "a", "end")
    game = Game(drawing).begin()

    (wait,) = game.state.waits.values()
    assert (wait.due, game.open_jobs()) == (NOON + timedelta(seconds=90), [])
    game.fire("wait")
    assert (game.open_jobs(), game.state.waits) == (["a"], {})
    with pytest.raises(TargetMissing):
        game.fire_key(wait.key)


def test_a_timer_may_take_its_time_from_a_flag() -> None:
    drawing = Drawing().start().catch("wait", timer="=orch_pause").end().flow("begin", "wait", "end")

    (wait,) = Game(drawing).begin(orch_pause="PT5M").state.waits.values()
    assert wait.due == NOON + timedelta(minutes=5)
    (incident,) = Game(drawing).begin(orch_pause="soon").state.incidents.values()
    assert incident.kind == "EXTRACT_VALUE_ERROR"


@pytest.mark.req("EMC-04", "EMC-06", "TST-20")
def test_a_message_is_waited_for_with_the_key_of_the_moment() -> None:
    drawing = Drawing().start().catch("wait", message="docs").end().flow("begin", "wait", "end")
    game = Game(drawing).begin(corr_key="k-1")

    (wait,) = game.state.waits.values()
    assert (wait.message, wait.correlation_key) == ("docs", "k-1")
    game.deliver("wait", orch_seen=True)
    assert (game.ended, game.state.variables["orch_seen"]) == ("completed", True)


@pytest.mark.req("EMC-08")
def test_a_key_is_what_was_written_last_and_an_inner_one_hides_an_outer_one() -> None:
    inside = Drawing().start("in").receive("deep", "docs").end("out").flow("in", "deep", "out")
    held = f"<bpmn:extensionElements>{mappings({'corr_key': '=orch_inner'})}</bpmn:extensionElements>"
    drawing = Drawing().start().task("a").receive("wait", "docs").subprocess("box", inside, before=held).end()
    game = Game(drawing.flow("begin", "a", "wait", "box", "end")).begin(corr_key="first", orch_inner="inner")
    game.complete("a", corr_key="last")

    assert [wait.correlation_key for wait in game.state.waits.values()] == ["last"]
    game.deliver("wait")
    assert [wait.correlation_key for wait in game.state.waits.values()] == ["inner"]


@pytest.mark.req("EMC-08")
def test_a_wait_without_a_key_is_an_incident() -> None:
    drawing = Drawing().start().receive("wait", "docs").end().flow("begin", "wait", "end")
    game = Game(drawing).begin()

    assert [incident.kind for incident in game.state.incidents.values()] == ["EXTRACT_VALUE_ERROR"]
    game.state.variables["corr_key"] = "k"
    game.resolve()
    assert len(game.state.waits) == 1


def hosted(interrupting: bool, timer: str = "PT1M") -> Drawing:
    drawing = Drawing().start().task("work").boundary("late", "work", timer=timer, interrupting=interrupting)
    return drawing.task("hurry").end("e1", "e2").flow("begin", "work", "e1").flow("late", "hurry", "e2")


@pytest.mark.req("EMC-16")
def test_an_interrupting_boundary_event_ends_its_host() -> None:
    game = Game(hosted(True)).begin()
    job = game.job("work")

    game.fire("late")

    assert (game.open_jobs(), game.state.waits) == (["hurry"], {})
    with pytest.raises(TargetMissing):
        game.complete_key(job)
    assert game.complete("hurry").ended == "completed"


def test_a_boundary_event_that_does_not_interrupt_leaves_its_host() -> None:
    game = Game(hosted(False)).begin().fire("late")
    assert game.open_jobs() == ["hurry", "work"]

    assert game.complete("work").ended is None
    assert game.complete("hurry").ended == "completed"


def test_a_cycle_fires_as_often_as_it_says() -> None:
    game = Game(hosted(False, "R2/PT1M")).begin().fire("late").fire("late")

    assert game.open_jobs() == ["hurry", "hurry", "work"]
    assert game.state.waits == {}


def test_a_cycle_leaves_out_the_times_that_were_missed() -> None:
    game = Game(hosted(False, "R/PT1M")).begin()
    game.now = NOON + timedelta(minutes=10, seconds=30)

    game.fire("late")

    (wait,) = game.state.waits.values()
    assert wait.due == game.now + timedelta(minutes=1)


@pytest.mark.req("EMC-11")
def test_a_host_that_is_left_closes_its_boundary_events() -> None:
    game = Game(hosted(True)).begin().complete("work")

    assert (game.ended, game.state.waits) == ("completed", {})


def erring(code: str, *, catch: str | None = "NO") -> Drawing:
    drawing = Drawing().start().task("work").end("e1", "e2").flow("begin", "work", "e1")
    if catch is not None:
        drawing.boundary("caught", "work", error=catch).flow("caught", "e2")
    return drawing


@pytest.mark.parametrize("catch", ["NO", ""])
def test_an_error_goes_to_the_event_that_catches_it(catch: str) -> None:
    assert Game(erring("NO", catch=catch)).begin().throw("work", "NO").ended == "completed"


@pytest.mark.parametrize("catch", [None, "OTHER"])
def test_an_error_nobody_catches_waits_for_a_person_who_frees_the_job(catch: str | None) -> None:
    game = Game(erring("NO", catch=catch)).begin().throw("work", "NO")

    assert [incident.kind for incident in game.state.incidents.values()] == ["UNHANDLED_ERROR_EVENT"]
    assert game.resolve().complete("work").ended == "completed"


def nested() -> Drawing:
    inside = Drawing().start("in").task("deep").end("out").flow("in", "deep", "out")
    drawing = Drawing().start().subprocess("box", inside).task("after").task("saved").end("e1", "e2")
    drawing.boundary("caught", "box", error="NO").boundary("late", "box", timer="PT1H")
    drawing.flow("begin", "box", "after", "e1").flow("caught", "saved", "e2").flow("late", "e2")
    return drawing


def test_a_subprocess_is_left_when_nothing_lives_in_it() -> None:
    game = Game(nested()).begin().complete("deep")

    assert (game.open_jobs(), game.state.waits) == (["after"], {})


def test_an_error_inside_a_subprocess_is_caught_around_it() -> None:
    assert Game(nested()).begin().throw("deep", "NO").open_jobs() == ["saved"]


def test_a_timer_around_a_subprocess_ends_everything_in_it() -> None:
    game = Game(nested()).begin().fire("late")

    assert (game.ended, game.state.jobs) == ("completed", {})


def test_an_error_end_event_throws_out_of_its_subprocess() -> None:
    inside = Drawing().start("in").gateway("parallel", "both").task("deep").error_end("no", "NO")
    inside.flow("in", "both", "deep").flow("both", "no")
    drawing = Drawing().start().subprocess("box", inside).boundary("caught", "box", error="NO").task("saved")
    drawing.end("e1", "e2").flow("begin", "box", "e1").flow("caught", "saved", "e2")

    game = Game(drawing).begin()

    assert (game.open_jobs(), len(game.state.tokens)) == (["saved"], 2)


def test_a_terminate_end_event_ends_its_scope_at_once() -> None:
    drawing = Drawing().start().gateway("parallel", "fork").task("l").task("r").end().terminate_end("stop")
    drawing.flow("begin", "fork", "l", "end").flow("fork", "r", "stop")

    game = Game(drawing).begin().complete("r")

    assert (game.ended, game.open_jobs()) == ("completed", [])


def test_the_first_event_behind_a_choice_wins() -> None:
    drawing = (
        Drawing().start().gateway("eventBased", "choice").catch("docs", message="docs").catch("late", timer="PT1H")
    )
    drawing.task("read").task("chase").end().flow("begin", "choice", "docs", "read", "end")
    drawing.flow("choice", "late", "chase", "end")
    game = Game(drawing).begin(corr_key="k")
    assert len(game.state.waits) == 2

    game.fire("late")

    assert (game.open_jobs(), game.state.waits) == (["chase"], {})


def test_what_was_done_is_undone_in_reverse_one_after_the_other() -> None:
    drawing = Drawing().start().task("a").task("b").compensated("a", "not_a").compensated("b", "not_b")
    drawing.compensate("undo").end().flow("begin", "a", "b", "undo", "end")
    game = Game(drawing).begin().complete("a").complete("b")

    assert game.open_jobs() == ["not_b"]
    assert game.complete("not_b").open_jobs() == ["not_a"]
    assert game.complete("not_a").ended == "completed"


def test_only_what_was_completed_is_undone() -> None:
    drawing = Drawing().start().task("a").compensated("a", "not_a").gateway("parallel", "fork").task("b")
    drawing.compensated("b", "not_b").compensate("undo", end=True).end()
    drawing.flow("begin", "a", "fork", "b", "end").flow("fork", "undo")

    assert Game(drawing).begin().complete("a").open_jobs() == ["b", "not_a"]


def test_listeners_stand_before_and_after_a_node_in_their_order() -> None:
    around = listeners(("start", "s1"), ("start", "s2"), ("end", "e1"))
    drawing = Drawing().start().task("a", listeners=around).end().flow("begin", "a", "end")
    drawing.process_listeners = listeners(("end", "done"))
    game = Game(drawing).begin()
    seen = []

    while game.ended is None:
        (job,) = game.open_jobs()
        seen.append(job)
        game.complete(job)

    assert seen == ["s1", "s2", "a", "e1", "done"]


def test_a_listener_is_asked_again_when_its_node_was_stuck_after_it() -> None:
    drawing = Drawing().start().catch("wait", timer="=orch_x", listeners=listeners(("start", "s"))).end()
    game = Game(drawing.flow("begin", "wait", "end")).begin().complete("s")
    assert len(game.state.incidents) == 1
    game.state.variables["orch_x"] = "PT1M"

    assert game.resolve().open_jobs() == ["s"]
    assert game.complete("s").fire("wait").ended == "completed"


@pytest.mark.parametrize(("value", "key"), [("k", "k"), ("", ""), (42, "42"), (4.5, "4"), (-4.5, "-4")])
def test_a_key_is_a_text_or_the_whole_part_of_a_number(value: object, key: str) -> None:
    drawing = Drawing().start().catch("wait", message="docs").end().flow("begin", "wait", "end")

    (wait,) = Game(drawing).begin(corr_key=value).state.waits.values()
    assert wait.correlation_key == key


@pytest.mark.parametrize("value", [True, None, ["k"], {"k": 1}])
def test_nothing_else_is_a_key(value: object) -> None:
    drawing = Drawing().start().catch("wait", message="docs").end().flow("begin", "wait", "end")

    assert [known.kind for known in Game(drawing).begin(corr_key=value).state.incidents.values()] == [
        "EXTRACT_VALUE_ERROR"
    ]


def test_a_number_is_compared_by_what_it_is_worth() -> None:
    assert Game(stuck_gateway("=orch_x = 1")).begin(orch_x=1.0).open_jobs() == ["l"]
    assert Game(stuck_gateway("=orch_x > 1")).begin(orch_x=1.5).open_jobs() == ["l"]


@pytest.mark.req("EVO-20")
def test_a_job_without_retries_waits_for_a_person() -> None:
    game = Game(line()).begin().exhaust("a")

    assert [incident.kind for incident in game.state.incidents.values()] == ["JOB_NO_RETRIES"]
    assert game.resolve().complete("a").open_jobs() == ["b"]


def test_a_cancelled_instance_leaves_nothing_behind() -> None:
    game = Game(nested()).begin().cancel()

    assert (game.ended, game.state.tokens, game.state.jobs, game.state.waits) == ("terminated", {}, {}, {})
    with pytest.raises(TargetMissing):
        game.cancel()


def test_a_loop_over_a_flag_goes_round_until_the_flag_says_so() -> None:
    drawing = (
        Drawing().start().gateway("exclusive", "merge").task("try").gateway("exclusive", "again", default="again_end")
    )
    drawing.end().flow("begin", "merge", "try", "again").flow("again", "merge", when="=orch_again = true")
    drawing.flow("again", "end")
    game = Game(drawing).begin().complete("try", orch_again=True).complete("try", orch_again=True)

    assert game.complete("try", orch_again=False).ended == "completed"


def test_a_step_leaves_the_state_before_it_alone() -> None:
    game = Game(line()).begin()
    before = game.state
    kept = before.copy()

    game.complete("a", orch_x=1)

    assert before == kept


def test_a_variable_that_is_set_is_saved_even_if_it_equals_the_one_before() -> None:
    game = Game(line())
    turn = InstanceStep(game.definition, new_instance(NewInstance(INSTANCE, 1, "p", 1, NOON), "<default>"))
    turn.tell(Begin({"orch_x": 1}), NOON)
    turn.finish()
    (job,) = turn.state.jobs
    again = InstanceStep(game.definition, turn.snapshot(), turn.state)

    again.tell(CompleteJob(job, {"orch_x": True}), NOON)

    assert again.finish().variables == b'{"orch_x":true}'


@pytest.mark.parametrize(("mapping", "saved"), [("", None), (mappings(outputs={"price": "=1"}), b'{"price":1}')])
def test_a_step_that_sets_no_variable_saves_none_and_a_mapping_sets_one(mapping: str, saved: bytes | None) -> None:
    game = Game(Drawing().start().task("a", listeners=mapping).task("b").end().flow("begin", "a", "b", "end"))
    turn = InstanceStep(game.definition, new_instance(NewInstance(INSTANCE, 1, "p", 1, NOON), "<default>"))
    turn.tell(Begin({}), NOON)
    turn.finish()
    (job,) = turn.state.jobs
    again = InstanceStep(game.definition, turn.snapshot(), turn.state)

    again.tell(CompleteJob(job), NOON)

    assert again.finish().variables == saved


def test_a_state_of_an_earlier_version_is_read() -> None:
    game = Game(line()).begin()
    stored = dump_state(game.state)
    stored["tokens"] = [token[:10] for token in stored["tokens"]]

    (there,) = active_elements(game.definition, game.state)
    (before,) = active_elements(game.definition, load_state(INSTANCE, stored))

    assert (there.since, before.since) == (NOON, None)
    assert before.element_id == there.element_id


def test_a_flow_that_leads_nowhere_is_not_deployed() -> None:
    with pytest.raises(CommandInvalid, match=r"drawing.bpmn:\d+: the flow 'a_nowhere' leads nowhere"):
        Game(Drawing().start().task("a").flow("begin", "a", "nowhere"))


def test_a_command_that_is_refused_leaves_a_turn_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    # A turn holds what earlier commands did: were the state to move without its effects, a job would never be made.
    game = Game(line())
    turn = InstanceStep(game.definition, new_instance(NewInstance(INSTANCE, 1, "p", 1, NOON), "<default>"))
    monkeypatch.setattr("verbworker.engine.embedded.instance_step.KEYS_EACH", 1)
    before = dump_state(turn.state)

    with pytest.raises(CommandInvalid, match="used up its keys"):
        turn.tell(Begin({}), NOON)

    assert dump_state(turn.state) == before
    assert turn.change.jobs == {}


def test_a_model_that_moves_for_ever_is_stopped() -> None:
    drawing = Drawing().start().gateway("exclusive", "x", "y").flow("begin", "x", "y", "x")

    with pytest.raises(TargetMissing, match="moves for ever"):
        Game(drawing).begin()


def test_a_listener_cannot_throw_an_error() -> None:
    drawing = Drawing().start().task("a", listeners=listeners(("start", "first"))).end().flow("begin", "a", "end")
    game = Game(drawing).begin()

    with pytest.raises(TargetMissing, match="throws no error"):
        game.throw("first", "E")


def test_an_incident_is_resolved_once() -> None:
    game = Game(line()).begin().exhaust("a")
    (incident,) = game.state.incidents
    game.resolve()

    with pytest.raises(TargetMissing, match="no such incident"):
        game.tell(Resolve(incident))


def test_a_message_at_the_edge_of_a_task_may_come_again_if_it_interrupts_nothing() -> None:
    drawing = Drawing().start().task("a").boundary("edge", "a", message="news", interrupting=False).task("b").end()
    drawing.flow("begin", "a", "end").flow("edge", "b", "end", id="")
    game = Game(drawing).begin(corr_key="k").deliver("edge").deliver("edge")

    assert game.open_jobs() == ["a", "b", "b"]


def test_an_error_that_nothing_catches_is_an_incident_at_its_end_event() -> None:
    drawing = Drawing().start().task("a").error_end("bad", "E7").flow("begin", "a", "bad")
    game = Game(drawing).begin().complete("a")

    (incident,) = game.state.incidents.values()
    assert (incident.kind, incident.message) == ("UNHANDLED_ERROR_EVENT", "nothing catches the error 'E7'")


def test_a_termination_ends_an_undo_under_way_with_the_event_that_asked_for_it() -> None:
    drawing = Drawing().start().gateway("parallel", "fork").task("a").compensated("a", "not_a").compensate("undo")
    drawing.end().task("b").terminate_end("stop").flow("begin", "fork").flow("fork", "a", "undo", "end")
    game = Game(drawing.flow("fork", "b", "stop")).begin().complete("a")
    assert game.open_jobs() == ["b", "not_a"]

    game.complete("b")

    assert (game.ended, game.open_jobs(), game.state.tokens) == ("completed", [], {})


def test_a_termination_forgets_incidents_and_half_joined_branches() -> None:
    drawing = Drawing().start().gateway("parallel", "fork", "join").task("a").task("b").task("c").terminate_end("stop")
    drawing.end().flow("begin", "fork").flow("fork", "a", "join", "end").flow("fork", "b", "join")
    game = Game(drawing.flow("fork", "c", "stop")).begin().complete("a").exhaust("b")
    assert (len(game.state.incidents), [t.node for t in game.state.tokens.values() if t.flow]) == (1, ["join"])

    game.complete("c")

    assert (game.ended, game.state.incidents, game.state.tokens) == ("completed", {}, {})


@pytest.mark.req("TOK-22")
def test_every_element_that_must_be_executed_is() -> None:
    drawing = Drawing().start().task("work").send("send").user_task("decide").gateway("exclusive", "which")
    drawing.gateway("parallel", "split", "join").catch("mail", message="m").receive("answer", "n").end("end", "other")
    drawing.boundary("late", "work", timer="PT1H", interrupting=False).plain("noted").end("noted_end")
    drawing.boundary("told", "decide", message="stop", interrupting=False).end("told_end")
    drawing.boundary("refused", "send", error="NO").flow("refused", "other").flow("late", "noted", "noted_end")
    drawing.flow("begin", "work", "send", "decide", "which").flow("told", "told_end")
    drawing.flow("which", "split", when="=orch_go").flow("which", "other", when="=not(orch_go)")
    drawing.flow("split", "mail", "join").flow("split", "answer", "join", "end")

    def begun() -> Game:
        return Game(drawing).begin(corr_key="k", orch_go=True)

    game = begun().fire("late").complete("work").complete("send").deliver("told")
    game.complete("io.camunda.zeebe:userTask").deliver("mail")
    assert (game.ended, game.open_jobs()) == (None, [])
    assert game.deliver("answer").ended == "completed"

    assert begun().complete("work").throw("send", "NO").ended == "completed"

    left = begun().complete("work").complete("send").complete("io.camunda.zeebe:userTask", orch_go=False)
    assert left.ended == "completed"
