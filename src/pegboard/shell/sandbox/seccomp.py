"""The system-call filter of the sandbox, as a classic BPF program.

Written by hand for x86-64 and arm64 (no libseccomp). Default: allow. Refused are the calls by
which programs leave sandboxes or attack the kernel, never those that ordinary work needs:
see `_refused` for each group and its reason. Numbers: arch/x86/entry/syscalls/syscall_64.tbl
and include/uapi/asm-generic/unistd.h of Linux.
"""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

# struct seccomp_data { int nr; __u32 arch; __u64 instruction_pointer; __u64 args[6]; }
_NR: Final = 0
_ARCH: Final = 4
_ARGS: Final = 16

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_JEQ: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_JGE: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_JSET: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RET: Final = 0x06  # BPF_RET | BPF_K

_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000

_AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT: Final = 0x40000000

_CLONE_NEWUSER: Final = 0x10000000
_SET_ID_BITS: Final = 0o6000
_O_CREAT: Final = 0o100
_O_TMPFILE: Final = 0o20000000
_AF_UNIX, _AF_PACKET, _AF_ALG, _AF_VSOCK = 1, 17, 38, 40
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C

# name: (x86-64, arm64); None = the call does not exist there.
_NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "open": (2, None), "ioctl": (16, 29), "socket": (41, 198), "clone": (56, 220), "chmod": (90, None),
    "creat": (85, None), "fchmod": (91, 52), "ptrace": (101, 117), "mknod": (133, None),
    "uselib": (134, None), "pivot_root": (155, 41), "chroot": (161, 51),
    "acct": (163, 89), "mount": (165, 40), "umount2": (166, 39), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "sethostname": (170, 161), "setdomainname": (171, 162),
    "iopl": (172, None), "ioperm": (173, None), "init_module": (175, 105), "delete_module": (176, 106),
    "quotactl": (179, 60), "lookup_dcookie": (212, 18), "kexec_load": (246, 104), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "openat": (257, 56), "mknodat": (259, 33),
    "fchmodat": (268, 53), "unshare": (272, 97), "perf_event_open": (298, 241),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "setns": (308, 268),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "finit_module": (313, 273), "kexec_file_load": (320, 294), "bpf": (321, 280),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "clone3": (435, 435), "openat2": (437, 437), "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440), "mount_setattr": (442, 442), "quotactl_fd": (443, 443),
    "fchmodat2": (452, 452), "open_tree_attr": (467, 467),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Test:
    """Refuse when the low word of argument `arg` satisfies `how` against any of `values`.

    `also`: a second condition that must hold as well, `(argument, bits any of which are set)`.
    """

    arg: int
    how: int
    values: tuple[int, ...]
    also: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class _Refusal:
    calls: tuple[str, ...]
    error: int = errno.EPERM
    test: _Test | None = field(default=None)


def _refused(unix_sockets: bool) -> tuple[_Refusal, ...]:
    families = (
        (_AF_PACKET, _AF_ALG, _AF_VSOCK) if unix_sockets else (_AF_PACKET, _AF_ALG, _AF_VSOCK, _AF_UNIX)
    )
    return (
        # Other processes' memory and descriptors.
        _Refusal(
            ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise")
        ),
        # Large kernel attack surface that builds and tests do without.
        _Refusal(("bpf", "perf_event_open", "userfaultfd", "lookup_dcookie")),
        _Refusal(("io_uring_setup", "io_uring_enter", "io_uring_register")),
        _Refusal(("add_key", "request_key", "keyctl")),
        # Changing what is mounted where, the old calls and the new.
        _Refusal(
            ("mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig")
        ),
        _Refusal(("fsmount", "fspick", "mount_setattr", "open_tree_attr")),
        _Refusal(("setns", "name_to_handle_at", "open_by_handle_at")),
        # The machine as a whole.
        _Refusal(("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot")),
        _Refusal(("swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "iopl", "ioperm", "uselib")),
        _Refusal(("sethostname", "setdomainname")),
        # Arguments behind a pointer cannot be judged; ENOSYS makes libc use the older call.
        _Refusal(("clone3", "openat2"), errno.ENOSYS),
        _Refusal(("unshare",), test=_Test(0, _JSET, (_CLONE_NEWUSER,))),
        _Refusal(("clone",), test=_Test(0, _JSET, (_CLONE_NEWUSER,))),
        _Refusal(("socket",), test=_Test(0, _JEQ, families)),
        # Typing into a terminal that others read.
        _Refusal(("ioctl",), test=_Test(1, _JEQ, (_TIOCSTI, _TIOCLINUX))),
        # A set-uid file made in the workspace would work outside.
        _Refusal(("chmod", "fchmod", "creat", "mknod"), test=_Test(1, _JSET, (_SET_ID_BITS,))),
        _Refusal(("fchmodat", "fchmodat2", "mknodat"), test=_Test(2, _JSET, (_SET_ID_BITS,))),
        _Refusal(("open",), test=_Test(2, _JSET, (_SET_ID_BITS,), also=(1, _O_CREAT | _O_TMPFILE))),
        _Refusal(("openat",), test=_Test(3, _JSET, (_SET_ID_BITS,), also=(2, _O_CREAT | _O_TMPFILE))),
    )


def supported(machine: str) -> bool:
    """Whether there is a filter for this machine (`platform.machine()`)."""
    return machine in _AUDIT_ARCH


@lru_cache(maxsize=8)
def program(machine: str, *, unix_sockets: bool = True) -> bytes:
    """The filter as `struct sock_filter[]`, ready for `bwrap --seccomp`.

    Args:
        machine: `x86_64` or `aarch64`.
        unix_sockets: whether `socket(AF_UNIX)` is allowed; `socketpair` always is.

    Raises:
        KeyError: there is no filter for this machine.
    """
    column = 0 if machine == "x86_64" else 1
    # A call by a foreign ABI has other numbers: ENOSYS, as on a kernel without it.
    out = [
        _op(_LOAD, _ARCH),
        _op(_JEQ, _AUDIT_ARCH[machine], 1, 0),
        _op(_RET, _ERRNO | errno.ENOSYS),
        _op(_LOAD, _NR),
    ]
    if machine == "x86_64":
        out += [_op(_JGE, _X32_BIT, 0, 1), _op(_RET, _ERRNO | errno.ENOSYS)]
    for refusal in _refused(unix_sockets):
        for call in refusal.calls:
            number = _NUMBERS[call][column]
            if number is not None:
                body = _body(refusal)
                out.append(_op(_JEQ, number, 0, len(body)))
                out += body
    out.append(_op(_RET, _ALLOW))
    return b"".join(out)


def _body(refusal: _Refusal) -> list[bytes]:
    """What stands behind a matching call number; every path through it returns."""
    refuse = _op(_RET, _ERRNO | refusal.error)
    test = refusal.test
    if test is None:
        return [refuse]
    out: list[bytes] = []
    if test.also is not None:
        argument, bits = test.also
        out += [_op(_LOAD, _low_word(argument)), _op(_JSET, bits, 1, 0), _op(_RET, _ALLOW)]
    out.append(_op(_LOAD, _low_word(test.arg)))
    for value in test.values:
        out += [_op(test.how, value, 0, 1), refuse]
    out.append(_op(_RET, _ALLOW))
    return out


def _low_word(argument: int) -> int:
    # Both machines are little-endian; all judged arguments are 32 bits wide in the kernel.
    return _ARGS + 8 * argument


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
