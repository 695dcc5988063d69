"""What a process says last is kept, and it says it as it would without us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bubblescope.collectors._bubblescope_inject import last_words
from bubblescope.record import plugins
from bubblescope.record.spool import read_spool
from tests.collectors.programs import COLLECTORS

RAISE = "raise ValueError('no such model')"
LOG = """
    import logging
    logging.basicConfig(level="INFO", force=True)
    logger = logging.getLogger("engine")
    logger.warning("not an error")
    try:
        1 / 0
    except ZeroDivisionError:
        logger.exception("EngineCore failed %s", "here")
    """
#: As vLLM sets up its loggers: everything anew, and nothing reaches the root.
LOG_APART = """
    import logging.config
    logging.config.dictConfig({
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"out": {"class": "logging.StreamHandler"}},
        "loggers": {"engine": {"handlers": ["out"], "level": "INFO", "propagate": False}},
    })
    logging.getLogger("engine").error("out of memory")
    """
THREAD = """
    import threading
    thread = threading.Thread(target=lambda: int("x"), name="loader")
    thread.start()
    thread.join()
    """
CHILD = """
    import multiprocessing
    def work():
        raise RuntimeError("worker failed")
    child = multiprocessing.get_context("fork").Process(target=work, name="Worker")
    child.start()
    child.join()
    """
USAGE = """
    import argparse
    parser = argparse.ArgumentParser(prog="serve")
    parser.add_argument("--size", type=int)
    parser.parse_args(["--size", "many"])
    """


def ran(code: str, spool: Path | None, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code as a recorded command, or on its own."""
    path = f"{plugins.write(spool)}{os.pathsep}{COLLECTORS}" if spool is not None else ""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ours = {"PYTHONPATH": path, "BUBBLESCOPE_SPOOL": str(spool)} if spool is not None else {}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *words],
        env={**inherited, **ours, **environment}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def kept(spool: Path) -> list[str]:
    """The errors that were kept, in order of time; none if nothing was written."""
    if not any(spool.glob("*.spool")):
        return []
    facts = [fact for process in read_spool(str(spool))[0] for fact in process.facts.items()]
    assert all(name.startswith(last_words.FACT_PREFIX) for name, _ in facts)
    return [json.loads(text) for _, (_, text) in sorted(facts, key=lambda fact: fact[1][0])]


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (RAISE, "ValueError: no such model"),
        (LOG, "ZeroDivisionError: division by zero"),
        (LOG_APART, "out of memory"),
        (THREAD, "ValueError: invalid literal for int() with base 10: 'x'"),
        (CHILD, "RuntimeError: worker failed"),
        (USAGE, "serve: error: argument --size: invalid int value: 'many'"),
    ],
    ids=["raised", "logged", "logged apart", "thread", "child", "usage"],
)
def test_an_error_is_kept_and_nothing_changes(code: str, end: str, tmp_path: Path) -> None:
    # GIVEN a program that prints an error / WHEN it is recorded
    alone, recorded = ran(code, None), ran(code, tmp_path)
    # THEN it prints the same to the byte, and ends the same
    assert (recorded.returncode, recorded.stdout) == (alone.returncode, alone.stdout)
    assert recorded.stderr == alone.stderr
    # AND the error is there, as its last line says it
    (text,) = kept(tmp_path)
    assert text.splitlines()[-1] == end


def test_what_is_no_error_is_not_kept(tmp_path: Path) -> None:
    done = ran("import logging, sys; logging.warning('slow'); print('x'); sys.exit(3)", tmp_path)
    assert (done.returncode, done.stdout) == (3, "x\n")
    assert kept(tmp_path) == []
    # AND a process that says nothing leaves no file
    assert list(tmp_path.glob("*.spool")) == []


def test_a_message_that_does_not_fit_its_arguments_is_complained_of_as_before(tmp_path: Path) -> None:
    # Logging then prints the stack of the call, without its own frames and without any of ours.
    code = "import logging; logging.getLogger('engine').error('%d', 'many')"
    alone, recorded = ran(code, None), ran(code, tmp_path)
    assert "Call stack:" in alone.stderr
    assert recorded.stderr == alone.stderr


