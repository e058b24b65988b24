"""facc.Error: what facc_error says, as an exception. facc.FaccWarning: what is
allowed, and hardly meant."""
import ctypes
import sys
import warnings

from . import _abi


class Error(RuntimeError):
    """status: number of facc_status; status_name: its name; stage, file, line
    (0 when there is none), log: NVRTC's log or a Lua traceback."""

    def __init__(self, status, message, stage="", file="", line=0, log=""):
        super().__init__(message + ("\n" + log if log else ""))
        self.status, self.message = status, message
        self.status_name = _abi.STATUS.get(status, "FACC_ERR_?")
        self.stage, self.file, self.line, self.log = stage, file, line, log


class FaccWarning(UserWarning):
    """Of a mod: a computed value that nothing uses, say."""


def warn(message):
    """A FaccWarning at the nearest line that is neither facc's nor PyTorch's, whose
    generated code is in no module."""
    level, frame = 2, sys._getframe(1)
    while frame and frame.f_globals.get("__name__", "torch").partition(".")[0] in ("facc", "torch"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, FaccWarning, level)


def new_error():
    return _abi.error(struct_size=ctypes.sizeof(_abi.error))


def check(status, error=None):
    """Raises what a call with `error` as its facc_error has reported."""
    if status != 0:
        error = error or new_error()

        def s(b):
            return b.decode(errors="replace")
        raise Error(status, s(error.message) or _abi.STATUS.get(status, str(status)),
                    s(error.stage), s(error.file), error.line, s(error.log))
