"""The system-call filter, run by a small BPF machine: every refused call, every allowed neighbour."""

from __future__ import annotations

import errno
import struct

import pytest

from pegboard.shell.sandbox.seccomp import program, supported

ALLOW = 0x7FFF0000
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# From the kernel's tables (arch/x86/entry/syscalls/syscall_64.tbl, asm-generic/unistd.h).
NR = {
    "x86_64": {"read": 0, "open": 2, "ioctl": 16, "socket": 41, "socketpair": 53, "clone": 56, "chmod": 90,
               "ptrace": 101, "mount": 165, "openat": 257, "unshare": 272, "fchmodat": 268, "setns": 308,
               "bpf": 321, "clone3": 435, "openat2": 437, "io_uring_setup": 425, "keyctl": 250, "mknodat": 259},
    "aarch64": {"read": 63, "ioctl": 29, "socket": 198, "socketpair": 199, "clone": 220, "ptrace": 117,
                "mount": 40, "openat": 56, "unshare": 97, "fchmodat": 53, "setns": 268, "bpf": 280,
                "clone3": 435, "openat2": 437, "io_uring_setup": 425, "keyctl": 219, "mknodat": 33},
}  # fmt: skip


def verdict(code: bytes, arch: int, nr: int, *args: int) -> int:
    """What a classic BPF machine answers (linux/filter.h)."""
    data = struct.pack("<IIQ6Q", nr, arch, 0, *(args + (0,) * (6 - len(args))))
    at, accumulator = 0, 0
    while True:
        op, yes, no, k = struct.unpack_from("<HBBI", code, at * 8)
        at += 1
        if op == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, k)
        elif op == 0x15:
            at += yes if accumulator == k else no
        elif op == 0x35:
            at += yes if accumulator >= k else no
        elif op == 0x45:
            at += yes if accumulator & k else no
        elif op == 0x06:
            return k
        else:
            raise AssertionError(op)


def refused(code: int) -> int:
    return 0x00050000 | code


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_ordinary_calls_pass_and_dangerous_ones_do_not(machine: str) -> None:
    code, arch, nr = program(machine), ARCH[machine], NR[machine]

    assert verdict(code, arch, nr["read"]) == ALLOW
    for name in ("ptrace", "mount", "setns", "bpf", "io_uring_setup", "keyctl"):
        assert verdict(code, arch, nr[name]) == refused(errno.EPERM), name
    for name in ("clone3", "openat2"):
        assert verdict(code, arch, nr[name]) == refused(errno.ENOSYS), name


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_arguments_decide_where_they_must(machine: str) -> None:
    code, arch, nr = program(machine), ARCH[machine], NR[machine]
    eperm = refused(errno.EPERM)

    assert verdict(code, arch, nr["clone"], 0x10000000 | 17) == eperm
    assert verdict(code, arch, nr["clone"], 0x01200011) == ALLOW
    assert verdict(code, arch, nr["unshare"], 0x10000000) == eperm
    assert verdict(code, arch, nr["unshare"], 0x400) == ALLOW
    assert verdict(code, arch, nr["ioctl"], 0, 0x5412) == eperm
    assert verdict(code, arch, nr["ioctl"], 0, 0x5401) == ALLOW
    assert verdict(code, arch, nr["openat"], 0, 0, 0o101, 0o4755) == eperm
    assert verdict(code, arch, nr["openat"], 0, 0, 0o101, 0o755) == ALLOW
    assert verdict(code, arch, nr["openat"], 0, 0, 0, 0o4755) == ALLOW
    assert verdict(code, arch, nr["fchmodat"], 0, 0, 0o2755) == eperm
    assert verdict(code, arch, nr["fchmodat"], 0, 0, 0o1777) == ALLOW
    assert verdict(code, arch, nr["mknodat"], 0, 0, 0o104755) == eperm
    for family, answer in (
        (1, ALLOW),
        (2, ALLOW),
        (10, ALLOW),
        (16, ALLOW),
        (17, eperm),
        (38, eperm),
        (40, eperm),
    ):
        assert verdict(code, arch, nr["socket"], family) == answer, family


def test_upper_halves_of_arguments_hide_nothing() -> None:
    assert verdict(program("x86_64"), ARCH["x86_64"], 41, (1 << 32) | 17) == refused(errno.EPERM)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_unix_sockets_can_be_refused_and_pairs_stay(machine: str) -> None:
    code, arch, nr = program(machine, unix_sockets=False), ARCH[machine], NR[machine]

    assert verdict(code, arch, nr["socket"], 1) == refused(errno.EPERM)
    assert verdict(code, arch, nr["socket"], 2) == ALLOW
    assert verdict(code, arch, nr["socketpair"], 1) == ALLOW


def test_foreign_abis_do_not_exist() -> None:
    assert verdict(program("x86_64"), 0x40000003, 1) == refused(errno.ENOSYS)
    assert verdict(program("x86_64"), ARCH["x86_64"], 0x40000000) == refused(errno.ENOSYS)
    assert verdict(program("aarch64"), 0x40000028, 1) == refused(errno.ENOSYS)


def test_every_number_has_an_answer() -> None:
    for machine in ARCH:
        for number in range(600):
            verdict(program(machine), ARCH[machine], number)


def test_only_two_machines_have_a_filter() -> None:
    assert supported("x86_64")
    assert supported("aarch64")
    assert not supported("riscv64")