def test_what_the_programs_own_filter_drops_is_not_kept(tmp_path: Path) -> None:
    code = """
        import logging
        logger = logging.getLogger("engine")
        logger.addFilter(lambda record: "secret" not in record.getMessage())
        logger.error("a secret")
        logger.error("no such model")
        """
    assert ran(code, tmp_path).returncode == 0
    assert kept(tmp_path) == ["no such model"]


def test_a_flood_of_errors_keeps_the_first_and_the_last_and_little_else(tmp_path: Path) -> None:
    code = "import logging\nfor number in range(20_000): logging.error('error %d', number)"
    assert ran(code, tmp_path).returncode == 0
    texts = kept(tmp_path)
    assert texts[: last_words.MOST_FIRST] == [f"error {n}" for n in range(last_words.MOST_FIRST)]
    assert len(texts) == last_words.MOST_FIRST + last_words.MOST_LAST
    assert sum(path.stat().st_size for path in tmp_path.glob("*.spool")) < 1_000_000


def test_of_a_long_error_the_end_is_kept(tmp_path: Path) -> None:
    ran("raise ValueError('x' * 1_000_000 + ' the end')", tmp_path)
    (text,) = kept(tmp_path)
    assert text.rstrip().endswith("x the end")
    assert len(text) <= last_words.LONGEST


def test_secrets_are_not_kept(tmp_path: Path) -> None:
    secrets = ("hunter2hunter2", "s3cr3tpassw0rd", "topsecrettopsecret", "hf_abcdefghij0123456789")
    code = f"raise ValueError('refused: ' + ', '.join({secrets}))"
    ran(code, tmp_path, "--api-key", secrets[0], f"--hub-token={secrets[1]}", MY_SECRET=secrets[2])
    (text,) = kept(tmp_path)
    # The line of code that is quoted in a traceback is hidden, too.
    assert not any(secret in text for secret in secrets)
    assert text.splitlines()[-1] == "ValueError: refused: " + ", ".join(["[redacted]"] * 4)


def test_a_title_stands_before_each_line(tmp_path: Path) -> None:
    """A worker's title tells its stage, and is in its log where the engine puts it there."""
    code = f"""
        import os, sys
        if sys.argv[1:] == []:
            os.execv(sys.executable, ["VLLM::Worker_PP1", "-c", open({str(tmp_path / "code")!r}).read(), "x"])
        print("two lines"); raise ValueError("first\\nsecond")
        """
    (tmp_path / "code").write_text(textwrap.dedent(code))
    ran(code, tmp_path)
    (text,) = kept(tmp_path)
    assert text.splitlines()[-2:] == [
        "(VLLM::Worker_PP1) ValueError: first",
        "(VLLM::Worker_PP1) second",
    ]


@pytest.mark.parametrize(
    ("user", "printed"),
    [
        ("print('mine')", ""),
        ("import sys; hook = sys.excepthook; sys.excepthook = lambda *a: (print('hooked'), hook(*a))", ""),
        ("raise ValueError('broken')", "Error in sitecustomize"),
    ],
)
def test_a_sitecustomize_of_the_users_own_runs_as_before(user: str, printed: str, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(user)
    code = "import sys; print(sys.modules['sitecustomize'].__file__); raise ValueError('end')"
    if printed:
        code = "raise ValueError('end')"
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", code]
    alone = subprocess.run(
        command, env={**inherited, "PYTHONPATH": str(folder)}, capture_output=True, text=True
    )
    path = os.pathsep.join((str(plugins.write(tmp_path)), str(COLLECTORS), str(folder)))
    recorded = subprocess.run(
        command, env={**inherited, "PYTHONPATH": path, "BUBBLESCOPE_SPOOL": str(tmp_path)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert printed in alone.stderr
    assert (recorded.stdout, recorded.stderr) == (alone.stdout, alone.stderr)
    (text,) = kept(tmp_path)
    assert text.splitlines()[-1] == "ValueError: end"
