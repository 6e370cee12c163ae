"""libshunt.so loads by dlopen into a program that knows nothing of it, works
there, and leaves the program's malloc alone.

Usage: load.py LIBRARY
"""
import ctypes
import os
import sys


def owner_of(name, where=None):
    """The file that the symbol `name` comes from, as the process sees it, or
    as the library `where` does."""

    class Info(ctypes.Structure):
        _fields_ = [
            ("file", ctypes.c_char_p),
            ("base", ctypes.c_void_p),
            ("symbol", ctypes.c_char_p),
            ("address", ctypes.c_void_p),
        ]

    process = ctypes.CDLL(None)
    address = ctypes.cast(getattr(where or process, name), ctypes.c_void_p)
    info = Info()
    process.dladdr.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    if process.dladdr(address, ctypes.byref(info)) == 0:
        sys.exit(f"dladdr does not know {name}")
    return info.file.decode()


def check(truth, message):
    if not truth:
        sys.exit(message)


def use(shunt):
    """A world of one rank, and some of its memory."""
    shunt.shunt_alloc.restype = ctypes.c_void_p
    shunt.shunt_error_message.restype = ctypes.c_char_p
    world = ctypes.c_void_p()
    status = shunt.shunt_world_create(None, ctypes.byref(world))
    check(status == 0, shunt.shunt_error_message())
    for size in (1, 1000, 8 << 20):
        memory = shunt.shunt_alloc(world, ctypes.c_size_t(size))
        check(memory, shunt.shunt_error_message())
        check(memory % 64 == 0, f"{memory:#x} is not 64-byte aligned")
        ctypes.memset(memory, 0xAB, size)
        shunt.shunt_free(world, ctypes.c_void_p(memory))
    shunt.shunt_world_destroy(world)


def main():
    for name in list(os.environ):
        if name.startswith(("SHUNT_", "OMPI_", "PMI", "SLURM_")):
            del os.environ[name]
    names = ("malloc", "free", "calloc", "realloc", "posix_memalign")
    before = [owner_of(name) for name in names]
    shunt = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
    shunt.shunt_version.restype = ctypes.c_char_p
    version = shunt.shunt_version().decode()
    check(version.count(".") == 2, f"shunt_version() is {version!r}")
    use(shunt)
    after = [owner_of(name) for name in names]
    check(before == after, f"malloc was {before}, is {after}")
    # Where the process sees it may be the program's own table of jumps to
    # libc; the library sees the definition, which would be its own first.
    own = [owner_of(name, shunt) for name in names]
    check(all("libc.so" in os.path.basename(file) for file in own),
          f"the library's malloc is from {own}")


main()
