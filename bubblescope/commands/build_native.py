"""`bubblescope build-native`: compile beforehand what `record` would compile when it needs it."""

from __future__ import annotations

import click


@click.command(name="build-native")
def build_native() -> None:
    """Compile the native collectors with this machine's compiler, and print where they are.

    `bubblescope record` does so by itself when it first needs one. Beforehand it is of use where the
    compiler is not there later, for example while a container is built. What is compiled already is
    left alone.

    \b
    Example:
      bubblescope build-native
    """
    from bubblescope.native.build import BuildError, build
    from bubblescope.native.libraries import LIBRARIES

    failure = None
    for library in LIBRARIES.values():
        try:
            click.echo(f"{library.name}  {build(library)}")
        except BuildError as error:
            click.echo(f"{library.name}  -")
            failure = failure or error
    if failure is not None:
        raise failure
