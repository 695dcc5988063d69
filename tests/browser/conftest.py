"""A real browser and real pages for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.report.html.document import to_html
from bubblescope.report.page import page
from bubblescope.trace.model import Trace
from bubblescope.trace.read import read_trace
from tests.browser.chromium import Browser, browser, missing

SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests. Without one they are skipped, but never in CI."""
    lacking = missing()
    if lacking is not None:
        assert "CI" not in os.environ, lacking
        pytest.skip(lacking)
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="session")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of vLLM on two H200: two prefills, split 27,9, in 2302 ms."""
    file = tmp_path_factory.mktemp("pages") / "vllm.html"
    return written(read_trace(SAMPLES / "vllm_h200x2_27_9"), file)


@pytest.fixture(scope="session")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of vLLM on two CPU cores, split 6,2, each layer recorded; in 2151 ms."""
    file = tmp_path_factory.mktemp("pages") / "layers.html"
    return written(read_trace(SAMPLES / "recorded" / "vllm_cpu_6_2_layers.json.gz"), file)


def written(trace: Trace, file: Path) -> Path:
    """Write the page of a recording."""
    analysis = analyze(trace)
    file.write_bytes(to_html(analysis, page(analysis, file.stem)))
    return file
