"""Our rule for which device holds which layer, held against what llama.cpp logs when it loads a model."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

from bubblescope.analyzers.advice.tensor_split import devices_of_layers
from tests.engines.llamacpp.running import LAYERS, LLAMACPP, PATIENCE_SECONDS, installed, make

pytestmark = installed

_ASSIGNED = re.compile(r"layer +(\d+) assigned to device (\w+)")
DEVICES = 3


def shares(choice: random.Random) -> tuple[float, ...]:
    """Of each device, as people write them: layers, parts of a whole, gigabytes; not all of them 0."""
    largest, digits = choice.choice(((9, 0), (1, 1), (99, 3)))
    found = tuple(round(choice.uniform(0, largest), digits) for _ in range(DEVICES))
    return found if sum(found) else shares(choice)


def test_random_shares_put_the_layers_where_llama_cpp_puts_them(tmp_path: Path) -> None:
    fakes = make(tmp_path)
    choice = random.Random(1)
    for gpu_layers in (99, LAYERS, 5):
        asked = [shares(choice) for _ in range(30)]
        listed = ",".join("/".join(map(str, each)) for each in asked)
        devices = "/".join(f"FAKE{number}" for number in range(DEVICES))
        command = [
            str(LLAMACPP / "bin" / "llama-bench"), "-m", str(fakes.model), "-dev", devices,
            "-ngl", str(gpu_layers), "-ts", listed, "-p", "1", "-n", "0", "-r", "1", "-t", "1",
            "--no-warmup", "-v",
        ]  # fmt: skip
        environment = fakes.environment(tmp_path / "log", (0,) * DEVICES)
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
        )
        found = [(int(layer), name) for layer, name in _ASSIGNED.findall(done.stderr)]
        places = LAYERS + 1
        assert len(found) == places * len(asked)
        for number, each in enumerate(asked):
            named = [name for _, name in found[places * number : places * (number + 1)]]
            expected = [
                "CPU" if at is None else f"FAKE{at}" for at in devices_of_layers(LAYERS, gpu_layers, each)
            ]
            assert named == expected, f"-ngl {gpu_layers} -ts {each}"
