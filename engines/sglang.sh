#!/usr/bin/env bash
# Installs SGLang, as the tests run it on CPUs, into FOLDER: an environment with bin/python. Its kernels, which
# no package has for CPUs, are left out; the tests bring a stand-in. Nothing is done if FOLDER holds this
# version already.
set -euo pipefail
folder=$1
version=0.5.21

if [ -x "$folder/bin/python" ] && [ "$(cat "$folder/installed" 2>/dev/null)" = "$version" ]; then
	echo "SGLang $version is in $folder"
	exit
fi

python=
for candidate in python3.11 python3.12 python3.13; do
	if "$candidate" -c '' 2>/dev/null; then python=$candidate && break; fi
done
if [ -z "$python" ]; then
	echo "SGLang needs Python 3.11, 3.12 or 3.13" >&2
	exit 1
fi

echo "Installing SGLang $version into $folder (3 GB, some minutes)"
rm -rf "$folder"
"$python" -m venv "$folder"
pip() { "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
pip --no-deps "sglang==$version"

# What needs CUDA or serves no test stays out: the requirements are read, and those left out.
"$folder/bin/python" - >"$folder/requirements.txt" <<'PYTHON'
import importlib.metadata, re

LEFT_OUT = re.compile(
    "cuda-.*|nvidia-(?!ml-py).*|nvshmem4py.*|flash.*|humming-kernels|quack-kernels|kernels|sgl-deep-.*|sglang-kernel"
    "|tilelang|tokenspeed.*|torch.*|xgrammar|apache-tvm-ffi|smg-grpc-servicer|timm|datasets|modelscope|build|ninja"
    "|py-spy|mistral.common|easydict|decord2|av|scipy"
)
for requirement in importlib.metadata.requires("sglang") or []:
    name = re.match(r"[A-Za-z0-9_.-]+", requirement).group(0).lower().replace("_", "-")
    if not LEFT_OUT.fullmatch(name) and "extra ==" not in requirement:
        print(requirement)
PYTHON
pip torch==2.13.0+cpu dill --requirement "$folder/requirements.txt"
# Imported, but for their operators on GPUs or on pictures, never used.
pip --no-deps triton==3.9.0 torchvision==0.29.1 xgrammar==0.2.7 apache-tvm-ffi==0.1.11

# This torchvision was built for a torch with CUDA, and registers operators that it then does not find.
packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
: >"$packages/torchvision/_meta_registrations.py"

echo "$version" >"$folder/installed"
