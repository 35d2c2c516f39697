"""Stories of messages: early, late, twice, for one and for many."""

from tests.support.drawing import Drawing
from tests.support.scenario import Play, scenario

NO_REST = ("zeebe-8.8", "zeebe-8.9")  # the test engines have no REST, and gRPC does not correlate


def waiting(process: str = "p", after: str = "read") -> Drawing:
    drawing = Drawing(process).start().catch("wait", message="docs").task(after).end()
    return drawing.flow("begin", "wait", after, "end")


def twice() -> Drawing:
    drawing = Drawing().start().catch("one", message="docs").task("a").catch("two", message="docs").task("b").end()
    return drawing.flow("begin", "one", "a", "two", "b", "end")


@scenario(waiting(), proves=("MSG-03", "EMC-10"))
async def a_message_reaches_who_waits(play: Play) -> None:
    await play.start(corr_key="k", orch_x=1)
    await play.lives()
    await play.publish("docs", orch_x=2, orch_y="read")
    await play.sees("read")
    assert play.carries("read") == {"corr_key": "k", "orch_x": 2, "orch_y": "read"}


@scenario(waiting(), proves=("MSG-04",))
async def an_early_message_is_kept(play: Play) -> None:
    await play.publish("docs", orch_y="early")
    await play.start(corr_key="k")
    await play.sees("read")
    assert play.carries("read") == {"corr_key": "k", "orch_y": "early"}


@scenario(waiting())
async def an_early_message_without_a_time_to_live_is_lost(play: Play) -> None:
    await play.publish("docs", ttl_s=0)
    await play.start(corr_key="k")
    await play.lives()


@scenario(waiting())
async def a_waiting_instance_is_reached_without_a_time_to_live(play: Play) -> None:
    await play.start(corr_key="k")
    await play.lives()
    await play.publish("docs", ttl_s=0)
    await play.lives("read")


@scenario(waiting())
async def an_early_message_expires(play: Play) -> None:
    await play.publish("docs", ttl_s=60)
    await play.advance(61)
    await play.start(corr_key="k")
    await play.lives()


@scenario(waiting(), proves=("MSG-03", "EMC-02"))
async def a_message_of_another_key_or_name_passes_by(play: Play) -> None:
    await play.start(corr_key="k")
    await play.publish("docs", "other")
    await play.publish("letters")
    await play.lives()
    await play.publish("docs")
    await play.lives("read")


@scenario(twice())
async def a_repetition_of_a_kept_message_is_no_second_one(play: Play) -> None:
    await play.publish("docs", id="m-1")
    await play.publish("docs", id="m-1")
    await play.start(corr_key="k")
    await play.sees("a")
    await play.complete("a")
    await play.lives()


@scenario(twice())
async def a_repetition_is_known_while_the_message_lives_though_it_was_read(play: Play) -> None:
    await play.start(corr_key="k")
    await play.lives()
    await play.publish("docs", id="m-1")
    await play.sees("a")
    await play.complete("a")
    await play.publish("docs", id="m-1")
    await play.lives()
    await play.publish("docs", id="m-2")
    await play.lives("b")


@scenario(twice())
async def without_a_time_to_live_no_repetition_is_known(play: Play) -> None:
    await play.start(corr_key="k")
    await play.lives()
    await play.publish("docs", id="m-1", ttl_s=0)
    await play.sees("a")
    await play.complete("a")
    await play.lives()
    await play.publish("docs", id="m-1", ttl_s=0)
    await play.lives("b")


@scenario(twice())
async def one_message_is_read_once_by_one_instance(play: Play) -> None:
    await play.publish("docs")
    await play.start(corr_key="k")
    await play.sees("a")
    await play.complete("a")
    await play.lives()


@scenario(twice())
async def kept_messages_are_read_in_their_order(play: Play) -> None:
    await play.publish("docs", orch_x="first")
    await play.publish("docs", orch_x="second")
    await play.start(corr_key="k")
    await play.sees("a")
    assert play.carries("a")["orch_x"] == "first"
    await play.complete("a")
    await play.sees("b")
    assert play.carries("b")["orch_x"] == "second"


@scenario(waiting(), proves=("MSG-06",))
async def a_message_reaches_one_instance_of_a_process(play: Play) -> None:
    await play.start(corr_key="k")
    await play.start(corr_key="k")
    await play.lives()
    await play.publish("docs")
    await play.sees("read")
    await play.publish("docs")
    await play.sees("read", "read")


@scenario(waiting(), proves=("MSG-06",))
async def a_kept_message_reaches_one_instance_of_a_process(play: Play) -> None:
    await play.publish("docs")
    await play.start(corr_key="k")
    await play.sees("read")
    await play.start(corr_key="k")
    await play.lives("read")


