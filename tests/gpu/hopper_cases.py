"""Cases for the sm90 family, whose ways through the kernel they were chosen
for: hopper.py runs them. Importing these modules fills GROUPS, in this order.

What a case's name says (masks, sizes, dims, types, layouts) and the seeds in
them are all that it takes to run it again."""
from hopper_base import GROUPS  # noqa: F401
import hopper_layouts  # noqa: F401
import hopper_values  # noqa: F401
import hopper_planes  # noqa: F401
import hopper_masks  # noqa: F401
import hopper_families  # noqa: F401
import hopper_edges  # noqa: F401
import hopper_dot  # noqa: F401
