"""Limits of a confined command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """What one command with all its children may take; 0 = no limit.

    Attributes:
        memory_bytes: memory of all together where cgroups are; everywhere the data of each process
            (RLIMIT_DATA: node and the JVM reserve far more address space than they touch).
        processes: processes and threads at one time.
        file_bytes: size of any one file that is written.
        cpu_s: CPU seconds of each process.
        open_files: descriptors of each process.
    """

    memory_bytes: int = GIB
    processes: int = 256
    file_bytes: int = 512 * MIB
    cpu_s: int = 3600
    open_files: int = 4096

    def ulimits(self, *, processes: bool = True) -> str:
        """The same as `ulimit` commands for bash, hard and soft; core files are always off."""
        out = ["ulimit -c 0"]
        if self.memory_bytes:
            out.append(f"ulimit -d {self.memory_bytes // KIB}")
        if self.file_bytes:
            out.append(f"ulimit -f {self.file_bytes // KIB}")
        if self.cpu_s:
            out.append(f"ulimit -t {self.cpu_s}")
        if self.open_files:
            out.append(f"ulimit -n {self.open_files}")
        if processes and self.processes:
            out.append(f"ulimit -u {self.processes}")
        return "; ".join(out)