@scenario(waiting("p"), waiting("q", "file"), proves=("MSG-06",))
async def a_message_reaches_every_process_once(play: Play) -> None:
    await play.start("p", corr_key="k")
    await play.start("q", corr_key="k")
    await play.lives()
    await play.publish("docs")
    await play.lives("file", "read")


@scenario(waiting("p"), waiting("q", "file"), proves=("MSG-06",))
async def a_kept_message_reaches_a_second_process_later(play: Play) -> None:
    await play.start("p", corr_key="k")
    await play.lives()
    await play.publish("docs")
    await play.sees("read")
    await play.start("q", corr_key="k")
    await play.lives("file", "read")


@scenario(waiting())
async def a_number_is_a_key_as_its_text(play: Play) -> None:
    await play.start(corr_key=42)
    await play.lives()
    await play.publish("docs", "42")
    await play.lives("read")


@scenario(waiting())
async def a_wait_without_a_key_is_an_incident(play: Play) -> None:
    await play.start()
    await play.stands("EXTRACT_VALUE_ERROR")
    await play.publish("docs")
    await play.resolve(corr_key="k")
    await play.lives("read")


@scenario(waiting())
async def a_key_that_is_a_truth_value_is_an_incident(play: Play) -> None:
    await play.start(corr_key=True)
    await play.stands("EXTRACT_VALUE_ERROR")


@scenario(
    Drawing()
    .start()
    .task("work")
    .boundary("docs", "work", message="docs")
    .task("read")
    .end("e1", "e2")
    .flow("begin", "work", "e1")
    .flow("docs", "read", "e2"),
    proves=("TST-18", "TST-20"),
)
async def a_message_at_a_boundary_ends_the_host(play: Play) -> None:
    await play.start(corr_key="k")
    await play.sees("work")
    await play.publish("docs", orch_x=1)
    await play.lives("read")
    assert play.carries("read") == {"corr_key": "k", "orch_x": 1}
    await play.complete("read")
    await play.ends()


@scenario(
    Drawing()
    .start()
    .task("work")
    .boundary("docs", "work", message="docs", interrupting=False)
    .task("read")
    .end("e1", "e2")
    .flow("begin", "work", "e1")
    .flow("docs", "read", "e2")
)
async def a_boundary_that_does_not_interrupt_takes_every_message(play: Play) -> None:
    await play.publish("docs")
    await play.start(corr_key="k")
    await play.sees("read", "work")
    await play.publish("docs")
    await play.publish("docs")
    await play.lives("read", "read", "read", "work")
    await play.complete("work")
    await play.publish("docs")
    await play.lives("read", "read", "read")


@scenario(Drawing().start().receive("wait", "docs").task("a").end().flow("begin", "wait", "a", "end"))
async def a_receive_task_waits_as_a_catch_event_does(play: Play) -> None:
    await play.start(corr_key="k")
    await play.lives()
    await play.publish("docs")
    await play.lives("a")


@scenario(
    Drawing()
    .start()
    .receive("wait", "docs")
    .boundary("late", "wait", timer="PT1M")
    .task("a")
    .task("chase")
    .end("e1", "e2")
    .flow("begin", "wait", "a", "e1")
    .flow("late", "chase", "e2")
)
async def a_wait_that_was_given_up_reads_nothing(play: Play) -> None:
    await play.start(corr_key="k")
    await play.lives()
    await play.advance(61)
    await play.sees("chase")
    await play.publish("docs")
    await play.lives("chase")


@scenario(waiting())
async def a_cancelled_instance_leaves_the_message_to_the_next(play: Play) -> None:
    await play.start(corr_key="k")
    await play.lives()
    await play.cancel()
    await play.ends()
    await play.publish("docs")
    await play.start(corr_key="k")
    await play.lives("read")


@scenario(
    Drawing()
    .start()
    .gateway("parallel", "fork")
    .catch("wait", message="docs")
    .task("a")
    .task("b")
    .end("e1", "e2")
    .flow("begin", "fork", "wait", "a", "e1")
    .flow("fork", "b", "e2"),
    proves=("MSG-03", "EMC-04"),
)
async def a_key_is_read_when_the_wait_begins(play: Play) -> None:
    await play.start(corr_key="k")
    await play.sees("b")
    await play.complete("b", corr_key="new")
    await play.publish("docs", "new")
    await play.lives()
    await play.publish("docs", "k")
    await play.lives("a")


def opened() -> Drawing:
    return Drawing().message_start("begin", "mail").task("a").end().flow("begin", "a", "end")


