#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Writes the BTF of a kernel image (x86 bzImage, arm64 Image or EFI zboot) to a file.

usage: extract_btf.py VMLINUZ OUTPUT
"""

import bz2
import lzma
import struct
import subprocess
import sys
import zlib

BTF_HEADER = struct.Struct("<HBBIIIII")  # magic, version, flags, hdr_len, type off/len, str off/len
BTF_START = struct.pack("<HBBII", 0xEB9F, 1, 0, BTF_HEADER.size, 0)
SMALLEST_KERNEL_BTF_BYTES = 500_000


def zstd(data):
    # The stream is followed by bytes that do not belong to it: zstd writes what it has and then
    # complains, so the exit status is of no use. The search for BTF below checks the result.
    return subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False).stdout


def decompress(data):
    """Decompresses by magic; data in no known format is returned as it is."""
    if data[:6] == b"\xfd7zXZ\0":
        return lzma.LZMADecompressor().decompress(data)
    if data[:3] == b"\x5d\0\0":
        return lzma.LZMADecompressor(lzma.FORMAT_ALONE).decompress(data)
    if data[:2] == b"\x1f\x8b":
        return zlib.decompressobj(31).decompress(data)
    if data[:3] == b"BZh":
        return bz2.BZ2Decompressor().decompress(data)
    if data[:4] == b"\x28\xb5\x2f\xfd":
        return zstd(data)
    return data


def kernel_in(image):
    """The uncompressed kernel inside a boot image."""
    if image[0x202:0x206] == b"HdrS":  # x86 boot protocol: the header says where the payload is
        setup_sectors = image[0x1F1] or 4
        offset, length = struct.unpack_from("<II", image, 0x248)
        start = (setup_sectors + 1) * 512 + offset
        return decompress(image[start:start + length])
    if image[:2] == b"MZ" and image[4:8] == b"zimg":  # EFI zboot (arm64)
        offset, length = struct.unpack_from("<II", image, 8)
        return decompress(image[offset:offset + length])
    return decompress(image)


def find_btf(kernel):
    """The largest well-formed BTF blob: an image may hold small ones beside the kernel's own."""
    best = b""
    at = kernel.find(BTF_START)
    while at >= 0:
        *_, type_len, str_off, str_len = BTF_HEADER.unpack_from(kernel, at)
        strings = at + BTF_HEADER.size + str_off
        blob = kernel[at:strings + str_len]
        if (str_off == type_len and len(blob) == BTF_HEADER.size + type_len + str_len
                and str_len > 0 and kernel[strings] == 0 and blob[-1] == 0
                and len(blob) > len(best)):
            best = blob
        at = kernel.find(BTF_START, at + 1)
    return best


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip().splitlines()[-1])
    with open(sys.argv[1], "rb") as file:
        btf = find_btf(kernel_in(file.read()))
    if len(btf) < SMALLEST_KERNEL_BTF_BYTES:
        sys.exit(f"{sys.argv[1]}: no kernel BTF found")
    with open(sys.argv[2], "wb") as file:
        file.write(btf)


if __name__ == "__main__":
    main()
