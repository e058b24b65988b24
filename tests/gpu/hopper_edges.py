"""Cases of hopper.py: the ends of numbers and addresses (edges.py)."""
import edges
from hopper_base import case, group

QUICK = ("dense bias of f32 with its least plain D=128", "key bias, score + t[b][kv]", "infinity as a bias D=128",
         "NaN and infinities above the diagonal and behind used lengths, bf16 D=128", "a mask of [1, 6]")


@group("edges")
def edges_of_numbers():
    for e in edges.CASES:
        program = edges.program_of(e)
        yield case(e.name, lambda p=program, e=e: e.run(p, None), [(program, e.variant)],
                   quick=e.name.startswith(QUICK))
