#!/usr/bin/env python3
"""Compares the built kernels with their budgets: how many a chip has, how large their images are, and how
large the library is without them. The sizes are printed, the largest kernels' code first.
"""

import argparse
import pathlib
import re
import struct
import sys

MOST_KERNELS = 300
MOST_IMAGE_BYTES = 40 << 20      # all chips together
MOST_KERNEL_BYTES = 256 << 10    # code of one kernel: it has to be fetched by every launch
MOST_LIBRARY_BYTES = 10 << 20    # without the kernels
KERNEL_LINE = re.compile(r"^LAMPPOST_\w+\((\w+)", re.MULTILINE)


def code_sizes(image: bytes) -> dict[str, int]:
    """Bytes of code by kernel, from the sections `.text.NAME` of a 64-bit ELF file."""
    section_offset, = struct.unpack_from("<Q", image, 0x28)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", image, 0x3A)
    sections = []
    for i in range(count):
        name, _, _, _, offset, size = struct.unpack_from("<IIQQQQ", image, section_offset + i * entry_bytes)
        sections.append((name, offset, size))
    names = sections[names_index][1]
    sizes = {}
    for name, _, size in sections:
        end = image.index(b"\0", names + name)
        text = image[names + name:end].decode()
        if text.startswith(".text."):
            sizes[text.removeprefix(".text.")] = size
    return sizes


def problems(kernels: list[str], sizes: dict[str, int], image_bytes: int, library_bytes: int) -> list[str]:
    found = []
    if len(sizes) > MOST_KERNELS:
        found.append(f"{len(sizes)} kernels a chip; at most {MOST_KERNELS}")
    for name in sorted(set(kernels) ^ set(sizes)):
        found.append(f"{name}: {'not in the image' if name in kernels else 'not in kernels.def'}")
    for name, size in sizes.items():
        if size > MOST_KERNEL_BYTES:
            found.append(f"{name}: {size} bytes of code; at most {MOST_KERNEL_BYTES}")
    if image_bytes > MOST_IMAGE_BYTES:
        found.append(f"images of {image_bytes} bytes; at most {MOST_IMAGE_BYTES}")
    if library_bytes - image_bytes > MOST_LIBRARY_BYTES:
        found.append(f"{library_bytes - image_bytes} bytes of library; at most {MOST_LIBRARY_BYTES}")
    return found


def self_test() -> list[str]:
    good = (["a"], {"a": 1}, 1, 1)
    failures = [f"good: {p}" for p in problems(*good)]
    planted = {
        "kernels a chip": ([], {str(i): 1 for i in range(MOST_KERNELS + 1)}, 1, 1),
        "not in the image": (["a", "b"], {"a": 1}, 1, 1),
        "not in kernels.def": (["a"], {"a": 1, "b": 1}, 1, 1),
        "bytes of code": (["a"], {"a": MOST_KERNEL_BYTES + 1}, 1, 1),
        "images of": (["a"], {"a": 1}, MOST_IMAGE_BYTES + 1, 1),
        "bytes of library": (["a"], {"a": 1}, 1, MOST_LIBRARY_BYTES + 2),
    }
    for wanted, case in planted.items():
        if not any(wanted in p for p in problems(*case)):
            failures.append(f"planted fault not found: {wanted}")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=pathlib.Path)
    parser.add_argument("--library", type=pathlib.Path)
    parser.add_argument("--image", type=pathlib.Path)
    parser.add_argument("cubin", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    found = self_test()
    kernels = KERNEL_LINE.findall(options.kernels.read_text())
    for cubin in options.cubin:
        sizes = code_sizes(cubin.read_bytes())
        for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
            print(f"{cubin.stem} {size:8d} {name}")
        found += problems(kernels, sizes, options.image.stat().st_size, options.library.stat().st_size)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
