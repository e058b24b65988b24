"""FlexAttention's calling convention on facc: switch one import,

    from facc.flex import flex_attention, create_block_mask

and keep the mods. A score_mod or mask_mod in Python is called once with symbols
in place of its scalars and becomes a Lua function; tensors that it reads are
captured. create_block_mask computes nothing: facc finds the tiles to skip from
the mask itself. A BlockMask of PyTorch is taken with its lists.

Under torch.compile a call is a graph break; facc.attention with mods in Lua is
none. There are no gradients."""
import functools
from collections import namedtuple

import torch

from . import _abi, attention
from ._error import Error
from ._flex_trace import translate
from ._sequences import BlockMask

try:
    from torch.nn.attention.flex_attention import and_masks, noop_mask, or_masks
except ImportError:  # PyTorch before 2.5 has no FlexAttention
    and_masks = noop_mask = or_masks = None

__all__ = ["AuxOutput", "MaskMod", "and_masks", "create_block_mask", "flex_attention", "noop_mask", "or_masks",
           "translate"]

MaskMod = namedtuple("MaskMod", "mask_mod B H Q_LEN KV_LEN BLOCK_SIZE")
MaskMod.__doc__ = """A mask without lists, of create_block_mask()."""
AuxOutput = namedtuple("AuxOutput", "lse max_scores", defaults=(None, None))


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=128, _compile=False):
    """For flex_attention() of this module; costs nothing, holds no tensors."""
    return MaskMod(mask_mod, B, H, Q_LEN, KV_LEN, BLOCK_SIZE)


def check_sizes(mask, q, k):
    """What PyTorch's flex_attention checks, too."""
    for name, want, have in (("B", mask.B, q.shape[0]), ("H", mask.H, q.shape[1])):
        if want not in (None, 1, have):
            raise Error(_abi.ERR_ARGUMENT, f"block_mask was made for {name} {want}, the query has {have}")
    if (mask.Q_LEN, mask.KV_LEN) != (q.shape[2], k.shape[2]):
        raise Error(_abi.ERR_ARGUMENT, f"block_mask was made for lengths {mask.Q_LEN} and {mask.KV_LEN}, query and key "
                    f"have {q.shape[2]} and {k.shape[2]}")


def mods_of(score_mod, block_mask, device):
    """Keywords of attention() for both mods."""
    call = dict(tensors={}, params={})
    mask_mod = getattr(block_mask, "mask_mod", None)
    for key, function in ("score_mod", score_mod), ("mask_mod", mask_mod):
        if callable(function):
            text, tensors, params = translate(function, key, device)
            call["tensors"].update(tensors)
            call["params"].update(params)
            call[key] = text
        elif function is not None:  # a mod in Lua
            call[key] = function
    return call


@functools.partial(torch.compiler.disable, recursive=True)
def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False,
                   kernel_options=None, *, return_aux=None):
    """torch.nn.attention.flex_attention.flex_attention by facc. block_mask is
    PyTorch's, facc.BlockMask, or create_block_mask's of this module;
    kernel_options are of no meaning here."""
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise Error(_abi.ERR_ARGUMENT, f"query has {query.shape[1]} heads, key {key.shape[1]}: set enable_gqa=True")
    call = mods_of(score_mod, block_mask, query.device)
    if isinstance(block_mask, MaskMod):
        check_sizes(block_mask, query, key)
    elif block_mask is not None:
        call["block_mask"] = block_mask
    if return_aux is not None and getattr(return_aux, "max_scores", False):
        raise Error(_abi.ERR_UNSUPPORTED, "return_aux: max_scores are not there")
    lse = return_lse or bool(getattr(return_aux, "lse", False))
    result = attention(query, key, value, scale=scale, return_lse=lse, **call)
    if return_aux is not None:
        return (result[0], AuxOutput(lse=result[1])) if lse else (result, AuxOutput())
    return result
