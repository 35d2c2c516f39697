"""Generated models at the linter: `python -m tests.security.fuzz.models --models 10000 --seed 18`.

Sound models of every size, the same with bytes changed, and the worst models of `worst_models.py`. Exits 1 for a model
that takes longer than the limit in processor time, or ends the linter otherwise than by a report.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from random import Random

from tests.security.hostile_names import NAMES
from tests.security.worst_models import MODELS
from tests.support.model_source import ModelSource
from verblint.linter import lint

LIMIT_S = 1.0  # the longest that a person waits for a check without doubt; 20 s was the finding
_WORST = 2_000  # the largest size of a worst model: 100 to 500 KB


def generated(count: int, seed: int) -> Iterator[bytes]:
    """Yield so many models: of ten, five bent, two worst, one with hostile names, two sound."""
    chance, source = Random(seed), ModelSource(seed)
    words = [name.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")[:500] for name in NAMES.values()]
    for number, sound in enumerate(source.sized(count)):
        match number % 10:
            case 0 | 1 | 2 | 3 | 4:
                yield bend(sound, chance)
            case 5 | 6:
                yield chance.choice(list(MODELS.values()))(int(chance.uniform(1, _WORST**0.5) ** 2))
            case 7:
                yield sound.replace(b'name="', b'name="' + chance.choice(words).encode("utf-8", "replace"))
            case _:
                yield sound


def bend(model: bytes, chance: Random) -> bytes:
    """Return a model with some of its bytes or elements changed."""
    content = bytearray(model)
    for _ in range(chance.randrange(1, 12)):
        at = chance.randrange(len(content))
        match chance.randrange(6):
            case 0:
                content[at] = chance.randrange(256)
            case 1:
                del content[at : at + chance.randrange(1, 60)]
            case 2:
                content[at:at] = content[at : at + chance.randrange(1, 400)]
            case 3:
                content[at:at] = chance.choice((b"&x;", b"]]>", b"<!--", b"<a>", b"</a>", b' a="', b"<![CDATA["))
            case 4:
                place = content.find(b'Ref="', at)
                if place >= 0:
                    content[place + 5 : place + 6] = b"x"
            case _:
                place = content.find(b"<bpmn:", at)
                if place >= 0:
                    content[place + 6 : place + 7] = b"S"
    return bytes(content)


def main(arguments: list[str] | None = None) -> int:
    """Run the attack; return 1 if it did not hold."""
    parser = argparse.ArgumentParser(prog="tests.security.fuzz.models")
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=18)
    asked = parser.parse_args(arguments)
    slowest, total, late, crashed, findings = 0.0, 0.0, 0, 0, 0
    for content in generated(asked.models, asked.seed):
        began = time.process_time()
        report = lint(content)
        spent = time.process_time() - began
        findings += len(report.findings)
        # A rule that fails is a finding of its own and a bug of ours.
        crashed += any(one.code == "HB099" for one in report.findings) or bool(report.problems)
        late += spent > LIMIT_S
        slowest, total = max(slowest, spent), total + spent
    print(f"models={asked.models} seed={asked.seed} cpu={total:.0f}s mean={total / asked.models * 1000:.1f}ms")
    print(
        f"slowest={slowest * 1000:.0f}ms limit={LIMIT_S * 1000:.0f}ms late={late} crashed={crashed} findings={findings}"
    )
    held = late == 0 and crashed == 0
    print("held" if held else "did not hold")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
