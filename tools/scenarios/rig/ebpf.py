# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Two tiny BPF programs, written out as instructions: one that lets all packets pass in XDP, and one
that drops some on their way out. They go with the descriptor of their link."""
import contextlib
import ctypes
import os
import socket
import struct

from . import system

_BPF = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD, _LINK_CREATE = 5, 28
_SCHED_CLS, _XDP = 3, 6
_ATTACH_XDP, _ATTACH_TCX_EGRESS = 37, 47
_XDP_GENERIC, _XDP_NATIVE = 2, 4
_LEN_OFFSET = 0  # of struct __sk_buff
_CALL_RANDOM = 7


def _bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, 128)
    return system.check(system.libc.syscall(_BPF[os.uname().machine], command, buffer, 128), "bpf")


def _instruction(code, destination=0, source=0, offset=0, value=0):
    return struct.pack("=BBhi", code, source << 4 | destination, offset, value)


def _load(kind, attach, instructions):
    code = ctypes.create_string_buffer(b"".join(instructions))
    licence = ctypes.create_string_buffer(b"Dual BSD/GPL")
    # prog_type, insn_cnt, insns, license, log_level, log_size, log_buf, kern_version, prog_flags,
    # prog_name, prog_ifindex, expected_attach_type
    return _bpf(_PROG_LOAD, struct.pack("=IIQQIIQII16sII", kind, len(instructions), ctypes.addressof(code),
                                        ctypes.addressof(licence), 0, 0, 0, 0, 0, b"", 0, attach))


@contextlib.contextmanager
def _linked(netns_fd, device, kind, attach, flags, instructions):
    program = _load(kind, attach, instructions)
    try:
        with system.inside(netns_fd):
            index = socket.if_nametoindex(device)
            link = _bpf(_LINK_CREATE, struct.pack("=IIII", program, index, attach, flags))
    finally:
        os.close(program)
    try:
        yield
    finally:
        os.close(link)


def pass_in_xdp(netns_fd, device, native=False):
    """XDP on that device, generic or by its driver; every packet passes."""
    return _linked(netns_fd, device, _XDP, _ATTACH_XDP, _XDP_NATIVE if native else _XDP_GENERIC,
                   [_instruction(0xB7, 0, value=2), _instruction(0x95)])


def drop_one_in(netns_fd, device, one_in, longer_than):
    """Drops one of so many packets that leave through the device and are longer than that."""
    return _linked(netns_fd, device, _SCHED_CLS, _ATTACH_TCX_EGRESS, 0, [
        _instruction(0xBF, 6, 1),                        # r6 = the packet
        _instruction(0x61, 7, 6, _LEN_OFFSET),           # r7 = its length
        _instruction(0xB5, 7, 0, 4, longer_than),        # short: pass
        _instruction(0x85, value=_CALL_RANDOM),
        _instruction(0x97, 0, value=one_in),             # r0 %= one_in; 64 bit, r0 holds 32
        _instruction(0x55, 0, 0, 1, 0),                  # not this one
        _instruction(0x05, offset=2),                    # to the drop
        _instruction(0xB7, 0, value=0),                  # TCX_PASS
        _instruction(0x95),
        _instruction(0xB7, 0, value=2),                  # TCX_DROP
        _instruction(0x95)])
