"""Cases of hopper.py: columns of facc.dot beside those of Q and K (dots.py)."""
import dots
from hopper_base import case, group

QUICK = ("score + c * dot q >= kv 128+64", "packed, 128+64, c=0.3", "off by an element", "score + c * dot q >= kv 64+16")


@group("dot")
def beside_qk():
    for d in dots.CASES:
        program = dots.program_of(d)
        # captured tensors that TMA does not take
        layout = {"layout": "any"} if d.family == "sm80" else {}
        yield case(d.name, lambda p=program, d=d, v=layout: d.run(p, v), [(program, {**d.variant, **layout})], d.family,
                   quick=d.name.startswith(QUICK))
