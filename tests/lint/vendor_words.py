#!/usr/bin/env python3
"""Checks that GPU vendors' names stay in the files that are meant to hold them.

Those are the cuda, hip and host targets, src/driver/ and collectives/entry*. In all other product
code comments and strings are blanked out and the words below must not be left."""

import pathlib
import re
import sys

import lint

WORDS = re.compile(
    r"\b(?:cu[A-Z]|cuda[A-Z_]|hip[A-Z_]|__hip|__nv|threadIdx|blockIdx|__shfl|__sync|asm|__asm)\w*")
EXEMPT = re.compile(r"include/lamppost/device/(?:cuda|hip|host)\.hpp|src/driver/.*|collectives/entry[^/]*")


def check(root: pathlib.Path) -> list:
    findings = []
    for file in lint.source_files(root, lint.PRODUCT_FOLDERS):
        path = lint.relative(root, file)
        if EXEMPT.fullmatch(path):
            continue
        text = lint.strip(file.read_text(encoding="utf-8"))
        for number, line in enumerate(text.splitlines(), 1):
            for word in (match.group() for match in WORDS.finditer(line)):
                findings.append(lint.Finding(path, number, f"vendor word {word}"))
    return findings


def self_test(test: lint.SelfTest) -> None:
    clean = {
        "include/lamppost/device/cuda.hpp": 'asm volatile("x"); threadIdx.x;\n',
        "include/lamppost/device/host.hpp": "asm volatile();\n",
        "src/driver/cuda.cc": "cuMemCreate(); cudaMalloc();\n",
        "collectives/entry_cuda.cu": "blockIdx.x\n",
        "collectives/a.hpp": (
            "// threadIdx\n/* cuMemCreate\n cudaMalloc */ int cute, plasma = 1'000'000;\n"
            'const char* a = "cudaMalloc \\" hipMalloc"; char c = \'"\'; int hipster = LP_CUDA;\n'
            'const char* b = R"x(asm " threadIdx)x";\n#include "lamppost/device/cuda.hpp"\n'
            "kind == Backend::kCuda, shape.block_idx\n"),
    }
    plants = {
        "threadIdx.x": "threadIdx", "cuMemCreate(&h)": "cuMemCreate", "cudaStream_t s": "cudaStream_t",
        "hipMalloc(p)": "hipMalloc", "__hip_atomic_load(p)": "__hip_atomic_load",
        "__nv_bfloat16 x": "__nv_bfloat16", "__syncthreads()": "__syncthreads",
        "__shfl_xor_sync(m, v, 1)": "__shfl_xor_sync", 'asm volatile("nop")': "asm",
        '__asm__("nop")': "__asm__", "#include <cuda_fp16.h>": "cuda_fp16",
        'f("a", blockIdx.y, "b")': "blockIdx", "/* a */ hipFree(p) // b": "hipFree",
        "x = 1'000 + threadIdx.x; y = 2'000": "threadIdx",
    }
    with lint.planted(clean) as root:
        test.expect("the clean tree", check(root))
    for code, word in plants.items():
        with lint.planted({**clean, "transports/shm/a.cc": f"\n{code}\n"}) as root:
            test.expect(code, check(root), f"transports/shm/a.cc:2: vendor word {word}")
    with lint.planted({"src/base/driver.hpp": "cuInit", "collectives/x/entry.hpp": "cuInit"}) as root:
        test.expect("names that only look exempt", check(root), "src/base", "collectives/x")


if __name__ == "__main__":
    sys.exit(lint.main(__doc__.splitlines()[0], check, self_test))
