"""`bubblescope completion`: the script that teaches a shell to complete our commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from bubblescope.cli import COMPLETE_VARIABLE, PROGRAM


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    Examples:
      eval "$(bubblescope completion bash)"       in ~/.bashrc
      eval "$(bubblescope completion zsh)"        in ~/.zshrc
      bubblescope completion fish | source        in ~/.config/fish/config.fish
    """
    script = get_completion_class(shell)
    assert script is not None, "click knows every shell of the choice above"
    root = context.find_root().command
    click.echo(script(root, {}, PROGRAM, COMPLETE_VARIABLE).source(), nl=False)
