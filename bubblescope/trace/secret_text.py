"""What in a text must not leave the machine, and what stands in its place.

No rule changes what a rule wrote, so that redacting twice is redacting once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

MARK = "[redacted]"
_USER = "user"
#: What one rule writes may let another hold; so many rounds are never needed.
_MOST_ROUNDS = 8

#: A field of this name holds a secret, or what a user wrote.
SECRET_NAME = re.compile(
    r"(?i:(?:^|.*[-_.])(?:api[-_]?key|access[-_]?key|private[-_]?key|token|passw(?:or)?d|secret|credentials?"
    r"|authorization)|.*(?:apikey|password))"
)
PROMPT_NAME = re.compile(r"(?i:(?:input_|prompt_)?(?:prompts?|messages?|content|text|inputs?))")
#: The word after such a word of a command is a secret, what a user wrote, or a host.
SECRET_FLAG = re.compile(r"(?i:--?[\w-]{0,40}?(?:api[-_]?key|token|passw(?:or)?d|secret|credentials?))")
PROMPT_FLAG = re.compile(r"(?i:--(?:prompt|messages?|content|text|input))|-p")
HOST_FLAG = re.compile(r"(?i:--(?:master[-_]addr|host|node[-_]ip|dist[-_]init[-_]addr|[\w-]+[-_]address))")

_QUOTED = r""""(?:[^"\\]|\\.)*(?:"|\Z)|'(?:[^'\\]|\\.)*(?:'|\Z)"""
_NO_NUMBER = r"(?![-+.\d]+(?:[,;)\]}]|\Z))"
_BARE = r"""[^\s"',;&|<>(){}\[\]]+"""

#: A word of a command that is nothing but letters and digits, or such a value of an option.
_LETTERS_AND_DIGITS = re.compile(r"(?:--?[\w-]{1,60}=)?(?P<value>[A-Za-z0-9]{20,})")
_CHANGE = re.compile(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
#: So often such a word changes between the two, if it is random and no name.
_FEWEST_CHANGES = 4
#: The word after these is a public number that looks random.
PUBLIC_FLAG = re.compile(r"(?i:--[\w-]{0,40}(?:revision|commit|hash))")


@dataclass(frozen=True)
class _Rule:
    """kind: in words; pattern: its group `value` is what is taken out if `holds` of it."""

    kind: str
    pattern: re.Pattern[str]
    holds: Callable[[str], bool] = bool
    mark: str = MARK


def is_words(value: str) -> bool:
    """Whether a value is text and not a number, a switch or nothing."""
    return not re.fullmatch(r"[-+.,\deE]*|true|false|none|null", value, re.IGNORECASE)


def random_word(word: str) -> str | None:
    """What looks random in a word of a command, as keys do after an option of whatever name."""
    found = _LETTERS_AND_DIGITS.fullmatch(word)
    if found is None or PUBLIC_FLAG.fullmatch(word.partition("=")[0]):
        return None
    value = found["value"]
    return value if len(_CHANGE.findall(value)) >= _FEWEST_CHANGES else None


def _looks_random(value: str) -> bool:
    return len(value) >= 16 and bool(re.search(r"\d", value)) and bool(re.search("[A-Za-z]", value))


def _after(names: str, value: str = f"{_QUOTED}|{_BARE}") -> re.Pattern[str]:
    """A value after one of the names and a colon or an equals sign, as code, JSON and shells write it."""
    return re.compile(
        rf"(?i:(?<![A-Za-z0-9])(?:\w{{0,40}}[-_])?(?:{names})[\"']?\s*[=:]\s*)(?P<value>{value})"
    )


def _variable(ends: str) -> re.Pattern[str]:
    """The value of an environment variable whose name ends so."""
    return re.compile(rf"\b(?:[A-Z][A-Z0-9_]{{0,60}})?(?:{ends})=(?P<value>{_QUOTED}|{_BARE})")


def _after_flag(flag: re.Pattern[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{flag.pattern})[= ](?P<value>{_QUOTED}|{_BARE})")


_RULES = (
    _Rule("URL credentials", re.compile(r"://(?P<value>[^\s/@\"'<>]+)@")),
    _Rule("secrets after a flag", _after_flag(SECRET_FLAG)),
    _Rule("secrets in the environment", _variable("PASSWORD|PASSWD|SECRET")),
    _Rule("secrets in the environment", _variable("KEY|TOKEN|CREDENTIALS?"), is_words),
    _Rule("secrets after a name", _after(r"passw(?:or)?d|secret|pass")),
    _Rule("secrets after a name", _after(r"api[-_]?key|credentials?"), is_words),
    _Rule("secrets after a name", _after(r"key|token"), _looks_random),
    _Rule("bearer tokens", re.compile(r"(?i:\bbearer|\bauthorization:\s*basic)\s+(?P<value>[\w.~+/=-]{8,})")),
    _Rule("prompt text", _after("prompts?|messages?|content|text|inputs?", _QUOTED)),
    _Rule("prompt text", _after("prompts?|messages", rf"{_NO_NUMBER}{_BARE}[^\n]*"), is_words),
    _Rule("prompt text", _after_flag(PROMPT_FLAG), is_words),
    _Rule(
        "API keys",
        re.compile(
            r"(?<![A-Za-z0-9])(?P<value>sk-(?=[\w-]{0,99}\d)[\w-]{12,}|hf_[A-Za-z0-9]{16,}|A(?:KIA|SIA)[0-9A-Z]{16}"
            r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}"
            r"|nvapi-[\w-]{16,}|AIza[\w-]{30,}|eyJ[\w-]{8,999}\.[\w-]{8,}\.[\w-]+)"
        ),
    ),
    _Rule(
        "home folders", re.compile(r"(?:/home/|/Users/|:\\+Users\\+)(?P<value>[^/\\\s\"':,;]+)"), mark=_USER
    ),
)


def without_secrets(text: str, taken: Counter[str]) -> str:
    """The text with marks in place of secrets; `taken` counts them by kind."""
    for _ in range(_MOST_ROUNDS):
        before = text
        for rule in _RULES:
            text = _applied(rule, text, taken)
        if text == before:
            break
    return text


def _applied(rule: _Rule, text: str, taken: Counter[str]) -> str:
    def replaced(match: re.Match[str]) -> str:
        value = match["value"]
        quote = value[0] if value[0] in "\"'" else ""
        bare = value.strip(quote) if quote else value
        if bare.startswith(MARK) or bare == rule.mark or not rule.holds(bare):
            return match.group()
        taken[rule.kind] += 1
        begin, end = match.start("value") - match.start(), match.end("value") - match.start()
        return match.group()[:begin] + quote + rule.mark + quote + match.group()[end:]

    return rule.pattern.sub(replaced, text)
