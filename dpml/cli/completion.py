"""A script for a shell that completes commands, options and settings."""

from argparse import ArgumentParser

from dpml.files import shipped_folder

SETTINGS = {"bash": "_dpml_settings", "zsh": "_dpml_settings"}
"""The functions that complete KEY=VALUE, in the shells that have one."""

# bash splits a word at "=": the function looks at both parts, and returns the part that follows
_BASH = """\
_dpml_settings() {
  local word="$1" before="${COMP_WORDS[COMP_CWORD-1]}"
  [[ $word == "=" ]] && word="$before="
  [[ $before == "=" ]] && word="${COMP_WORDS[COMP_CWORD-2]}=$1"
  compgen -W "@SETTINGS" -- "$word" | if [[ $word == *=* ]]; then sed 's/^[^=]*=//'; else cat; fi
}"""
_ZSH = "_dpml_settings() { compadd -S '' -- @SETTINGS }"


def script(parser: ArgumentParser, shell: str) -> str:
    """Return the script for a shell."""
    import shtab
    import yaml

    conf = shipped_folder("conf")
    groups = ("algo", "dataset", "partition")
    words = [f"{group}={path.stem}" for group in groups for path in sorted((conf / group).glob("*.yaml"))]
    keys = yaml.safe_load((conf / "config.yaml").read_text(encoding="utf-8"))
    words += [f"{key}=" for key in keys if key not in ("defaults", "hydra", *groups)]
    functions = {"bash": _BASH, "zsh": _ZSH}
    preamble = {shell: text.replace("@SETTINGS", " ".join(words)) for shell, text in functions.items()}
    return shtab.complete(parser, shell, preamble=preamble)  # type: ignore[arg-type]
