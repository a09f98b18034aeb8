# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""System calls that this Python's library has no function for, and small files of the kernel."""
import contextlib
import ctypes
import os
import signal

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000

_CLONE3 = 435

libc = ctypes.CDLL(None, use_errno=True)
_with_lock = ctypes.PyDLL(None, use_errno=True)  # the interpreter's lock is not given up: for what forks


def check(result, what):
    """The result of a libc call; OSError when it is negative."""
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def setns(fd, kind=CLONE_NEWNET):
    check(libc.setns(fd, kind), "setns")


def unshare(kind):
    check(libc.unshare(kind), "unshare")


def set_name(name):
    """The name of the calling thread, as others see it."""
    libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def die_with_parent():
    """The kernel ends the calling process when the one that started it is gone, however it ended."""
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def fork_as(pid):
    """fork() whose child gets that process id, which must be free."""
    wanted = (ctypes.c_int * 1)(pid)
    # struct clone_args, up to set_tid_size
    arguments = (ctypes.c_uint64 * 10)(0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(wanted), 1)
    return check(_with_lock.syscall(_CLONE3, arguments, ctypes.sizeof(arguments)), f"clone3 as {pid}")


def mount_sysfs():
    """For a child in another network namespace: /sys shows the devices of that one."""
    unshare(CLONE_NEWNS)
    check(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "mount")
    check(libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None), "mount /sys")


@contextlib.contextmanager
def inside(netns_fd):
    """Runs the body in that network namespace."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        setns(netns_fd)
        try:
            yield
        finally:
            setns(home)
    finally:
        os.close(home)


def read_text(path):
    """The text of a file without the newline at its end; None when it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return None


def write_text(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(text))


@contextlib.contextmanager
def setting(path, value):
    """A file of the kernel with this value as long as the body runs, then as it was."""
    before = read_text(path)
    if before is None:
        raise OSError(f"cannot read {path}")
    write_text(path, value)
    try:
        yield
    finally:
        write_text(path, before)
