"""The two interfaces by which servers take token ids and stream tokens back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bubblescope.load.plan import Prompt

#: An object of an answer's stream.
Event = Mapping[str, Any]


@dataclass(frozen=True)
class Interface:
    """How a server is asked, and how its answer is read.

    path: where requests are sent.
    request: what is sent, of model, prompt and how many tokens shall be answered.
    has_token: whether an event of the answer brings a token.
    usage: the counts in an event, as OpenAI's interface names them; empty where it tells none.
    """

    path: str
    request: Callable[[str, Prompt, int], dict[str, Any]]
    has_token: Callable[[Event], bool]
    usage: Callable[[Event], Mapping[str, Any]]


def _asked_openai(model: str, prompt: Prompt, output_tokens: int) -> dict[str, Any]:
    # `rid` names the request to SGLang, which does not look at the header; others pass over it.
    return {
        "model": model, "prompt": prompt.tokens, "max_tokens": output_tokens, "temperature": 0,
        "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}, "rid": prompt.name,
    }  # fmt: skip


def _asked_sglang(model: str, prompt: Prompt, output_tokens: int) -> dict[str, Any]:
    sampling = {"max_new_tokens": output_tokens, "temperature": 0, "ignore_eos": True}
    return {"input_ids": prompt.tokens, "sampling_params": sampling, "stream": True, "rid": prompt.name}


def _used_sglang(event: Event) -> Mapping[str, Any]:
    counts = event.get("meta_info")
    if not counts or not isinstance(counts, Mapping):
        return {}
    return {**counts, "prompt_tokens_details": {"cached_tokens": counts.get("cached_tokens")}}


OPENAI = Interface(
    path="/v1/completions",
    request=_asked_openai,
    has_token=lambda event: bool(event.get("choices")),
    usage=lambda event: event.get("usage") or {},
)

#: SGLang's own: without a tokenizer its OpenAI interface has no text to answer with, and fails.
SGLANG = Interface(
    path="/generate",
    request=_asked_sglang,
    has_token=lambda event: bool(event.get("output_ids")),
    usage=_used_sglang,
)
