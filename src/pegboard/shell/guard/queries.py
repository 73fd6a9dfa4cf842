"""Rules of programs that mostly change something and sometimes only answer a question."""

from __future__ import annotations

import re
from typing import Final

from pegboard.shell.guard.calls import ProgramCall, Rule, by_table
from pegboard.shell.guard.tables import PROGRAMS
from pegboard.shell.guard.words import Word

# program: how its first argument looks where it only answers from this machine's own records
_ANSWERS: Final = {
    "dpkg": r"-(?:[lLsSpCIcV]|W)|--(?:list|listfiles|status|search|verify|info|contents|print-architecture|get-selections)",
    "apt": r"list|show|policy|depends|rdepends|search", "apt-cache": r".+", "dpkg-query": r".+",
    "rpm": r"-q\w*|--query|-V\w*|--verify", "pacman": r"-Q\w*|-Si|-Ss", "apk": r"info|list|policy|version", "brew": r"list|ls|info|deps|uses|--prefix|config|doctor",
    "snap": r"list|info|version", "flatpak": r"list|info", "dnf": r"list|info|repoquery|provides", "yum": r"list|info|provides",
    "terraform": r"fmt|validate|version|graph|providers", "tofu": r"fmt|validate|version|graph|providers", "helm": r"lint|template|version|create|package",
    "tmux": r"ls|list-sessions|list-windows|-V", "screen": r"-ls|-list|-v|--version", "vagrant": r"version|validate|global-status",
    "direnv": r"status|version|--version|dotenv|export", "mise": r"ls|list|current|version|doctor|which|where|exec|x|run|r|task|tasks|env|en|activate",
    "rtx": r"ls|list|current|version|which|where|env", "asdf": r"list|current|version|which|where|info|help",
    "dvc": r"repro|status|dag|add|commit|init|diff|metrics|plots|params|exp|root|version|stage|run|checkout|ls", "ollama": r"list|ps|show|--version",
    "wandb": r"status|offline|disabled|--version",
    "notify-send": r"--version", "history": r"\d*",
    "pegboard": r"|--help|--version|-h|version|doctor|tools|models|policy|usage|check|replay", "ssh-keygen": r"-l|-lf|-lvf|-B",
}  # fmt: skip


def answers(call: ProgramCall) -> bool:
    """A query passes; the rest is judged by the program's row."""
    first = call.args[0].text if call.args else ""
    if re.fullmatch(_ANSWERS[call.name], first):
        for word in call.args[1:]:
            call.maybe_path(word)
        return False
    return by_table(call, PROGRAMS[call.name]) if call.name in PROGRAMS else False


def dmesg(call: ProgramCall) -> bool:
    """The kernel's messages: read, unless they are cleared or their level is set."""
    if any(
        re.match(r"-(?:[a-zA-Z]*[cCDEn])|--(?:clear|read-clear|console)", word.text) for word in call.args
    ):
        call.ask("dmesg clears the kernel's messages or changes where they go")
    return True


def arp(call: ProgramCall) -> bool:
    """The neighbour table: shown, or changed."""
    if call.has("-d", "-s", "-f", "--delete", "--set", "--file"):
        call.ask("arp changes the network")
    return True


def stty(call: ProgramCall) -> bool:
    """Terminal settings; `-F` names another device."""
    for at, word in enumerate(call.args):
        device = re.match(r"(?:-F|--file=?)(.*)", word.text)
        if device:
            call.write(
                Word(device[1], word.source) if device[1] else call.args[min(at + 1, len(call.args) - 1)]
            )
    return True


_INSTALL_HOOKS: Final = {
    "pre-commit": r"install|init-templatedir|uninstall|install-hooks", "husky": r"|init|install|add|set", "lefthook": r"install|add|uninstall",
    "overcommit": r"--install|--uninstall|--sign|-i", "git-lfs": r"install|uninstall", "simple-git-hooks": r"|.*",
}  # fmt: skip


def hooks(call: ProgramCall) -> bool:
    """Programs that put hooks into `.git`, which git runs outside the sandbox later."""
    if re.fullmatch(_INSTALL_HOOKS[call.name], call.args[0].text if call.args else ""):
        call.write(Word(".git/hooks", call.name))
    for word in call.args[1:]:
        call.maybe_path(word)
    return False


RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_ANSWERS, answers),
    "dmesg": dmesg,
    "arp": arp,
    "stty": stty,
    **dict.fromkeys(_INSTALL_HOOKS, hooks),
}
