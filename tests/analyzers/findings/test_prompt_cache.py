"""What llama-server's prompt cache costs, and when that is worth a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Finding
from tests.analyzers.prompts_saved import MS, SAVED, copied, served
from tests.analyzers.spans import Span


def found(copies: Sequence[Span], **more: Any) -> Finding | None:
    named = {each.id: each for each in analyze(served(copies, **more)).findings}
    return named.get("prompt-cache")


def test_what_is_saved_before_prompts_is_a_finding_with_its_flag() -> None:
    # GIVEN 40 and 20 ms of saving before prompts of 30 ms each
    finding = found(SAVED)
    assert finding is not None
    assert (finding.ns, finding.stage, finding.flag) == (30 * MS, None, "--cache-ram 0")
    # THEN the prompts are done in half the time without it
    assert finding.predicted_gain == pytest.approx(0.5)
    assert "(3.0 GB, 30.0 ms a prompt, not in its own timing)" in finding.text
    assert finding.text.endswith("without it one that comes again is computed anew")


def test_prompts_computed_together_share_the_cost_by_how_many_were_asked_for() -> None:
    """The ubatches of two slots are mixed, and look like fewer prompts than there are."""
    # GIVEN four requests in 151 ms, in which 60 ms go by with saving, and two prompts to be told apart
    finding = found(SAVED, requests=4)
    assert finding is not None
    assert finding.ns == 60 * MS // 4
    # THEN what is gained is a share of the time in which any was open
    assert finding.predicted_gain == pytest.approx(60 / 151)


@pytest.mark.parametrize("sizes", [(-1, -1), (-1, 0)])
def test_a_size_that_is_not_known_is_left_out(sizes: tuple[int, int]) -> None:
    finding = found([copied("save", 10, 50, sizes[0]), copied("save", 95, 115, sizes[1])])
    assert finding is not None
    assert "host memory (30.0 ms a prompt, not in its own timing)" in finding.text


def test_a_hundredth_of_a_prompt_is_not_worth_a_word() -> None:
    # GIVEN 0.5 and 0.7 ms: 0.3 ms of 30 is where a hundredth begins
    small = [copied("save", 10, 10.2, 1000), copied("save", 95, 95.2, 1000)]
    larger = [copied("save", 10, 10.5, 1000), copied("save", 95, 95.7, 1000)]
    assert found(small) is None
    assert found(larger) is not None


def test_no_copies_no_finding() -> None:
    assert found(()) is None


def test_other_programs_copy_states_for_purposes_of_their_own() -> None:
    assert found(SAVED, command=("llama-bench", "-m", "llama-server/model.gguf")) is None


def test_where_a_prompt_was_taken_back_no_flag_is_named() -> None:
    # GIVEN a state that is restored for a prompt of which only the rest is computed
    finding = found([*SAVED, copied("restore", 115, 118, 10**9)])
    assert finding is not None
    assert finding.ns == 30 * MS
    assert (finding.flag, finding.predicted_gain) == (None, None)
    assert finding.text.endswith("; it restored 1 from there")


def test_a_checkpoint_within_a_prompt_is_not_the_prompt_cache() -> None:
    # GIVEN a pause from 80 to 90 in the first prompt, and a state that is saved in it
    assert found([copied("save", 81, 89, 10**9)], pause=20) is None


def test_saving_before_the_window_does_not_count() -> None:
    finding = found(SAVED, window=(30, 151))
    assert finding is not None
    assert finding.ns == (20 + 20) * MS // 2
