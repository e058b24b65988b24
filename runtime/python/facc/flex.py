"""FlexAttention's calling convention on facc: switch one import,

    from facc.flex import flex_attention, create_block_mask

and keep the mods; other names of PyTorch's module can be had from here, too. A
score_mod or mask_mod in Python is called once with symbols in place of its
scalars and becomes a Lua function; tensors that it reads are captured.
create_block_mask computes nothing: facc finds the tiles to skip from the mask
itself. A BlockMask of PyTorch is taken with its lists.

Under torch.compile a call is a graph break; facc.attention with mods in Lua is
none. There are no gradients."""
import inspect
import os
from collections import namedtuple

import torch

from . import _abi, attention
from ._error import Error, warn
from ._flex_trace import translate

try:
    from torch.nn.attention import flex_attention as _theirs
except ImportError:  # PyTorch before 2.5 has no FlexAttention
    _theirs = None

__all__ = ["AuxOutput", "MaskMod", "create_block_mask", "flex_attention", "translate"]

AuxOutput = getattr(_theirs, "AuxOutput", None) or namedtuple("AuxOutput", "lse max_scores", defaults=(None, None))
MANY_PROGRAMS = 8
_texts = {}  # by a mod's code: hashes of what it came to
# What PyTorch's BlockMask is made of; newer ones have more.
LISTS = {name + kind for name in ("kv", "full_kv", "q", "full_q") for kind in ("_num_blocks", "_indices")}
LISTS |= set(getattr(getattr(_theirs, "BlockMask", None), "__annotations__", ()))


def __getattr__(name):  # BlockMask, and_masks, AuxRequest, …
    if _theirs is None or not hasattr(_theirs, name):
        raise AttributeError(f"facc.flex has no {name}, and neither has PyTorch's FlexAttention")
    return getattr(_theirs, name)


class MaskMod(_theirs.BlockMask if _theirs else object):
    """A BlockMask whose lists are made when somebody looks at them: facc does
    not."""

    def __init__(self, mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=128):
        self.mask_mod, self.B, self.H, self.seq_lengths, self.device = mask_mod, B, H, (Q_LEN, KV_LEN), device
        self.BLOCK_SIZE = tuple(BLOCK_SIZE) if isinstance(BLOCK_SIZE, (tuple, list)) else (BLOCK_SIZE, BLOCK_SIZE)

    def __getattr__(self, name):
        if name not in LISTS:
            raise AttributeError(name)
        if _theirs is None or isinstance(self.mask_mod, (str, os.PathLike)):
            raise Error(_abi.ERR_UNSUPPORTED, f"block_mask.{name}: lists are made by PyTorch's FlexAttention, of "
                        "mask_mods in Python")
        made = _theirs.create_block_mask(self.mask_mod, self.B, self.H, *self.seq_lengths, BLOCK_SIZE=self.BLOCK_SIZE,
                                         **({} if self.device is None else {"device": self.device}))
        self.__dict__.update((n, x) for n, x in vars(made).items() if n not in self.__dict__)
        return self.__dict__[name]

    @property
    def shape(self):
        return (self.B or 1, self.H or 1, *self.seq_lengths)

    def _with(self, Q_LEN, KV_LEN, device):
        return MaskMod(self.mask_mod, self.B, self.H, Q_LEN, KV_LEN, device, self.BLOCK_SIZE)

    def _adjust(self, new_q_len, new_kv_len):
        return self._with(new_q_len, new_kv_len, self.device)

    def to(self, device):
        return self._with(*self.seq_lengths, device)


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=128, _compile=False):
    """For flex_attention() of this module; costs nothing until its lists are
    looked at."""
    return MaskMod(mask_mod, B, H, Q_LEN, KV_LEN, device, BLOCK_SIZE)


def check_sizes(mask, q, k):
    """What PyTorch's flex_attention checks, too."""
    lengths, made_for = (q.shape[2], k.shape[2]), getattr(mask, "seq_lengths", None)
    whole = getattr(_theirs, "_LARGE_SPARSE_BLOCK_SIZE", 1 << 30)
    if made_for is not None and tuple(made_for) != lengths and tuple(mask.BLOCK_SIZE) != (whole, whole):
        raise Error(_abi.ERR_ARGUMENT, f"block_mask was made for lengths {made_for[0]} and {made_for[1]}, query and "
                    f"key have {lengths[0]} and {lengths[1]}: make another one, or block_mask._adjust{lengths}")
    if isinstance(mask, MaskMod):  # lists are looked at where they are read
        for name, want, have in ("B", mask.B, q.shape[0]), ("H", mask.H, q.shape[1]):
            if want not in (None, 1, have):
                raise Error(_abi.ERR_ARGUMENT, f"block_mask was made for {name} {want}, the query has {have}")


def watch(mod, text):
    """Warns once if a mod comes to ever new programs."""
    code = getattr(mod, "__code__", None)
    if code is None or (mod.__module__ or "").startswith("torch."):  # and_masks, of any mods
        return
    texts = _texts.setdefault(code, set())
    if len(texts) < MANY_PROGRAMS and hash(text) not in texts:
        texts.add(hash(text))
        if len(texts) == MANY_PROGRAMS:
            warn(f"{mod.__qualname__} came to {MANY_PROGRAMS} programs, and each is compiled: a number that changes "
                 "from call to call belongs in a tensor of rank 0, torch.tensor(n), which is read at each call")


def mods_of(score_mod, block_mask, device):
    """Keywords of attention() for both mods."""
    call = dict(tensors={}, params={})
    mask_mod = getattr(block_mask, "mask_mod", None)
    for key, function in ("score_mod", score_mod), ("mask_mod", mask_mod):
        if callable(function):
            text, tensors, params = translate(function, key, device)
            watch(function, text)
            call["tensors"].update(tensors)
            call["params"].update(params)
            call[key] = text
        elif function is not None:  # a mod in Lua
            call[key] = function
    return call


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False,
                   kernel_options=None, *, return_aux=None):
    """torch.nn.attention.flex_attention.flex_attention by facc. block_mask is
    PyTorch's, facc.BlockMask, or create_block_mask's of this module;
    kernel_options are of no meaning here."""
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise Error(_abi.ERR_ARGUMENT, f"query has {query.shape[1]} heads, key {key.shape[1]}: set enable_gqa=True")
    if query.shape[0] != key.shape[0] == 1:  # one set of keys for all queries
        key, value = (x.expand(query.shape[0], -1, -1, -1) for x in (key, value))
    if return_aux is not None and getattr(return_aux, "max_scores", False):
        raise Error(_abi.ERR_UNSUPPORTED, "return_aux: max_scores are not there")
    call = mods_of(score_mod, block_mask, query.device)
    if block_mask is not None:
        check_sizes(block_mask, query, key)
        if not isinstance(block_mask, MaskMod):
            call["block_mask"] = block_mask
    lse = return_lse or bool(getattr(return_aux, "lse", False))
    result = attention(query, key, value, scale=scale, return_lse=lse, **call)
    if return_aux is not None:
        return (result[0], AuxOutput(lse=result[1])) if lse else (result, AuxOutput())
    return result


_why = {"reason": "facc.flex translates mods in Python at each call; facc.attention with mods in Lua stays whole"}
if "reason" not in inspect.signature(torch.compiler.disable).parameters:  # before 2.7
    _why = {}
flex_attention = torch.compiler.disable(flex_attention, **_why)
