"""Rules of programs that search files and rewrite text, and may run others on what they find."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from itertools import pairwise
from typing import Final

from pegboard.shell.guard.calls import ProgramCall, Rule, parse, stands_for
from pegboard.shell.guard.code import judge_awk, judge_sed
from pegboard.shell.guard.find_expression import Find
from pegboard.shell.guard.listings import FD_RUNS, fd_search
from pegboard.shell.guard.operands import HOLE, PathZone
from pegboard.shell.guard.specs import names
from pegboard.shell.guard.words import Word
from pegboard.shell.guard.wrappers import file_text, put_in, run_for_each

_ELSEWHERE: Final = (
    PathZone.ABOVE, PathZone.HOME, PathZone.OUTSIDE, PathZone.SECRET, PathZone.UNKNOWN, PathZone.SYSTEM,
)  # fmt: skip


def find(call: ProgramCall) -> bool:
    """`find`: it reads its roots, and its actions get what its tests let through."""
    search = Find(call.args)
    for root in search.roots:
        if call.found.places.resolve(root.text, call.cwd).kind in _ELSEWHERE:
            call.read(root)
    if search.unknown:
        call.ask_unless_known(None, "find has an expression that is not known before it runs")
    for word, after in pairwise(call.args):
        if word.text == "-files0-from":
            call.read(after)
    reads = True
    for index, action in enumerate(search.actions):
        if action.name == "-delete":
            reads = False
            for word in search.by(index):
                call.delete(word, recursive=True)
        elif action.name.startswith("-f"):
            reads = False
            for word in action.words[:1]:
                call.write(word)
        elif action.name.startswith(("-exec", "-ok")):
            reads = _runs(call, action.words, search.by(index)) and reads
    return reads


def _runs(call: ProgramCall, words: list[Word], found: list[Word]) -> bool:
    """Judge `-exec PROGRAM …` for each kind of name that is found; returns whether it only reads."""
    before = len(call.found.effects)
    for name in found if words else ():
        if "{}" in words[0].text:
            # What is found is the program itself, and that may be any file.
            name = Word(HOLE, name.source)
        run_for_each(call, [put_in(word, "{}", name) for word in words])
    return all(e.kind == "read" or e.read_only for e in call.found.effects[before:])


def fd(call: ProgramCall) -> bool:
    """`fd`: its command gets what its pattern lets through, behind its words where no mark is among them."""
    at = next((i for i, word in enumerate(call.args) if word.text in FD_RUNS), len(call.args))
    search = fd_search(call.args[:at])
    for root in search.roots:
        call.stat(root)
    words = [w for w in call.args[at + 1 :] if w.text != ";"]
    if words and not any("{" in w.text for w in words):
        words.append(Word("{}", "{}"))
    # `{/}`, `{.}` and their like are pieces of the name.
    words = [replace(w, text=_PIECE.sub(HOLE if w.text != "{/}" else "{}", w.text)) for w in words]
    return _runs(call, words, search.found()) if at < len(call.args) else True


_PIECE: Final = re.compile(r"\{(?:/|\.|//|/\.)\}")


def sed(call: ProgramCall) -> bool:
    # -i takes a suffix only when it stands right behind it.
    args = [
        Word("-i", w.source) if re.fullmatch(r"-[nErsuz]*i.*", w.text) and not w.text.startswith("--") else w
        for w in call.args
    ]
    options, operands = parse(args, call.spec)
    scripts = [o.value for o in options if o.value and stands_for(o.flag, names("-e --expression"))]
    files = [o.value for o in options if o.value and stands_for(o.flag, names("-f --file"))]
    in_place = any(o.flag == "-i" or stands_for(o.flag, names("--in-place")) for o in options)
    if not scripts and not files:
        scripts, operands = operands[:1], operands[1:]
    reads = not in_place
    for script in scripts:
        reads = judge_sed(call, script.text) and reads
    for word in files:
        call.read(word)
        place = call.found.places.resolve(word.text, call.cwd)
        known = (
            file_text(posixpath.join(call.found.places.root, place.target))
            if place.kind is PathZone.INSIDE
            else None
        )
        if known is not None:
            judge_sed(call, known)
        elif word.text in ("-", "/dev/stdin") or word.text.startswith("/dev/fd/"):
            call.ask_unless_known(None, "sed runs a script that is not known before it runs")
    for word in operands:
        (call.write if in_place else call.read)(word)
    return reads and not files


def awk(call: ProgramCall) -> bool:
    options, operands = call.options()
    reads = True
    programs = [o.value for o in options if o.value and stands_for(o.flag, names("-e --source"))]
    files = [o.value for o in options if o.value and stands_for(o.flag, names("-f -E --file --exec"))]
    for option in options:
        if option.flag in ("-l", "--load"):
            call.ask_unless_known(option.value, "awk loads a library")
        if option.flag in ("-i", "--include"):
            reads = False
            if option.value and option.value.text == "inplace":
                for word in operands[1:]:
                    call.write(word)
        if option.flag in ("-o", "-p", "-d"):
            reads = False
    if not programs and not files:
        programs, operands = operands[:1], operands[1:]
    for word in programs:
        reads = judge_awk(call, word.text) and reads
    for word in files:
        call.read(word)
        if not word.known or word.text in ("-", "/dev/stdin") or word.text.startswith("/dev/fd/"):
            call.ask_unless_known(None, "awk runs a program that is not known before it runs")
    for word in operands:
        if not re.match(r"[A-Za-z_]\w*=", word.text):
            call.read(word)
    return reads and not files


RULES: Final[dict[str, Rule]] = {"find": find, "fd": fd, "sed": sed, "awk": awk}
