"""What cases of hopper.py are made of: a case names its kernels, so that they
can be compiled beforehand, and the family that must run it."""
import functools
import os
from collections import namedtuple

import facc
from harness import check_case, random_qkv

# Cases have some items (query tiles of a head) for each multiprocessor, so that
# CTAs go from one to the next; few where this is set (on a CPU).
SMALL = bool(os.environ.get("FACC_TEST_SMALL"))

Case = namedtuple("Case", "name run kernels family quick")
GROUPS = {}  # name -> generator function of cases


def group(name):
    def add(f):
        GROUPS[name] = f
        return f
    return add


def spec(dtype="bf16", D=128, Dv=None, out=None, **more):
    """A variant, as Program.kernel takes it."""
    if out:
        more["out_dtype"] = out
    return dict(dtype=dtype, head_dim=D, head_dim_v=Dv or D, **more)


def case(name, run, kernels, family="sm90", quick=False):
    return Case(name, run, kernels, family, quick)


def heads(H, Hkv):
    return (max(H // Hkv, 1) * (1 + (Hkv > 1)), 1 + (Hkv > 1)) if SMALL else (H, Hkv)


# ---- programs ------------------------------------------------------------------

def expression(mask=None, score=None):
    return facc.find_program(score_mod=score, mask_mod=mask)


def counted(i, j):
    return (i >= 0) & (j >= 0)


PLAIN, CAUSAL, WINDOW = None, "q >= kv", "q >= kv and q - kv < w"
KEEPS = {PLAIN: None, CAUSAL: lambda i, j: i >= j}


@functools.cache
def window_program():
    return facc.Program.from_expressions(mask=WINDOW, declarations=(("w", "i32", None),))


@functools.cache
def slope_program(mask):
    return facc.Program.from_expressions(score="score + c * kv", mask=mask, declarations=(("c", "f32", None),))


def mod_of(keep, score=lambda s, i, j: s):
    """Oracle of a mask (or None) and a score, both of positions alone."""
    if keep is None:
        return lambda s, b, h, i, j: (score(s, i, j), True)
    return lambda s, b, h, i, j: (score(s, i, j), keep(i, j))


def one(mask, shape, D=128, Dv=None, dtype="bf16", out=None, seed=1, quick=False, keep=None, name="", gain=1.0,
        change=None, **more):
    """mask: an expression of positions; shape: B, H, Hkv, Sq, Skv; change(q, k,
    v): in place."""
    keep = keep or KEEPS.get(mask)
    program = expression(mask)

    def run():
        q, k, v = random_qkv(*shape, D, Dv, dtype=dtype, seed=seed, gain=gain)
        if change:
            change(q, k, v)
        check_case(program, q, k, v, mod_of(keep), causal=mask == CAUSAL if mask in (PLAIN, CAUSAL) else None,
                   variant={"out_dtype": out} if out else None, **more)
    dims = f"D={D}" if Dv in (None, D) else f"D={D}/{Dv}"
    text = " ".join(filter(None, (name, mask or "plain", str(shape), dims, dtype, f"-> {out}" if out else "",
                                  f"scale={more['scale']:g}" if "scale" in more else "")))
    return case(text, run, [(program, spec(dtype, D, Dv, out))], quick=quick)
