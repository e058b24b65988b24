"""What a launch visits: read from the schedule that it left in its workspace,
or, of plain bounds, asked of facc_verdict_map. Counts are of one (b, h)."""
import ctypes as c
from types import SimpleNamespace

ROW_BYTES, ALIGN, TILES, MAX_ENTRIES = 24, 256, 32, 128  # kernel_args.h, runtime/schedule.c


def groups_of(info):
    """Warp groups of a CTA that have query rows of their own."""
    if info.family == "sm90":
        return info.tile_m // 64
    return 2 if info.warps == 8 else 1


def blocks(n, size):
    return -(-n // size)


def set_bits(x):
    """Set bits of each element of an int64 tensor of 32-bit words."""
    import torch
    return sum(torch.bitwise_and(x >> i, 1) for i in range(32))


def read_schedule(launch, S):
    """Tiles that some warp group visits; tiles of groups (work), and how many
    of those are masked cell by cell. None: the launch makes no schedule."""
    import torch
    if getattr(launch, "workspace", None) is None:
        return None
    info, program = launch.kernel.info, launch.kernel.program
    groups, q_tiles = groups_of(info), blocks(S, info.tile_m)
    per_b = any("B" in d.shape for d in program.tensors)
    n_rows = q_tiles * (launch.out.shape[0] if per_b else 1)
    windows = blocks(blocks(S, info.tile_n), TILES)
    room, words = min(windows, MAX_ENTRIES), 2 + 2 * groups
    memory = launch.workspace.cpu()
    rows = memory[:n_rows * ROW_BYTES].view(torch.int32).view(-1, 6).long()
    at = blocks(n_rows * ROW_BYTES, ALIGN) * ALIGN + blocks(n_rows * 4, ALIGN) * ALIGN
    entries = memory[at:at + n_rows * room * words * 4].view(torch.int32).view(n_rows, room, words).long()
    entries = entries * (torch.arange(room) < rows[:, 4:5])[..., None]
    repeats, bits = entries[..., 1], entries[..., 2:].view(n_rows, room, groups, 2) & 0xffffffff
    any_group = bits[..., 0, 0]
    for n in range(1, groups):
        any_group = any_group | bits[..., n, 0]
    counts = (set_bits(any_group) * repeats).sum(1)
    if not torch.equal(counts, rows[:, 3]) or sorted(rows[:, 2].tolist()) != sorted([*range(q_tiles)] * (n_rows // q_tiles)):
        raise RuntimeError("the workspace does not begin with a schedule as kernel_args.h has it")
    each = n_rows // q_tiles
    work, masked = ((set_bits(bits[..., n]) * repeats[..., None]).sum().item() / each for n in (0, 1))
    return SimpleNamespace(visited=counts.sum().item() / each, work=work, masked=masked)


def read_verdicts(launch, params, S):
    """The same of a mask of plain bounds, by facc_verdict_map on the CPU."""
    import torch
    from facc import _abi, _core
    info, program = launch.kernel.info, launch.kernel.program
    q, k, v, o = (torch.zeros(1, 1, S, 8) for _ in range(4))
    arguments = _core.Arguments(program, q, k, v, o, None, params=params)

    def counts_of(tile_m):
        counts, error = _abi.verdict_counts(struct_size=c.sizeof(_abi.verdict_counts), skip_kept=1), _core.new_error()
        _core.check(_core._lib.facc_verdict_map(program.context.handle, program.handle, c.byref(arguments.a), 0, 0,
                                                tile_m, info.tile_n, None, None, c.byref(counts), c.byref(error)), error)
        return counts
    whole, group = counts_of(info.tile_m), counts_of(info.tile_m // groups_of(info))
    return SimpleNamespace(visited=whole.full + whole.partial, work=group.full + group.partial, masked=group.partial)


def visits(launch, params, S):
    return read_schedule(launch, S) or read_verdicts(launch, params, S)


def schedule_flags(program, **variant):
    """Constants of the generated Variant: {"kReverse": False, …}."""
    import re
    return {name: value == "true" for name, value in re.findall(r"\b(k[A-Z]\w*) = (true|false)",
                                                               program.dump("variant", **variant))}
