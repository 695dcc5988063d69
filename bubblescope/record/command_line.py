"""Which engine a command line starts, also behind wrappers, interpreters, shells and scripts."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from itertools import pairwise

#: Python packages, and the engine that a program or module of that name starts.
_PACKAGES = {
    "vllm": "vllm", "sglang": "sglang", "llama_cpp": "llama.cpp", "bubblescope.demo": "bubblescope-demo",
}  # fmt: skip
_LLAMACPP = re.compile(r"llama-[\w-]+|(ggml-)?rpc-server")
_PYTHON = re.compile(r"(python|pypy)[\d.]*t?")
_SHELL = re.compile(r"(ba|da|z|k)?sh")
_TORCHRUN = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
#: Programs that run another one, with their options that take the next word.
_WRAPPERS = {
    "env": ("-u", "--unset", "-C", "--chdir"), "sudo": ("-u", "-g"), "nohup": (), "setsid": (), "exec": (),
    "time": ("-o", "-f"), "timeout": ("-k", "-s", "--kill-after", "--signal"), "nice": ("-n",),
    "ionice": ("-c", "-n"), "stdbuf": ("-i", "-o", "-e"), "taskset": (), "numactl": (), "uv": (),
}  # fmt: skip
#: What stands between a wrapper and its command: assignments, times, CPU masks, verbs.
_OPERAND = re.compile(r"\w+=.*|[\da-fx.,:-]+[smhd]?|run", re.DOTALL)
_IMPORT = re.compile(r"(?:^|;)[ \t]*(?:import|from)[ \t]+(vllm|sglang|llama_cpp)\b", re.MULTILINE)
_DEEPEST = 8
_LONGEST_SCRIPT = 64 << 10


def engine_of(command: Sequence[str]) -> str | None:
    """The engine that a command starts, as `Run.engine` names it, or None."""
    return _engine(command, _DEEPEST)


def is_llama_cpp(word: str) -> bool:
    """Whether a word is the path of a program of llama.cpp."""
    return _LLAMACPP.fullmatch(os.path.basename(word)) is not None


def _engine(words: Sequence[str], depth: int) -> str | None:
    if not words or depth == 0:
        return None
    program, rest = os.path.basename(words[0]), words[1:]
    if program in _PACKAGES:
        return _PACKAGES[program]
    if is_llama_cpp(program):
        return "llama.cpp"
    if program in _WRAPPERS:
        return _engine(_wrapped(rest, _WRAPPERS[program]), depth - 1)
    if _PYTHON.fullmatch(program) or program in _TORCHRUN:
        return _of_python(rest, depth - 1)
    if _SHELL.fullmatch(program):
        return _of_shell(rest, depth - 1)
    return _of_script(words[0], depth - 1)


def _wrapped(words: Sequence[str], with_value: Sequence[str]) -> Sequence[str]:
    at = 0
    while at < len(words) and (words[at].startswith("-") or _OPERAND.fullmatch(words[at])):
        at += 2 if words[at] in with_value else 1
    return words[at:]


def _of_python(words: Sequence[str], depth: int) -> str | None:
    """The engine of an interpreter's or torchrun's arguments: a module, a program text, or a script."""
    for word, following in pairwise([*words, ""]):
        if word == "-m":
            rest = words[words.index(word) + 2 :]
            return _of_python(rest, depth) if following in _TORCHRUN and depth else _of_module(following)
        if word == "-c":
            return _imported(following)
        if word.endswith(".py") or os.path.basename(word) in _PACKAGES:
            return _PACKAGES.get(os.path.basename(word)) or _imported(_start_of(word))
    return None


def _of_module(name: str) -> str | None:
    packages = (package for package in _PACKAGES if f"{name}.".startswith(f"{package}."))
    return _PACKAGES.get(next(packages, ""))


def _of_shell(words: Sequence[str], depth: int) -> str | None:
    for word, following in pairwise([*words, ""]):
        if not word.startswith("-"):
            return _of_script(word, depth)
        if "c" in word and not word.startswith("--"):
            return _of_shell_text(following, depth)
    return None


def _of_script(path: str, depth: int) -> str | None:
    """The engine that a script with a shell's or Python's first line starts."""
    text = _start_of(path)
    first = text.partition("\n")[0]
    if not first.startswith("#!"):
        return None
    interpreter = [os.path.basename(word) for word in first[2:].split()]
    if any(map(_SHELL.fullmatch, interpreter)):
        return _of_shell_text(text, depth)
    return _imported(text) if any(map(_PYTHON.fullmatch, interpreter)) else None


def _of_shell_text(text: str, depth: int) -> str | None:
    """The engine of the first command of a shell's program text that starts one."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        try:
            command: list[str] = []
            for word in [*words, ";"]:
                if set(word) <= set(";&|()"):
                    engine = _engine(_wrapped(command, ()), depth - 1)
                    if engine is not None:
                        return engine
                    command = []
                else:
                    command.append(word)
        except ValueError:  # a quotation over several lines
            continue
    return None


def _imported(text: str) -> str | None:
    found = _IMPORT.search(text)
    return _PACKAGES[found[1]] if found else None


def _start_of(path: str) -> str:
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            return file.read(_LONGEST_SCRIPT).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
