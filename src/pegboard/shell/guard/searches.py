"""Rules of programs that search files and rewrite text, and may run others on what they find."""

from __future__ import annotations

import posixpath
import re

from pegboard.shell.guard.calls import ProgramCall, ProgramSpec, names, parse, stands_for
from pegboard.shell.guard.code import judge_awk, judge_sed
from pegboard.shell.guard.operands import HOLE, PathZone
from pegboard.shell.guard.words import Word
from pegboard.shell.guard.wrappers import file_text, is_filtered, run_for_each


def find(call: ProgramCall) -> bool:
    args = call.args
    texts = [w.text for w in args]
    roots: list[Word] = []
    at = 0
    while (at < len(args) and (texts[at][:1] not in "-(!" or texts[at] == "")) or (
        at < len(args) and texts[at] in ("-L", "-P", "-H")
    ):
        if texts[at] not in ("-L", "-P", "-H"):
            roots.append(args[at])
        at += 1
    roots = roots or [Word(".", ".")]
    for root in roots:
        if (
            call.found.places.resolve(root.text, call.cwd).kind
            in (
                PathZone.ABOVE,
                PathZone.HOME,
                PathZone.OUTSIDE,
                PathZone.SECRET,
                PathZone.UNKNOWN,
            )
            or call.found.places.resolve(root.text, call.cwd).kind is PathZone.SYSTEM
        ):
            call.read(root)
    filtered = is_filtered(["find", *texts])
    reads = True
    while at < len(args):
        text = texts[at]
        if text == "-delete":
            reads = False
            for root in roots:
                call.delete(
                    Word(root.text.rstrip("/") + "/found", root.source) if filtered else root, recursive=True
                )
        elif text in ("-exec", "-execdir", "-ok", "-okdir"):
            stop = next((i for i in range(at + 1, len(args)) if texts[i] in (";", "+")), len(args))
            reads = _find_runs(call, args[at + 1 : stop], roots, filtered) and reads
            at = stop
        elif text in ("-fprint", "-fprint0", "-fls", "-fprintf"):
            reads = False
            if at + 1 < len(args):
                call.write(args[at + 1])
            at += 1
        elif text in ("-newer", "-samefile", "-files0-from"):
            if text == "-files0-from" and at + 1 < len(args):
                call.read(args[at + 1])
            at += 1
        elif HOLE in text and args[at].source.startswith("$"):
            call.ask_unless_known(None, "find has an expression that is not known before it runs")
        at += 1
    return reads


def _find_runs(call: ProgramCall, words: list[Word], roots: list[Word], filtered: bool) -> bool:
    """Judge `-exec PROGRAM …` once for each root; what is found stands for `{}`."""
    before = len(call.found.effects)
    for root in roots:
        base = root.text.rstrip("/") or "/"
        name = posixpath.join(base, "found") if filtered else posixpath.join(base, HOLE)
        if words and "{}" in words[0].text:
            # What is found is the program itself, and that may be any file.
            name = HOLE
        inner = [Word(w.text.replace("{}", name), w.source, w.glob, w.secret) for w in words]
        if inner:
            run_for_each(call, inner)
    return all(e.kind == "read" or e.read_only for e in call.found.effects[before:])


def fd(call: ProgramCall) -> bool:
    args = call.args
    for at, word in enumerate(args):
        if word.text in ("-x", "--exec", "-X", "--exec-batch"):
            # Without a pattern everything is found, as with an unfiltered `find`.
            plain = [w for w in args[:at] if w.text[:1] != "-"]
            for root in plain[1:] or [Word(".", ".")]:
                name = posixpath.join(
                    root.text, "found" if plain and plain[0].text not in (".", "") else HOLE
                )
                if at + 1 < len(args) and "{}" in args[at + 1].text:
                    name = HOLE
                inner = [
                    Word(w.text.replace("{}", name), w.source, w.glob)
                    for w in args[at + 1 :]
                    if w.text != ";"
                ]
                if not any(name in w.text for w in inner):
                    inner.append(Word(name, "{}"))
                run_for_each(call, inner)
            return False
        if word.text[:1] != "-" and any(w.text[:1] != "-" for w in args[:at]):
            call.stat(word)
    return True


def sed(call: ProgramCall) -> bool:
    program = ProgramSpec(takes="efl", long_takes=names("--expression --file --line-length"))
    # -i takes a suffix only when it stands right behind it.
    args = [
        Word("-i", w.source) if re.fullmatch(r"-[nErsuz]*i.*", w.text) and not w.text.startswith("--") else w
        for w in call.args
    ]
    options, operands = parse(args, program)
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
    options, operands = call.options(
        ProgramSpec(
            takes="FvfiElbde",
            long_takes=names("--field-separator --assign --file --include --exec --load --source"),
        )
    )
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
        if not word.known:
            call.ask_unless_known(None, "awk runs a program that is not known before it runs")
    for word in operands:
        if not re.match(r"[A-Za-z_]\w*=", word.text):
            call.read(word)
    return reads and not files
