"""`dpml completion SHELL`: a script that completes the commands and options of `dpml` in bash, zsh or fish."""

import argparse
from argparse import Namespace
from collections.abc import Iterator

from dpml.cli.main import parser

Words = tuple[str, ...]

_BASH = """\
_dpml() {{
    local words=" ${{COMP_WORDS[*]:1:COMP_CWORD-1}} " choices
    case "$words" in
{cases}
        *) choices="{first}" ;;
    esac
    COMPREPLY=($(compgen -W "$choices" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _dpml dpml
"""
_RUN = 'eval "$(dpml-run -sc install={shell})"'


def run(arguments: Namespace) -> None:
    """Print the script."""
    print(script(arguments.shell), end="")


def script(shell: str) -> str:
    """The script for `bash`, `zsh` or `fish`; `dpml-run` completes by Hydra's own."""
    choices = dict(_choices(parser()))
    usage = f"# in the start file of {shell}; for dpml-run: {_RUN.format(shell='bash' if shell == 'zsh' else shell)}\n"
    if shell == "fish":
        return usage + "".join(_fish(words, found) for words, found in choices.items())
    deepest = sorted((words for words in choices if words), key=len, reverse=True)
    cases = "\n".join(f'        " {" ".join(words)} "*) choices="{" ".join(choices[words])}" ;;' for words in deepest)
    load = "autoload -U +X bashcompinit compinit && compinit -u && bashcompinit\n" if shell == "zsh" else ""
    return usage + load + _BASH.format(cases=cases, first=" ".join(choices[()]))


def _choices(commands: argparse.ArgumentParser, words: Words = ()) -> Iterator[tuple[Words, list[str]]]:
    """The commands and options that may follow words, for every start of a command line."""
    found: list[str] = []
    for action in commands._actions:
        found += [option for option in action.option_strings if option.startswith("--")]
        if isinstance(action, argparse._SubParsersAction):
            found += list(action.choices)
            for name, command in action.choices.items():
                yield from _choices(command, (*words, name))
    yield words, found


def _fish(words: Words, found: list[str]) -> str:
    seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in words) or "__fish_use_subcommand"
    options = [f"-l {choice.removeprefix('--')}" for choice in found if choice.startswith("--")]
    names = [f"-f -a {choice}" for choice in found if not choice.startswith("--")]
    return "".join(f"complete -c dpml -n '{seen}' {choice}\n" for choice in [*names, *options])
