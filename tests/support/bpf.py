"""The BPF programs that the kernel has loaded, by bpf(2). They belong to no namespace."""

from __future__ import annotations

import ctypes
import os
import struct

_SYSCALL = 321  # bpf, on x86-64
_NEXT_ID, _FD_BY_ID, _INFO_BY_FD = 11, 13, 15
_INFO_BYTES, _NAME_AT, _NAME_BYTES = 128, 64, 16
_libc = ctypes.CDLL(None, use_errno=True)


def xdp_programs() -> set[int]:
    """The ids of the programs of libxdp and xdp-filter."""
    found, program = set(), 0
    while True:
        asked = ctypes.create_string_buffer(struct.pack("=III", program, 0, 0), 128)
        if _libc.syscall(_SYSCALL, _NEXT_ID, asked, 128) < 0:
            return found
        program = struct.unpack_from("=I", asked.raw, 4)[0]
        fd = _libc.syscall(_SYSCALL, _FD_BY_ID, ctypes.create_string_buffer(struct.pack("=I", program), 128), 128)
        if fd < 0:
            continue  # it was unloaded meanwhile
        info = ctypes.create_string_buffer(_INFO_BYTES)
        asked = ctypes.create_string_buffer(struct.pack("=IIQ", fd, _INFO_BYTES, ctypes.addressof(info)), 128)
        done = _libc.syscall(_SYSCALL, _INFO_BY_FD, asked, 128)
        os.close(fd)
        if done == 0 and info.raw[_NAME_AT : _NAME_AT + _NAME_BYTES].startswith(b"xdp"):
            found.add(program)
