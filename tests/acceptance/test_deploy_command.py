"""`verbworker deploy` as an operator meets it: what is deployed, what is refused, and what is said."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Said, verbworker
from tests.support.databases import empty_database, value
from tests.support.engines import Gateway
from tests.support.models import one_task
from tests.support.ports import LOOPBACK, free_ports
from tests.support.postgres import ForeignPostgres, Postgres
from tests.support.shop import Shop, make_shop
from tests.support.weaving import opened, stripped

ROWS = "SELECT count(*) FROM verbworker.process_deployment"


@pytest.fixture
def shop(tmp_path: Path, unique: Callable[[str], str]) -> Shop:
    """An application with one verb, one model and the linter's settings."""
    shop = make_shop(tmp_path, unique("x").removeprefix("x-"))
    (tmp_path / "pyproject.toml").write_text('[tool.verblint]\nverbs = "contracts"\nengine = "8.6"\n')
    draw(shop, one_task(shop.process, shop.verb))
    return shop


def draw(shop: Shop, model: bytes, name: str = "order") -> Path:
    """Put a model into the application's folder of processes."""
    file = shop.folder / "processes" / name / "process.bpmn"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(model)
    return file


def with_gate(shop: Shop, mark: str) -> bytes:
    """Return the model with a user task before its end."""
    gate = f"""<bpmn:userTask id="review"><bpmn:extensionElements>{mark}</bpmn:extensionElements></bpmn:userTask>
    <bpmn:sequenceFlow id="reviewed" sourceRef="review" targetRef="end"/>"""
    drawn = one_task(shop.process, shop.verb).replace(b'targetRef="end"/>', b'targetRef="review"/>')
    return drawn.replace(b'<bpmn:endEvent id="end"/>', gate.encode() + b'<bpmn:endEvent id="end"/>')


def deploy(shop: Shop, *options: str, address: str = "", dsn: str | None = None, **settings: str) -> Said:
    """Run `verbworker deploy processes` in the application's folder."""
    words = options if any(not option.startswith("-") for option in options[:1]) else ("processes", *options)
    given = {"VERBWORKER_ENGINE_ID": shop.process, **({"ZEEBE_ADDRESS": address} if address else {}), **settings}
    return verbworker("deploy", *words, "--app", "shop:registry", directory=shop.folder, dsn=dsn, **given)


def nobody() -> str:
    """An address where nothing answers."""
    (port,) = free_ports(1)
    return f"{LOOPBACK}:{port}"


