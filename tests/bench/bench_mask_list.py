"""The masks of bench_masks.py and bench_long.py: each in Lua, with what it
captures, and by hand in PyTorch (`keep`), as FlexAttention takes it."""
S = 8192  # of the masks here


# Each: the batch -> (Lua, tensors, params, keep)

def lua(declarations, body):
    return (f'local facc = require "facc"\n{declarations}\n'
            f"return facc.attention {{ mask_mod = function(b, h, q, kv)\n  {body}\nend }}\n")


def sixteen_documents(B):
    import torch
    flat = torch.arange(S, dtype=torch.int32, device="cuda") // (S // 16)
    ids = flat.expand(B, S).contiguous()
    return (lua('local ids = facc.tensor("ids", "i32", { "B", "kv" })', "return ids[b][q] == ids[b][kv] and q >= kv"),
            {"ids": ids}, {}, lambda b, h, q, kv: (flat[q] == flat[kv]) & (q >= kv))


def window(B):
    return (lua('local w = facc.param("w", "i32")', "return q >= kv and q - kv < w"), {}, {"w": 1024},
            lambda b, h, q, kv: (q >= kv) & (q - kv < 1024))


def prefix_lm(B):
    p = S // 4
    return (lua('local p = facc.param("p", "i32")', "return kv < p or q >= kv"), {}, {"p": p},
            lambda b, h, q, kv: (kv < p) | (q >= kv))


def dilated(B):
    return (lua("", "local d = math.abs(q - kv)\n  return d <= 1024 and d % 2 == 0"), {}, {},
            lambda b, h, q, kv: ((q - kv).abs() <= 1024) & ((q - kv) % 2 == 0))


def longformer(B):
    import torch
    is_global = torch.arange(S, device="cuda") < 16
    return (lua('local global = facc.tensor("global", "bool", { "kv" })',
                "return math.abs(q - kv) <= 512 or global[q] or global[kv]"), {"global": is_global}, {},
            lambda b, h, q, kv: ((q - kv).abs() <= 512) | is_global[q] | is_global[kv])


def natten(B):
    height, width, r = 128, 64, 6

    def keep(b, h, q, kv):
        top, left = (q // width).clamp(r, height - 1 - r), (q % width).clamp(r, width - 1 - r)
        return ((top - kv // width).abs() <= r) & ((left - kv % width).abs() <= r)
    return (f'local facc = require "facc"\nreturn facc.attention {{ mask_mod = facc.mods.natten({height}, {width}, '
            f"{2 * r + 1}) }}\n", {}, {}, keep)


def shared_prefix(B):
    """Two questions of 1,024 tokens, three answers of 1,024 to each."""
    import torch
    n = S // 1024
    document = torch.arange(S, dtype=torch.int32, device="cuda") // 1024
    start = torch.arange(n, dtype=torch.int32, device="cuda") * 1024
    prefix_of = torch.arange(n, dtype=torch.int32, device="cuda") // 4 * 4
    end = start + 1024
    text = "\n".join(f'local {name} = facc.tensor("{name}", "i32", {{ {n} }})' for name in ("off", "prefix_of", "end_of"))

    # as FlexAttention likes it: what a row needs to know, per token
    first, answer = start[document], document != prefix_of[document]
    prefix_first, prefix_end = start[prefix_of[document]], end[prefix_of[document]]

    def keep(b, h, q, kv):
        return ((kv >= first[q]) & (q >= kv)) | (answer[q] & (kv >= prefix_first[q]) & (kv < prefix_end[q]))
    return (lua('local id = facc.tensor("id", "i32", { "kv" })\n' + text,
                "local d = id[q]\n  local p = prefix_of[d]\n"
                "  return (kv >= off[d] and q >= kv) or (d ~= p and off[p] <= kv and kv < end_of[p])"),
            {"id": document, "off": start, "prefix_of": prefix_of, "end_of": end}, {}, keep)


MASKS = {"16 documents": sixteen_documents, "window 1024": window, "prefix-LM": prefix_lm, "dilated": dilated,
         "longformer": longformer, "natten 13": natten, "shared prefix": shared_prefix}
