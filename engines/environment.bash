# What the scripts beside this one share that install an engine of Python into $folder.

# Makes $folder an environment of a Python that engines have packages for, and nothing else.
fresh_environment() { # ENGINE
	local candidate python=
	for candidate in python3.11 python3.12 python3.13; do
		if "$candidate" -c '' 2>/dev/null; then python=$candidate && break; fi
	done
	if [ -z "$python" ]; then
		echo "$1 needs Python 3.11, 3.12 or 3.13" >&2
		exit 1
	fi
	rm -rf "$folder"
	"$python" -m venv "$folder"
}

pip() { "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }

# What the distributions require, as they say it, but for the names that the expression matches.
requirements() { # LEFT_OUT DISTRIBUTION…
	"$folder/bin/python" - "$@" <<'PYTHON'
import importlib.metadata, re, sys

left_out, *distributions = sys.argv[1:]
for distribution in distributions:
    for requirement in importlib.metadata.requires(distribution) or []:
        name = re.match(r"[A-Za-z0-9_.-]+", requirement).group(0).lower().replace("_", "-")
        if not re.fullmatch(left_out, name) and "extra ==" not in requirement:
            print(requirement)
PYTHON
}

# Where the packages are.
packages() { "$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
