"""What large bodies free is kept for the next ones, instead of given back to the kernel each time.

A body of 200 KB is read into pieces, and its JSON is parsed in twelve times its length. glibc takes
blocks of such sizes from the end of its heap and returns the end to the kernel when some megabytes
of it are free: then each request gets its pages anew, zeroed one by one, which was a seventh of its
CPU time. Reading bodies into buffers of our own lost: the parser's block is the largest of them.
"""

import ctypes
import os

KEPT_BYTES = 64 << 20
"""Free memory at the end of the heap that stays; what was never used costs nothing."""

OWN_MAPPING_BYTES = 4 << 20
"""Blocks from this size on are mapped by themselves, and go back to the kernel when they are freed:
a few bodies of many megabytes leave nothing behind."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""mallopt(3), malloc.h of glibc."""

OF_THE_OPERATOR = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""Who set one of these in the environment knows what he wants."""


def keep_freed_memory() -> bool:
    """For the whole process, from now on. False where it is left as it is: another C library than
    glibc, or the environment says how."""
    if any(name in os.environ for name in OF_THE_OPERATOR):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # Each of them ends glibc's own adjusting of both, so it is both or none.
    return bool(
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(M_MMAP_THRESHOLD, OWN_MAPPING_BYTES)
    )