@scenario(opened())
async def a_message_may_start_an_instance(play: Play) -> None:
    await play.publish("mail", orch_x="brought")
    await play.sees("a")
    assert play.carries("a") == {"orch_x": "brought"}


@scenario(opened())
async def one_instance_at_a_time_is_started_for_a_key(play: Play) -> None:
    await play.publish("mail", orch_x=1)
    await play.sees("a")
    await play.publish("mail", orch_x=2)
    await play.publish("mail", "other", orch_x=3)
    await play.sees("a", "a")
    await play.complete("a")
    await play.sees("a", "a")
    assert sorted(str(job.variables["orch_x"]) for job in play.jobs()) == ["2", "3"]


@scenario(opened())
async def a_second_start_without_a_time_to_live_is_lost(play: Play) -> None:
    await play.publish("mail")
    await play.sees("a")
    await play.publish("mail", ttl_s=0)
    await play.complete("a")
    await play.sees()


@scenario(opened())
async def the_empty_key_always_starts_another(play: Play) -> None:
    await play.publish("mail", "")
    await play.publish("mail", "")
    await play.sees("a", "a")


@scenario(opened())
async def a_repeated_start_is_known(play: Play) -> None:
    await play.publish("mail", "", id="m-1")
    await play.publish("mail", "", id="m-1")
    await play.sees("a")


@scenario(
    Drawing()
    .message_start("begin", "mail")
    .task("a")
    .catch("wait", message="mail")
    .task("b")
    .end()
    .flow("begin", "a", "wait", "b", "end")
)
async def a_message_that_is_waited_for_starts_no_other(play: Play) -> None:
    await play.publish("mail", "", corr_key="k")
    await play.sees("a")
    await play.complete("a")
    await play.sees()
    await play.publish("mail", "k")
    await play.sees("b")


@scenario(waiting(), without=NO_REST, proves=("MSG-05", "EMC-13"))
async def nobody_who_waits_is_said_at_once(play: Play) -> None:
    assert await play.correlate("docs") is None
    await play.start(corr_key="k")
    await play.lives()


@scenario(waiting(), without=NO_REST)
async def who_waits_is_said_at_once(play: Play) -> None:
    await play.start(corr_key="k")
    await play.lives()
    assert await play.correlate("docs", orch_x=1) == play.instance
    await play.sees("read")
    assert play.carries("read") == {"corr_key": "k", "orch_x": 1}
    assert await play.correlate("docs") is None


@scenario(opened(), without=NO_REST)
async def a_start_is_said_at_once(play: Play) -> None:
    key = await play.correlate("mail")
    await play.sees("a")
    assert play.job("a").process_instance_key == key


def crossroads() -> Drawing:
    drawing = Drawing().start().gateway("eventBased", "choice").catch("docs", message="docs")
    drawing.catch("late", timer="PT1H").task("read").task("chase").end("e1", "e2")
    return drawing.flow("begin", "choice", "docs", "read", "e1").flow("choice", "late", "chase", "e2")


@scenario(crossroads())
async def a_message_may_win_a_choice(play: Play) -> None:
    await play.start(corr_key="k")
    await play.lives()
    await play.publish("docs", orch_x=1)
    await play.sees("read")
    assert play.carries("read") == {"corr_key": "k", "orch_x": 1}
    await play.advance(3601)
    await play.lives("read")


@scenario(crossroads())
async def a_timer_may_win_a_choice(play: Play) -> None:
    await play.start(corr_key="k")
    await play.lives()
    await play.advance(3601)
    await play.sees("chase")
    await play.publish("docs")
    await play.lives("chase")


@scenario(crossroads())
async def a_kept_message_wins_a_choice_at_once(play: Play) -> None:
    await play.publish("docs")
    await play.start(corr_key="k")
    await play.lives("read")


@scenario(crossroads())
async def a_choice_without_a_key_is_an_incident(play: Play) -> None:
    await play.start()
    await play.stands("EXTRACT_VALUE_ERROR")
    await play.resolve(corr_key="k")
    await play.lives()
    await play.advance(3601)
    await play.lives("chase")


@scenario(
    Drawing()
    .start()
    .gateway("eventBased", "choice")
    .catch("docs", message="docs")
    .catch("mail", message="mail")
    .task("read")
    .task("open")
    .end("e1", "e2")
    .flow("begin", "choice", "docs", "read", "e1")
    .flow("choice", "mail", "open", "e2")
)
async def the_second_message_of_a_choice_is_left_for_others(play: Play) -> None:
    await play.start(corr_key="k")
    await play.lives()
    await play.publish("mail")
    await play.sees("open")
    await play.publish("docs")
    await play.start(corr_key="k")
    await play.lives("open", "read")
