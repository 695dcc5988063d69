"""The records that the CUPTI injection reads stand where every version of CUPTI has them.

The injection is compiled without CUPTI's headers. Wherever they are, here is looked whether what it takes for
granted is so; each header knows its own records and those of the versions before it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from bubblescope.native.libraries import FOLDER

#: Our record, CUPTI's record and the first number of it that is read, and what our fields are called there.
_RECORDS = (
    ("activity_kernel", "CUpti_ActivityKernel", 9, {"begin": "start", "end": "end", "device": "deviceId",
     "context": "contextId", "stream": "streamId", "correlation": "correlationId", "name": "name",
     "graph": "graphId"}),
    ("activity_copy", "CUpti_ActivityMemcpy", 5, {"copy_kind": "copyKind", "bytes": "bytes", "begin": "start",
     "end": "end", "device": "deviceId", "context": "contextId", "stream": "streamId",
     "correlation": "correlationId", "graph": "graphId"}),
    ("activity_copy_peer", "CUpti_ActivityMemcpyPtoP", 4, {"copy_kind": "copyKind", "bytes": "bytes",
     "begin": "start", "end": "end", "device": "deviceId", "context": "contextId", "stream": "streamId",
     "source": "srcDeviceId", "target": "dstDeviceId", "correlation": "correlationId", "graph": "graphId"}),
    ("activity_memset", "CUpti_ActivityMemset", 4, {"bytes": "bytes", "begin": "start", "end": "end",
     "device": "deviceId", "context": "contextId", "stream": "streamId", "correlation": "correlationId",
     "graph": "graphId"}),
)  # fmt: skip
_CONSTANTS = {
    "ACTIVITY_COPY": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "ACTIVITY_MEMSET": "CUPTI_ACTIVITY_KIND_MEMSET",
    "ACTIVITY_KERNEL": "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL",
    "ACTIVITY_COPY_PEER": "CUPTI_ACTIVITY_KIND_MEMCPY2",
    "ATTRIBUTE_ZEROED_BUFFERS": "CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER",
    "FLUSH_FORCED": "CUPTI_ACTIVITY_FLAG_FLUSH_FORCED",
    "CUPTI_MULTIPLE_SUBSCRIBERS": "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
    "DOMAIN_DRIVER": "CUPTI_CB_DOMAIN_DRIVER_API",
    "CALL_DRIVER_GET_VERSION": "CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion",
    "SITE_ENTER": "CUPTI_API_ENTER",
}


def _headers() -> list[Path]:
    """Folders with CUPTI's headers: of CUDA toolkits and of Python packages."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    toolkits = [Path(home) / "include", Path(home) / "extras" / "CUPTI" / "include"]
    packages = sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/*/include"))
    return [folder for folder in (*toolkits, *packages) if (folder / "cupti_activity.h").exists()]


@pytest.mark.skipif(not _headers(), reason="there are no headers of CUPTI here")
@pytest.mark.parametrize("headers", _headers(), ids=str)
def test_records_and_constants_are_those_of_the_headers(headers: Path, tmp_path: Path) -> None:
    source = tmp_path / "layout.c"
    source.write_text("\n".join(_assertions(headers)))
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
    command = ["cc", "-std=c11", "-fsyntax-only", f"-I{FOLDER}", f"-isystem{headers}", f"-isystem{toolkit}"]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def _assertions(headers: Path) -> list[str]:
    """A program in C that compiles if all is as it is taken to be."""
    text = "".join(path.read_text(errors="replace") for path in headers.glob("cupti_activity*.h"))
    lines = [
        "#include <cuda.h>",
        "#include <cupti_result.h>",
        "#include <cupti_callbacks.h>",
        "#include <cupti_driver_cbid.h>",
        "#include <cupti_activity.h>",
        # Newer headers define a macro of this name as ours; the values are compared, not the names.
        "enum { THEIR_SUCCESS = CUPTI_SUCCESS };",
        "#define CUPTI_SUCCESS OUR_SUCCESS",
        '#include "cupti_api.h"',
        '_Static_assert((int)OUR_SUCCESS == (int)THEIR_SUCCESS, "success");',
        *_same_place("callback_call", "CUpti_CallbackData", {"site": "callbackSite"}),
        *_same_place("callback_call", "CUpti_CallbackData", {"correlation": "correlationId"}),
    ]
    for ours, theirs in _CONSTANTS.items():
        lines.append(f'_Static_assert((int){ours} == (int){theirs}, "{ours}");')
    found = 0
    for ours, theirs, first, fields in _RECORDS:
        numbers = {int(number) for number in re.findall(rf"}} {theirs}(\d+);", text)}
        for number in sorted(number for number in numbers if number >= first):
            found += 1
            lines += _same_place(ours, f"{theirs}{number}", fields)
    assert found >= len(_RECORDS)
    return lines


def _same_place(ours: str, theirs: str, fields: dict[str, str]) -> list[str]:
    return [
        f'_Static_assert(offsetof(struct {ours}, {our}) == offsetof({theirs}, {their}), "{theirs}.{their}");'
        for our, their in fields.items()
    ]