@pytest.mark.zeebe
class TestDeployed:
    """On a real engine and a real database."""

    @pytest.mark.req("ADP-01", "VER-02", "COR-07")
    async def test_a_model_is_deployed_and_recorded_with_its_hashes(
        self, shop: Shop, dsn: str, broker: Gateway
    ) -> None:
        said = deploy(shop, "--json", "--by", "ann", address=broker.address, dsn=dsn)
        (row,) = json.loads(said.out)["deployments"]
        authored = (shop.folder / "processes/order/process.bpmn").read_bytes()
        woven = await value(dsn, "SELECT woven FROM verbworker.process_deployment")

        assert (said.code, row["state"], row["version"], row["verb"]) == (0, "deployed", 1, "shop.order")
        assert (row["authored_sha256"], row["woven_sha256"]) == (
            sha256(authored).hexdigest(),
            sha256(woven).hexdigest(),
        )
        assert stripped(woven) == opened(authored)
        assert await value(dsn, "SELECT deployed_by FROM verbworker.process_deployment") == "ann"
        key = await value(dsn, "SELECT definition_key FROM verbworker.process_deployment")
        assert row["definition_key"] == key

    async def test_the_same_bytes_again_are_unchanged_and_nothing_is_recorded(
        self, shop: Shop, dsn: str, broker: Gateway
    ) -> None:
        first = deploy(shop, address=broker.address, dsn=dsn)
        second = deploy(shop, str(shop.folder / "processes/order/process.bpmn"), address=broker.address, dsn=dsn)

        assert (first.code, first.out) == (0, f"{shop.process}: deployed, version 1\n")
        assert (second.code, second.out) == (0, f"{shop.process}: unchanged, version 1\n")
        assert await value(dsn, ROWS) == 1

    async def test_other_bytes_are_the_next_version(self, shop: Shop, dsn: str, broker: Gateway) -> None:
        deploy(shop, address=broker.address, dsn=dsn)
        draw(shop, one_task(shop.process, shop.verb).replace(b'id="begin"', b'id="begin" name="An order came"'))
        said = deploy(shop, address=broker.address, dsn=dsn)

        assert (said.code, said.out) == (0, f"{shop.process}: deployed, version 2\n")
        assert await value(dsn, ROWS) == 2

    def test_warnings_are_shown_and_pass(self, shop: Shop, dsn: str, broker: Gateway) -> None:
        (shop.folder / "pyproject.toml").write_text(
            '[tool.verblint]\nverbs = "contracts"\nengine = "8.6"\nservice-tasks = 0\n'
        )
        said = deploy(shop, address=broker.address, dsn=dsn)

        assert said.code == 0
        assert "HB601" in said.out
        assert said.out.endswith(f"{shop.process}: deployed, version 1\n")

    @pytest.mark.req("LNT-07")
    async def test_what_the_engine_refuses_is_shown_with_the_engines_reason(
        self, shop: Shop, dsn: str, broker: Gateway
    ) -> None:
        # A rule that is switched off lets pass what the engine does not take.
        (shop.folder / "pyproject.toml").write_text('[tool.verblint]\nverbs = "contracts"\nignore = ["HB409"]\n')
        definition = f'<zeebe:taskDefinition type="{shop.verb}" retries="3"/>'.encode()
        draw(shop, one_task(shop.process, shop.verb).replace(definition, b""))
        said = deploy(shop, "--json", address=broker.address, dsn=dsn)
        (row,) = json.loads(said.out)["deployments"]

        assert (said.code, row["state"]) == (1, "refused")
        assert "INVALID_ARGUMENT" in row["reason"]
        assert row["reason"] in said.err
        assert "Traceback" not in said.err
        assert await value(dsn, ROWS) == 0

    @pytest.mark.parametrize(
        ("engine", "task", "what"),
        [
            ("8.8", "<zeebe:userTask/>", "has task listeners, which need engine 8.8"),
            ("8.10", "", "has a cancel listener, which needs engine 8.10"),
        ],
    )
    async def test_a_model_for_a_later_engine_is_refused_before_it_is_sent(
        self, shop: Shop, dsn: str, broker: Gateway, engine: str, task: str, what: str
    ) -> None:
        (shop.folder / "pyproject.toml").write_text(f'[tool.verblint]\nverbs = "contracts"\nengine = "{engine}"\n')
        draw(shop, with_gate(shop, task) if task else one_task(shop.process, shop.verb))
        said = deploy(shop, "--json", address=broker.address, dsn=dsn)
        (row,) = json.loads(said.out)["deployments"]

        assert (said.code, row["state"]) == (1, "refused")
        assert row["reason"] == (
            f'the cluster is Zeebe 8.6.0, and the woven model {what}; set engine = "8.6" in [tool.verblint], run'
            " verblint check --fix, and deploy again"
        )
        assert row["reason"] in said.err
        assert await value(dsn, "SELECT count(*) FROM verbworker.deployment_request") == 0

    async def test_a_recreated_cluster_is_told_by_its_keys(self, shop: Shop, dsn: str, broker: Gateway) -> None:
        deploy(shop, address=broker.address, dsn=dsn)
        forget = "UPDATE verbworker.process_deployment SET woven = 'x', woven_sha256 = sha256('x') RETURNING 1"
        await value(dsn, forget)
        said = deploy(shop, address=broker.address, dsn=dsn)

        assert said.code == 2
        assert "a recreated cluster needs another engine id" in said.sentence()

    def test_a_database_that_is_away_keeps_the_engine_as_it_is(self, shop: Shop, dsn: str, broker: Gateway) -> None:
        away = deploy(shop, address=broker.address, dsn="postgresql://u:secret@127.0.0.1:1/x")
        after = deploy(shop, address=broker.address, dsn=dsn)

        assert (away.code, "cannot be reached" in away.sentence(), "secret" in away.err) == (2, True, False)
        assert after.out == f"{shop.process}: deployed, version 1\n"


@pytest.mark.req("LNT-07")
async def test_one_error_of_the_linter_keeps_every_model_from_the_engine(shop: Shop, dsn: str) -> None:
    draw(shop, one_task(shop.process, "shop.unknown"), "wrong")
    said = deploy(shop, address=nobody(), dsn=dsn)

    assert said.code == 1
    assert "HB401" in said.out
    assert await value(dsn, ROWS) == 0


def test_findings_are_json_when_asked(shop: Shop) -> None:
    draw(shop, one_task(shop.process, "shop.unknown"))
    said = deploy(shop, "--json")
    told: dict[str, Any] = json.loads(said.out)

    assert (said.code, told["deployments"]) == (1, [])
    assert {finding["severity"] for finding in told["lint"]["findings"]} >= {"error"}


def test_an_engine_that_is_away_is_one_sentence(shop: Shop, dsn: str) -> None:
    said = deploy(shop, address=nobody(), dsn=dsn)

    assert (said.code, "DeployResource" in said.sentence()) == (2, True)


