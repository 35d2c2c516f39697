"""What a red run leaves behind: the plan, the faults, the findings, and everything known of each entry concerned."""

import json
from dataclasses import asdict
from pathlib import Path

from tests.faults.run import Run, Verdict

_ABOUT = {
    "entry": "SELECT * FROM verbworker.runbook_entry WHERE entry_id = $1",
    "events": "SELECT * FROM verbworker.runbook_event WHERE entry_id = $1 ORDER BY seq",
    "instances": "SELECT * FROM verbworker.workflow_instance WHERE entry_id = $1",
    "dispatch": "SELECT * FROM verbworker.dispatch WHERE entry_id = $1",
    "waits": "SELECT * FROM verbworker.parked_token WHERE entry_id = $1 ORDER BY opened_at",
    "frames": """
        SELECT frame.*, boot.name AS owner_name, boot.pid AS owner_pid FROM verbworker.job_frame AS frame
        LEFT JOIN verbworker.worker_boot AS boot ON boot.owner = frame.owner
        WHERE frame.entry_id = $1 ORDER BY frame.pushed_at""",
    "frame_events": """
        SELECT event.* FROM verbworker.frame_event AS event
        JOIN verbworker.job_frame AS frame USING (engine_id, job_key) WHERE frame.entry_id = $1 ORDER BY event.at""",
    "deliveries": """
        SELECT delivery.* FROM verbworker.job_delivery AS delivery
        JOIN verbworker.workflow_instance AS instance USING (instance_uid) WHERE instance.entry_id = $1""",
    "decisions": "SELECT * FROM verbworker.gate_decision WHERE entry_id = $1",
    "effects": "SELECT * FROM parcel_effect WHERE entry_id = $1 ORDER BY at",
}
_MOST = 60


async def write_evidence(run: Run, verdict: Verdict, folder: Path) -> None:
    """Write everything into a folder."""
    _write(folder / "plan.json", asdict(run.plan))
    _write(folder / "faults.json", [asdict(made) for made in run.nemesis.made])
    _write(folder / "deaths.json", [asdict(death) for death in verdict.deaths])
    _write(folder / "heard.json", {number: asdict(heard) for number, heard in run.driver.heard.items()})
    lines = [f"{one.kind}: {one.entry}: {one.text}" for one in verdict.findings]
    lines += [f"death: {death.name}: {death.reason}" for death in verdict.deaths]
    _write(folder / "findings.json", [*lines, *verdict.notes, verdict.line()])
    calls = await run.site.provider_calls()
    for number in list(dict.fromkeys(one.entry for one in verdict.findings))[:_MOST]:
        entry_id = run.world.seen.entry_id.get(number)
        if entry_id is not None:
            known = {name: [dict(row) for row in await run.world.query(sql, entry_id)] for name, sql in _ABOUT.items()}
            known["provider"] = [call for call in calls if call["entry"] == entry_id]
            known["planned"] = [asdict(one) for one in run.plan.entries if one.number == number]
            _write(folder / f"entry-{number}.json", known)


def _write(file: Path, content: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1, default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode(errors="replace") if len(value) < 2000 else f"{len(value)} bytes"
    return sorted(value) if isinstance(value, set | frozenset) else str(value)
