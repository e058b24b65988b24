"""Where the numeric tests run: "cuda", or "cpu" ($FACC_TEST_DEVICE=cpu) to put
the CPU path before the same judges."""
import os

DEVICE = os.environ.get("FACC_TEST_DEVICE", "cuda")
