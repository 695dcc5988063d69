"""Memory does not grow with what is thrown away."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bubblescope.trace.read import read_trace
from tests.trace.files import complete, document, kernel

ROOT = Path(__file__).parents[2]
PROGRAM = """
import re, sys
from pathlib import Path
from bubblescope.trace.read import read_trace
assert len(read_trace(sys.argv[1]).slices) == 100
print(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def peak_kilobytes(path: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return int(done.stdout)


@pytest.mark.parametrize("packed", [False, True])
def test_calls_of_the_host_cost_no_memory(tmp_path: Path, packed: bool) -> None:
    # GIVEN two traces with the same hundred kernels, one with fifty times as many Python calls
    call = json.dumps(complete("python_function", "model.py(7): forward " + "x" * 100, 1, 5, 9, 9))
    kernels = ",".join(json.dumps(kernel(i, 1)) for i in range(100))
    peaks = []
    for count in (4_000, 200_000):
        text = f'{{"traceEvents":[{",".join([call] * count)},{kernels}]}}'.encode()
        path = tmp_path / f"{count}.json"
        path.write_bytes(gzip.compress(text, 1) if packed else text)
        peaks.append(peak_kilobytes(path))
    # THEN the big one, of more than 40 MB of text, needs a fraction of that more
    assert len(text) > 40e6
    assert peaks[1] - peaks[0] < 12_000


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "rank0.json"
    os.mkfifo(pipe)
    text = json.dumps(document(kernel(1, 1), kernel(2, 1)))
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    assert len(read_trace(pipe).slices) == 2
    writer.join()
