"""Processes that are not hollow, on the command line: linted, deployed, verified, examined and reported as such."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.pyzeebe_app import hello
from tests.support.command import Said, verbworker
from tests.support.databases import value
from tests.support.docs_pages import page
from tests.support.doctor_app import EMBEDDED
from tests.support.drawing import Drawing
from tests.support.sessions import dev_session, trail
from tests.support.shop import wait_until

HERE = Path(hello.__file__).parent
APP = ("--app", "hello:registry")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one plain process and nothing else: no verbs, no contracts."""
    (tmp_path / "processes").mkdir()
    shutil.copy(HERE / "hello.bpmn", tmp_path / "processes")
    shutil.copy(HERE / "hello.py", tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.verblint]\nplain = ["processes/*.bpmn"]\n')
    return tmp_path


def run(project: Path, *words: str, dsn: str | None = None, **settings: str) -> Said:
    return verbworker(*words, directory=project, dsn=dsn, **{**EMBEDDED, **settings})


async def test_a_plain_model_is_deployed_as_authored_and_named_as_such(project: Path, dsn: str) -> None:
    said = run(project, "deploy", "processes", *APP, dsn=dsn)
    again = run(project, "deploy", "processes", *APP, "--json", dsn=dsn)

    assert (said.code, said.out) == (0, "hello: deployed, version 1; it is plain, not hollow\n"), said.err
    (row,) = json.loads(again.out)["deployments"]
    assert (row["state"], row["is_hollow"], row["authored_sha256"]) == ("unchanged", False, row["woven_sha256"])
    assert await value(dsn, "SELECT verb FROM verbworker.process_deployment") == "plain"


def test_without_the_setting_the_same_model_is_not_deployed(project: Path, dsn: str) -> None:
    (project / "pyproject.toml").unlink()

    said = run(project, "deploy", "processes", *APP, dsn=dsn)

    assert said.code == 2
    assert "no folder of verb contracts is known" in said.sentence()
    assert "or list models that plain tasks serve under plain in [tool.verblint]" in said.sentence()


def test_the_doctor_says_what_is_not_hollow(project: Path, dsn: str) -> None:
    assert run(project, "deploy", "processes", *APP, dsn=dsn).code == 0

    said = run(project, "doctor", "processes", *APP, "--json", dsn=dsn)

    rows = {row["check"]: row for row in json.loads(said.out)}
    assert said.code == 0, said.out
    assert "1 plain tasks for processes that are not hollow" in rows["application"]["found"]
    assert rows["model hello"]["found"].endswith("it is plain, not hollow")
    assert "is not hollow: plain tasks serve it" in rows["process hello"]["found"]
    assert (rows["verbs"]["verdict"], rows["process hello"]["verdict"]) == ("ok", "ok")


def test_the_doctor_misses_a_plain_task(project: Path, dsn: str) -> None:
    assert run(project, "deploy", "processes", *APP, dsn=dsn).code == 0
    code = (project / "hello.py").read_text().replace('"hello.greet"', '"hello.meet"')
    (project / "hello.py").write_text(code)

    said = run(project, "doctor", *APP, "--json", dsn=dsn)

    rows = {row["check"]: row for row in json.loads(said.out)}
    assert said.code == 1
    assert rows["verb hello.greet"]["found"].startswith("no plain task of this registry serves greet of hello")


async def test_a_plain_process_is_started_by_its_id_and_has_no_entry(project: Path, dsn: str) -> None:
    assert run(project, "deploy", "processes", *APP, dsn=dsn).code == 0

    said = run(project, "start-plain", "hello", "--variables", '{"name": "Ada"}', dsn=dsn)
    missing = run(project, "start-plain", "nothing", dsn=dsn)
    wrong = run(project, "start-plain", "hello", "--variables", "[1]", dsn=dsn)

    assert said.code == 0, said.err
    assert "hello version 1: instance " in said.out
    assert said.out.endswith("started; it is plain, so it has no entry in the runbook\n")
    assert (missing.code, wrong.code) == (1, 1)
    assert "no process nothing is deployed" in missing.sentence()
    assert wrong.sentence() == "verbworker: the variables are not a JSON object"
    assert await value(dsn, "SELECT count(*) FROM verbworker.runbook_entry") == 0


def test_dev_says_how_many_plain_tasks_it_serves_and_how_to_start_their_process(project: Path) -> None:
    with trail() as found, dev_session(project, found, app=(*APP, "--processes", "processes")) as session:
        session.until("verbworker incidents list")
        started = run(project, "start-plain", "hello", "--variables", '{"name": "Ada"}', **session.settings())
        done = ("frames", "list", "--state", "completed", "--json")
        wait_until(lambda: json.loads(run(project, *done, **session.settings()).out), "the task never ran")
        (row,) = json.loads(run(project, *done, **session.settings()).out)

    assert "serving 1 plain task; saved changes reload automatically" in session.said
    assert "  verbworker start-plain hello --variables '{...}'\n" in session.said
    assert (started.code, row["verb"]) == (0, "hello.greet")
    assert "runbook list" not in session.said  # a plain process has no entry there


