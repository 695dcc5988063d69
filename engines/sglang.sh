#!/usr/bin/env bash
# Installs SGLang, as the tests run it on CPUs, into FOLDER: an environment with bin/python. Its kernels, which
# no package has for CPUs, are left out; the tests bring a stand-in. Nothing is done if FOLDER holds this
# version already.
set -euo pipefail
. "$(dirname "$0")/environment.bash"
folder=$1
version=0.5.21

if [ -x "$folder/bin/python" ] && [ "$(cat "$folder/installed" 2>/dev/null)" = "$version" ]; then
	echo "SGLang $version is in $folder"
	exit
fi

echo "Installing SGLang $version into $folder (3 GB, some minutes)"
fresh_environment SGLang
pip --no-deps "sglang==$version"

# What needs CUDA or serves no test stays out.
left_out="cuda-.*|nvidia-(?!ml-py).*|nvshmem4py.*|flash.*|humming-kernels|quack-kernels|kernels|sgl-deep-.*\
|sglang-kernel|tilelang|tokenspeed.*|torch.*|xgrammar|apache-tvm-ffi|smg-grpc-servicer|timm|datasets|modelscope\
|build|ninja|py-spy|mistral.common|easydict|decord2|av|scipy"
requirements "$left_out" sglang >"$folder/requirements.txt"
pip torch==2.13.0+cpu dill --requirement "$folder/requirements.txt"
# Imported, but for their operators on GPUs or on pictures, never used.
pip --no-deps triton==3.9.0 torchvision==0.29.1 xgrammar==0.2.7 apache-tvm-ffi==0.1.11

# This torchvision was built for a torch with CUDA, and registers operators that it then does not find.
: >"$(packages)/torchvision/_meta_registrations.py"

echo "$version" >"$folder/installed"