def test_a_dry_run_writes_the_woven_model_and_needs_neither_engine_nor_database(shop: Shop) -> None:
    said = deploy(shop, "--dry-run", "--out", "out", VERBWORKER_ENGINE_ID="")
    authored = (shop.folder / "processes/order/process.bpmn").read_bytes()
    written = (shop.folder / "out" / f"{shop.process}.bpmn").read_bytes()

    assert (said.code, said.err) == (0, "")
    assert said.out == f"{shop.process}: written to out/{shop.process}.bpmn, not deployed\n"
    assert b"verbworker.complete" in written
    assert stripped(written) == opened(authored)


def test_a_dry_run_of_one_model_prints_it(shop: Shop) -> None:
    deploy(shop, "--dry-run", "--out", "out")
    said = deploy(shop, "--dry-run")

    assert said.code == 0
    assert said.out.encode() == (shop.folder / "out" / f"{shop.process}.bpmn").read_bytes()


def test_a_woven_model_is_not_deployed_again(shop: Shop) -> None:
    deploy(shop, "--dry-run", "--out", "out")
    said = deploy(shop, "out", "--json")
    (refusal,) = json.loads(said.out)["refusals"]

    assert (said.code, "deploy the authored file" in refusal) == (1, True)
    assert said.sentence() == f"verbworker: {refusal}"


def test_a_baseline_is_honoured_as_the_linter_does(shop: Shop) -> None:
    draw(shop, one_task(shop.process, "shop.unknown"))
    base = '[tool.verblint]\nverbs = "contracts"\nengine = "8.6"\n'
    verbworker("lint", "processes", "--write-baseline", "known.json", directory=shop.folder)
    (shop.folder / "pyproject.toml").write_text(base + 'baseline = "known.json"\n')

    assert deploy(shop, "--dry-run", "--out", "out").code == 0


def test_two_models_of_one_process_are_refused(shop: Shop) -> None:
    draw(shop, one_task(shop.process, shop.verb), "twin")
    said = deploy(shop, "--dry-run", "--out", "out")

    assert said.code == 1
    assert f"the process {shop.process} is also in processes/order/process.bpmn" in said.sentence()
    assert not (shop.folder / "out").exists()


@pytest.mark.req("REG-24")
def test_a_process_that_the_registry_does_not_own_is_refused(shop: Shop) -> None:
    # The contract has it, and the application that was named does not.
    (shop.folder / "bare.py").write_text("from verbworker import Registry\nregistry = Registry()\n")
    said = verbworker("deploy", "processes", "--app", "bare:registry", "--dry-run", directory=shop.folder)

    assert (said.code, "no verb of that name is registered" in said.sentence()) == (1, True)


CANNOT: dict[str, tuple[list[str], str, str]] = {
    "no such file": (["no.bpmn"], "", "no.bpmn: No such file or directory"),
    "an empty folder": (["contracts"], "", "the folder holds no .bpmn file"),
    "no contracts": ([], "[project]\nname = 'x'\n", "pass --verbs or set verbs in [tool.verblint]"),
    "a wrong setting": ([], "[tool.verblint]\nverbz = 'contracts'\n", "has no setting verbz"),
    "a folder that is not there": (["processes", "--verbs", "nowhere"], "", "there is no such folder"),
    "no baseline": ([], '[tool.verblint]\nverbs = "contracts"\nbaseline = "no.json"\n', "cannot be read"),
    "a folder for nothing": (["processes", "--out", "out"], "", "pass --dry-run too"),
    "a folder that is a file": (["processes", "--dry-run", "--out", "shop.py"], "", "--out shop.py: File exists"),
    "no place for JSON": (["processes", "--dry-run", "--json"], "", "pass --out with a folder"),
    "no engine id": ([], "", "no engine id is set"),
}


@pytest.mark.parametrize(("options", "project", "words"), CANNOT.values(), ids=CANNOT)
def test_what_cannot_run_is_one_sentence_and_exit_code_two(
    options: list[str], project: str, words: str, shop: Shop, dsn: str
) -> None:
    if project:
        (shop.folder / "pyproject.toml").write_text(project)
    said = deploy(shop, *options, dsn=dsn, VERBWORKER_ENGINE_ID="")

    assert said.code == 2
    assert words in said.sentence()


def test_wrong_contracts_are_shown_with_their_lines(shop: Shop) -> None:
    contract = shop.folder / "contracts" / "order.yaml"
    # The linter's own copy of the contracts is wrong, and the application's is not.
    (shop.folder / "other").mkdir()
    (shop.folder / "other" / "order.yaml").write_text(contract.read_text() + "tide: high\n")
    said = deploy(shop, "processes", "--verbs", "other", "--dry-run")

    assert said.code == 2
    assert "the verb contracts have 1 fault" in said.err
    assert "tide" in said.err


def test_an_unmigrated_database_is_refused_with_the_command_that_helps(
    shop: Shop, postgres: Postgres | ForeignPostgres
) -> None:
    with empty_database(postgres.dsn) as dsn:
        said = deploy(shop, address=nobody(), dsn=dsn)

    assert (said.code, "run: verbworker db migrate" in said.sentence()) == (2, True)