def test_the_application_of_the_pyzeebe_page_runs_under_dev(tmp_path: Path) -> None:
    shown = page("how-to/migrate-from-pyzeebe.md")
    for block in shown.blocks:
        if block.is_file:
            block.write(tmp_path)
    (served,) = [shlex.split(line) for line in shown.lines if line.startswith("verbworker dev ")]
    (started,) = [shlex.split(line) for line in shown.lines if line.startswith("verbworker start-plain ")]

    with trail() as found, dev_session(tmp_path, found, app=served[2:]) as session:
        session.until("verbworker incidents list")
        said = run(tmp_path, *started[1:], **session.settings())
        done = ("frames", "list", "--state", "completed", "--json")
        wait_until(lambda: len(json.loads(run(tmp_path, *done, **session.settings()).out)) == 2, "the tasks never ran")
        stopped = run(tmp_path, "start-plain", "orders", "--variables", '{"order": 1}', **session.settings())
        listed = ("incidents", "list", "--json")
        wait_until(
            lambda: json.loads(run(tmp_path, *listed, **session.settings()).out)["incidents"], "nothing was listed"
        )

    assert (said.code, stopped.code) == (0, 0), said.err
    assert "orders: deployed, version 1; it is plain, not hollow" in session.said


async def test_a_plain_process_that_stops_between_tasks_is_an_incident(project: Path, dsn: str) -> None:
    drawing = Drawing("stops").start().gateway("exclusive", "choice", default="choice_l").task("l").task("r").end()
    drawing.flow("begin", "choice", "l", "end").flow("choice", "r", when="=price > 1").flow("r", "end")
    (project / "processes" / "hello.bpmn").write_bytes(drawing.xml())
    assert run(project, "deploy", "processes", *APP, dsn=dsn).code == 0
    assert run(project, "start-plain", "stops", dsn=dsn).code == 0

    (row,) = json.loads(run(project, "incidents", "list", "--json", dsn=dsn).out)["incidents"]
    shown = run(project, "incidents", "show", str(row["which"]), dsn=dsn)
    resolved = run(project, "incidents", "resolve", str(row["which"]), "--reason", "again", dsn=dsn)

    assert (row["element_id"], row["kind"], row["entry_id"]) == ("choice", "EXTRACT_VALUE_ERROR", None)
    assert (shown.code, resolved.code) == (0, 1), resolved.err
    (again,) = json.loads(run(project, "incidents", "list", "--json", dsn=dsn).out)["incidents"]
    assert again["which"] != row["which"]  # the variable is still missing


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("=sum(prices) > 1", "the condition calls sum(...)"),
        ("=price * 2 > 1", "the condition computes `price * ...`"),
    ],
)
def test_what_the_embedded_engine_does_not_run_is_refused_with_its_place(
    project: Path, dsn: str, condition: str, why: str
) -> None:
    drawing = Drawing("odd").start().gateway("exclusive", "choice", default="choice_end").end("end", "e2")
    drawing.flow("begin", "choice", "end").flow("choice", "e2", when=condition, id="odd_way")
    (project / "processes" / "hello.bpmn").write_bytes(drawing.xml())

    said = run(project, "deploy", "processes", *APP, dsn=dsn)

    assert said.code == 1
    assert re.search(r"odd\.bpmn:\d+: the condition of 'odd_way' is ", said.sentence()), said.sentence()
    assert f"which the embedded engine does not run ({why})" in said.sentence()
    assert said.sentence().endswith("or use Zeebe (VERBWORKER_ENGINE=zeebe)")


def test_verify_says_what_is_not_hollow_and_finds_what_nobody_serves(project: Path) -> None:
    served = run(project, "verify", *APP)
    model = project / "processes" / "hello.bpmn"
    model.write_text(model.read_text().replace("hello.greet", "hello.meet"))
    unserved = run(project, "verify", *APP)

    assert (served.code, "processes/hello.bpmn is plain, not hollow" in served.err) == (0, True), served.err
    assert unserved.code == 1
    assert "hello.meet, and no verb of that name is registered" in unserved.out


def test_the_report_counts_what_is_left_to_change(project: Path) -> None:
    told = run(project, "migrate", "report", "processes", *APP)
    shutil.copy(HERE / "orders.bpmn", project / "processes")
    both = run(project, "migrate", "report", "processes", "--json")

    assert told.code == 1
    assert told.out.splitlines()[-1] == "processes/hello.bpmn is not hollow: 2 to change (process 1, task 1)"
    report = json.loads(both.out)
    assert (both.code, report["total"]) == (1, 15)
    assert report["counts"] == {"process": 2, "task": 9, "mapping": 3, "condition": 1}
    assert [model["file"] for model in report["models"]] == ["processes/hello.bpmn", "processes/orders.bpmn"]


def test_a_report_on_nothing_could_not_run(project: Path) -> None:
    missing = run(project, "migrate", "report", "nowhere")
    (project / "processes" / "hello.bpmn").write_text("<")
    broken = run(project, "migrate", "report", "processes")

    assert (missing.code, broken.code) == (2, 2)
    assert "nowhere" in missing.sentence()
    assert "processes/hello.bpmn cannot be read" in broken.sentence()


def test_hollow_models_have_nothing_left_to_change() -> None:
    said = run(Path.cwd(), "migrate", "report", "processes", "--app", "verbs:registry")

    assert (said.code, said.err) == (0, "")
    assert "processes/kyc-open-case/process.bpmn is hollow" in said.out


def test_plain_tasks_are_listed_as_such(project: Path) -> None:
    said = run(project, "verbs", "list", "processes", *APP, "--json")

    (card,) = json.loads(said.out)
    assert (card["verb"], card["kind"], card["policy"]) == ("hello.greet", "plain task", "the model's retries")
    assert [argument["name"] for argument in card["arguments"]] == ["name"]
