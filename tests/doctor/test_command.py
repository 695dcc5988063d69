"""`bubblescope doctor` as a person and a script meet it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bubblescope.cli import main
from bubblescope.doctor.installation import installed_version
from tests.doctor.models import LLAMA, write_config, write_safetensors

RIG = "RTX PRO 6000, RTX PRO 5000, RTX 5090 x2, RTX 4090 48GB x3"
NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4"}

Doctor = Callable[..., tuple[int, Any]]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Experts in NVFP4, as ModelOpt writes them."""
    return write_config(tmp_path / "nvfp4", num_experts=128, quantization_config=NVFP4)


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Runs it with --json; the exit status and the object."""

    def run(*args: str) -> tuple[int, Any]:
        status = main(["doctor", "--json", *args])
        return status, json.loads(capsys.readouterr().out)

    return run


def verdicts(found: Any) -> list[tuple[str, int, str]]:
    return [(one["device"], one["count"], one["verdict"]) for one in found["devices"]]


def on_the_rig(ada: str) -> list[tuple[str, int, str]]:
    return [
        ("RTX PRO 6000 96GB", 1, "native"),
        ("RTX PRO 5000 48GB", 1, "native"),
        ("RTX 5090 32GB", 2, "native"),
        ("RTX 4090 48GB", 3, ada),
    ]


def test_sglang_0_5_12_fails_on_the_ada_cards_and_says_why(doctor: Doctor, checkpoint: Path) -> None:
    status, found = doctor(
        "--engine", "sglang", "--engine-version", "0.5.12", "--model", str(checkpoint), "--devices", RIG
    )  # fmt: skip
    assert (status, found["verdict"]) == (10, "fails")
    assert verdicts(found) == on_the_rig("fails")
    ada = found["devices"][3]
    assert ada["reason"] == (
        "SGLang 0.5.12 takes ModelOpt NVFP4 from compute capability 10.0 on only; this card has 8.9"
    )
    assert ada["way_out"] == "SGLang 0.5.13 or newer emulates from 8.0 on, and so does vLLM"
    assert set(ada) == {"device", "count", "verdict", "reason", "way_out", "source", "card"}


def test_what_is_published_of_a_card_is_told_with_its_source(doctor: Doctor, checkpoint: Path) -> None:
    _, found = doctor("--engine", "vllm", "--model", str(checkpoint), "--devices", "L40, H100 NVL, no such")
    full, partly, unknown = (one["card"] for one in found["devices"])
    assert full == {
        "name": "L40",
        "capability": "8.9",
        "memory_gib": 48,
        "bandwidth_gbs": 864,
        "half": 181,
        "fp8": 362,
        "fp4": None,
        "int8": 362,
        "link": "PCIe 4.0 x16, 32 GB/s",
        "source": "NVIDIA L40 data sheet, nvidia.com/en-us/data-center/l40",
        "unconfirmed": [],
    }
    # FP4 is no figure of a Hopper card; the others are, and could not be confirmed.
    assert (partly["half"], partly["fp4"]) == (None, None)
    assert partly["unconfirmed"] == ["half", "fp8", "int8", "link"]
    assert unknown is None


@pytest.mark.parametrize(
    ("engine", "version"),
    [
        ("sglang", "0.5.13"),
        ("sglang", "0.5.23"),
        ("vllm", "0.16.0"),
        ("vllm", "0.33.0"),
        ("llama.cpp", "b11434"),
    ],
)
def test_these_emulate_on_the_ada_cards(doctor: Doctor, checkpoint: Path, engine: str, version: str) -> None:
    status, found = doctor(
        "--engine", engine, "--engine-version", version, "--model", str(checkpoint), "--devices", RIG
    )  # fmt: skip
    assert (status, found["verdict"]) == (0, "emulated")
    assert found["devices"][3]["way_out"].startswith("give it fewer layers than native cards: ")
    assert verdicts(found) == on_the_rig("emulated")
    # Those that ask one card for all say so; llama.cpp asks each, and wants another file.
    said = "GGUF files only" if engine == "llama.cpp" else "asks the first visible GPU only"
    (remark,) = found["remarks"]
    assert remark["verdict"] == "warns" and said in remark["text"]


def test_where_every_card_emulates_none_is_to_hold_less(
    doctor: Doctor, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--engine", "vllm", "--engine-version", "0.33.0", "--model", str(checkpoint)]
    status, found = doctor(*arguments, "--devices", "H100 x2")
    assert (status, found["verdict"], found["devices"][0]["way_out"]) == (0, "emulated", "")
    assert main(["doctor", *arguments, "--devices", "H100 x2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "verdict: runs, emulated on every card: slower than on cards with units for it"
    )


@pytest.mark.parametrize(
    ("engine", "version", "expected"),
    [
        ("sglang", "0.5.12", ["fails", "fails", "fails"]),
        ("sglang", "0.5.23", ["emulated", "fails", "emulated"]),
        ("vllm", "0.33.0", ["emulated", "fails", "emulated"]),
        ("llama.cpp", "b11434", ["emulated", "emulated", "emulated"]),
    ],
)
def test_a_3090_a_v100_and_an_h100(
    doctor: Doctor, checkpoint: Path, engine: str, version: str, expected: list[str]
) -> None:
    status, found = doctor(
        "--engine", engine, "--engine-version", version, "--model", str(checkpoint),
        "--devices", "RTX 3090, V100 32GB, H100",
    )  # fmt: skip
    assert [one["verdict"] for one in found["devices"]] == expected
    assert status == (10 if "fails" in expected else 0)


def test_a_rig_of_two_vendors_is_unknown_and_not_guessed_at(doctor: Doctor, checkpoint: Path) -> None:
    status, found = doctor("--engine", "vllm", "--model", str(checkpoint), "--devices", "RTX 5090, MI300X x2")
    assert (status, found["verdict"]) == (0, "unknown")
    assert verdicts(found) == [("RTX 5090 32GB", 1, "native"), ("MI300X", 2, "unknown")]
    assert found["devices"][1]["reason"] == "not a card that is known here; only NVIDIA's are"


def test_a_command_that_forces_native_kernels_fails_where_there_are_no_units(
    doctor: Doctor, checkpoint: Path
) -> None:
    command = ("--", "sglang", "serve", "--model-path", str(checkpoint), "--pp", "2")
    devices = ("--engine-version", "0.5.23", "--devices", "RTX 5090, RTX 4090")
    assert doctor(*devices, *command)[0] == 0
    status, found = doctor(*devices, *command, "--fp4-gemm-backend", "flashinfer_cutlass")
    assert status == 10
    assert [one["verdict"] for one in found["devices"]] == ["native", "fails"]


def lines(capsys: pytest.CaptureFixture[str], *args: str) -> list[str]:
    """The lines of the page that speak of a failure."""
    assert main(["doctor", *args]) == 10
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("fails")]


def test_a_wrong_partition_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_config(tmp_path / "m")
    monkeypatch.setenv("VLLM_PP_LAYER_PARTITION", "3,2")
    said = lines(capsys, "--devices", "H200 x2", "--", "vllm", "serve", str(model), "-pp", "2")
    assert said == ["fails     VLLM_PP_LAYER_PARTITION=3,2 sums to 5 layers, and the model has 4"]


def test_too_little_memory_is_one_clear_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    # GIVEN 4 layers of 10 GiB / WHEN split over two cards of 12 GiB / THEN each holds 20
    model = write_config(tmp_path / "m")
    write_safetensors(model / "a.safetensors", {f"model.layers.{n}.w": 10 << 30 for n in range(4)})
    said = lines(capsys, "--devices", "RTX 5070, H200", "--", "vllm", "serve", str(model), "-pp", "2")
    assert said == [
        "fails     stage 0 (RTX 5070 12GB): 20.0 GiB of weights do not fit in 11.0 GiB (0.92 of 12.0 GiB)"
    ]


def test_a_model_that_does_not_exist_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    nothing = str(tmp_path / "nothing")
    said = lines(capsys, "--devices", "H200 x2", "--", "vllm", "serve", nothing, "-pp", "2")
    assert said == [
        f"fails     {nothing}: no such model: there is no such folder, and it is no name of the hub"
    ]


def test_the_page_says_the_same_of_equal_parts_once(
    capsys: pytest.CaptureFixture[str], checkpoint: Path
) -> None:
    args = ["--engine", "vllm", "--engine-version", "0.33.0", "--model", str(checkpoint), "--devices", RIG]
    assert main(["doctor", *args]) == 0
    page = capsys.readouterr().out.splitlines()
    assert page[0] == "vLLM 0.33.0, NVFP4 (ModelOpt), 4 layers"
    assert page[2] == (
        "native    RTX PRO 6000 96GB ×1 (12.0), RTX PRO 5000 48GB ×1 (12.0), RTX 5090 32GB ×2 (12.0)"
    )
    assert "emulated  RTX 4090 48GB ×3 (8.9)" in page
    assert page[-1] == "verdict: runs; cards marked emulated are slower at this: give them fewer layers"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--model", "m", "--devices", "H200"], "which engine?"),
        (["--engine", "vllm", "--devices", "H200"], "which model?"),
        (["--engine", "vllm", "--model", "/no/such", "--devices", "H200"], "/no/such: no such model"),
        (
            ["--engine", "sglang", "--devices", "H200", "--", "vllm", "serve", "m"],
            "--engine: sglang is named",
        ),
        (["--devices", "H200", "--", "ls"], "no engine in the command 'ls'"),
        (["--engine", "tgi"], "'tgi' is not one of"),
    ],
)
def test_wrong_usage_is_said_with_status_2(
    capsys: pytest.CaptureFixture[str], args: list[str], said: str
) -> None:
    assert main(["doctor", *args]) == 2
    assert said in capsys.readouterr().err


def test_names_from_files_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    evil = write_config(tmp_path / "m\x1b[2J", {**LLAMA, "architectures": ["\x1b[31m"], "torch_dtype": "?"})
    main(["doctor", "--engine", "vllm", "--model", str(evil), "--devices", "\x1b[2Jcard"])
    assert "\x1b" not in capsys.readouterr().out


def test_the_engine_in_the_programs_own_environment_is_found(tmp_path: Path) -> None:
    # GIVEN an environment with vLLM, whose interpreter is a link out of it, as venv makes it
    (tmp_path / "bin").mkdir()
    for name in ("vllm", "python"):
        (tmp_path / "bin" / name).symlink_to("/bin/sh")
    (tmp_path / "lib/python3.12/site-packages/vllm-0.26.0.dist-info").mkdir(parents=True)
    # WHEN asked by either program / THEN it is that version; and nothing where there is none
    assert installed_version("vllm", str(tmp_path / "bin/vllm")) == "0.26.0"
    assert installed_version("vllm", str(tmp_path / "bin/python")) == "0.26.0"
    assert installed_version("sglang", str(tmp_path / "bin/python")) is None
    assert installed_version("vllm", str(tmp_path / "bin/none")) is None
    assert installed_version("llama.cpp", "llama-server") is None


def test_a_version_that_is_not_found_is_assumed_and_said_so(doctor: Doctor, checkpoint: Path) -> None:
    _, found = doctor("--devices", "H200", "--", "/no/such/vllm", "serve", str(checkpoint))
    assert (found["engine_version"], found["engine_version_assumed"]) == ("0.33.0", True)


def test_a_saved_log_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str], doctor: Doctor) -> None:
    log = tmp_path / "server.log"
    log.write_text("starting\nValueError: sum(partitions)=37 does not match num_hidden_layers=36.\n")
    assert main(["doctor", "--log", str(log)]) == 0
    assert capsys.readouterr().out == (
        "The engine refused the layer partition: it sums to 37 layers, and the model has 36. What to do: "
        "numbers that sum to 36 in VLLM_PP_LAYER_PARTITION or SGLANG_PP_LAYER_PARTITION.\n"
        "read in: vllm, sglang distributed/utils.py get_pp_indices\n"
    )
    status, found = doctor("--log", str(log))
    assert (status, found["known"]) == (0, "partition-sum")
    assert found["line"] == "sum(partitions)=37 does not match num_hidden_layers=36"


def test_a_log_of_an_unknown_failure_is_quoted(tmp_path: Path, doctor: Doctor) -> None:
    log = tmp_path / "server.log"
    # GIVEN an error near the end of a log that is longer than what is looked at
    log.write_text("x" * 5_000_000 + "\nKeyError: 'rope'\nbye\n")
    assert doctor("--log", str(log))[1] == {
        "known": None,
        "text": None,
        "line": "KeyError: 'rope'",
        "source": "",
    }
    log.write_bytes(b"\xff\x00\x1b[2J all is well")
    assert doctor("--log", str(log))[1]["line"] is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--log", "missing"], "missing: No such file or directory; --log names a file to read"),
        (["--log", "/"], "/: Is a directory; --log names a file to read"),
        (["--log", "x", "--engine", "vllm"], "--log: give it alone, the file tells the rest"),
    ],
)
def test_a_log_that_cannot_be_read_is_one_line(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *arguments]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"bubblescope: {reason}"
