"""A container image made of this machine's own programs: nothing is downloaded."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

IMAGE: Final = "pegboard-tests:latest"
_PROGRAMS: Final = (
    "bash", "sh", "python3", "ls", "cat", "cp", "tr", "wc", "sleep", "head", "touch", "mkdir", "rm", "mv", "ln", "id",
    "stat", "env", "chmod", "mknod", "setsid", "nohup", "grep", "mount", "chroot",
)  # fmt: skip
_SKIPPED: Final = re.compile(r"/(test|idlelib|__pycache__|config-[^/]*|dist-packages|site-packages)(/|$)")


def make_image(program: str) -> str:
    """Import the image with docker or podman; empty when it is there, else why it cannot be."""
    if shutil.which(program) is None:
        return f"there is no {program} program"
    python = Path("/usr/bin/python3").resolve()
    if not python.exists():
        return "there is no /usr/bin/python3 to put into an image"
    standard = Path("/usr/lib", python.name)
    files = {f"/usr/bin/{name}": shutil.which(name, path="/usr/bin:/bin") for name in _PROGRAMS}
    binaries = [Path(found).resolve() for found in files.values() if found is not None]
    binaries += list(standard.glob("lib-dynload/*.so"))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder in ("tmp", "proc", "sys", "dev", "etc", "home/user", "usr/bin"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name in ("bin", "lib", "lib64"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(entry)
        for name, found in files.items():
            if found is not None:
                tar.add(os.path.realpath(found), name)
        for library in _libraries(binaries):
            tar.add(os.path.realpath(library), _merged(library))
        tar.add(standard, str(standard), filter=lambda one: None if _SKIPPED.search(one.name) else one)
    try:
        done = subprocess.run(
            [program, "import", "-", IMAGE],
            input=out.getvalue(),
            capture_output=True,
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{program} import did not end"
    return "" if done.returncode == 0 else done.stderr.decode(errors="replace").strip()[-300:]


def _libraries(binaries: list[Path]) -> list[str]:
    said = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False).stdout
    return sorted(set(re.findall(r"(?:=> |^\s)(/\S+) \(", said, re.MULTILINE)))


def _merged(path: str) -> str:
    # /lib and /lib64 are links in the image, as on the machines that it is made from.
    return path if path.startswith("/usr/") else f"/usr{path}"
