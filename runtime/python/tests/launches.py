"""CUDA tensors through the package, on the driver of fake_cuda.c: what is
launched, where, with what, and what is refused. Run by test_launch.py in a
process of its own, whose loader finds that driver."""
import ctypes
import gc
import os
import pathlib
import sys
import tempfile
import threading
import unittest
import weakref
from unittest import mock

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "runtime" / "python"))

import facc  # noqa: E402
from . import stand_in  # noqa: E402
from .dlpack_capsule import dlpack_capsule  # noqa: E402
from .stand_in import Tensor  # noqa: E402

FAKE = os.environ["FACC_NVRTC"]
fake = ctypes.CDLL(FAKE)


class Header(ctypes.Structure):
    """facc_kernel_header as far as the lengths; test_abi knows no more of it."""
    _fields_ = [("tensor_map", ctypes.c_char * 512), ("pointers", ctypes.c_void_p * 5),
                ("strides", ctypes.c_int64 * 3 * 5), ("sizes", ctypes.c_int * 8), ("scales", ctypes.c_float * 2),
                ("seqused", ctypes.c_void_p * 2), ("cu_seqlens", ctypes.c_void_p * 2)]


class BlockLists(ctypes.Structure):
    """The header's block mask."""
    _fields_ = [("lists", ctypes.c_void_p * 4), ("numbers", ctypes.c_int * 6), ("workspace", ctypes.c_void_p)]


def count(what):
    return ctypes.c_int.in_dll(fake, "fake_" + what).value


def header():
    return Header.in_dll(fake, "fake_header")


def block_lists():
    at = ctypes.addressof(ctypes.c_char.in_dll(fake, "fake_header"))
    return BlockLists.from_address(at + ctypes.c_int.in_dll(fake, "fake_block_at").value)


def pointers():
    return list(header().pointers)


def tensor(*shape, dtype=np.float16, **more):
    return Tensor(np.zeros(shape, dtype), **{"device": 0, **more})


def qkv(B=2, H=4, Hkv=2, Sq=5, Skv=7, D=64, Dv=32, **more):
    return tensor(B, H, Sq, D, **more), tensor(B, Hkv, Skv, D, **more), tensor(B, Hkv, Skv, Dv, **more)


class Launches(unittest.TestCase):
    def setUp(self):
        self.events = []
        self.context = facc.Context(cache_mode="off", on_compile=lambda *e: self.events.append(e[1]))
        self.addCleanup(self.context.close)
        patch = mock.patch.dict(sys.modules, torch=stand_in.torch())
        patch.start()
        self.addCleanup(patch.stop)

    def attention(self, *arrays, **call):
        return facc.attention(*arrays, context=self.context, **call)

    def refused(self, text, *arrays, status="ARGUMENT", call=None, **more):
        before = count("launches")
        with self.assertRaisesRegex(facc.Error, text) as caught:
            (call or self.attention)(*arrays, **more)
        self.assertEqual(caught.exception.status_name, "FACC_ERR_" + status)
        self.assertEqual(count("launches"), before)


    def test_not_loaded_in_a_capture(self):
        """The driver forbids loading there: an error before it is asked."""
        arrays = qkv()
        with mock.patch.dict(sys.modules, torch=stand_in.torch(capturing=True)):
            self.refused("not loaded on device 0.*before the capture", *arrays, mask_mod="q >= kv + 3",
                         status="NOT_PREPARED")
        before = count("launches")
        self.attention(*arrays, mask_mod="q >= kv + 3")
        with mock.patch.dict(sys.modules, torch=stand_in.torch(capturing=True)):
            self.attention(*arrays, mask_mod="q >= kv + 3")
        self.assertEqual(count("launches"), before + 2)

    def test_dlpack(self):
        """CUDA arrays of a framework that has DLPack alone: on the stream that it
        was asked for, no wait, results as PyTorch tensors."""
        asked = []

        class Lent:
            def __init__(self, *shape, device=0, dtype=np.float16):
                self.values, self.device = np.zeros(shape, dtype), device

            def __dlpack_device__(self):
                return 2, self.device

            def __dlpack__(self, stream=None):
                asked.append(stream)
                return dlpack_capsule(self.values, 2, self.device)
        for device, stream in (0, None), (1, 77):
            q, k, v = (Lent(9, h, 64, device=device) for h in (4, 2, 2))
            cu = Lent(3, device=device, dtype=np.int32)
            call = dict(cu_seqlens_q=cu, cu_seqlens_kv=cu, stream=stream)
            self.attention(q, k, v, **call)
            launches, waits = count("launches"), count("waits")
            out = self.attention(q, k, v, **call)
            self.assertEqual((count("launches"), count("waits")), (launches + 3, waits))
            self.assertEqual(pointers(), [x.values.ctypes.data for x in (q, k, v)] + [out.data_ptr(), None])
            self.assertEqual((out.shape, out.dtype, out.get_device()), ((9, 4, 64), "torch.float16", device))
            want = stream or stand_in.CURRENT_STREAM + device
            self.assertEqual(ctypes.c_void_p.in_dll(fake, "fake_stream").value, want)
            self.assertEqual(asked[:3], [want] * 3)
            del asked[:]
        self.refused("k is not on the same device", q, Lent(9, 2, 64), v, **call)

    def test_one_launch_no_wait(self):
        for device in 0, 1:
            q, k, v = qkv(device=device)
            self.attention(q, k, v)  # loads
            launches, waits = count("launches"), count("waits")
            out = self.attention(q, k, v)
            self.assertEqual((count("launches"), count("waits")), (launches + 1, waits))
            self.assertEqual(ctypes.c_void_p.in_dll(fake, "fake_stream").value, stand_in.CURRENT_STREAM + device)
            self.assertEqual((out.shape, out.dtype, out.get_device()), ((2, 4, 5, 32), "torch.float16", device))
            self.assertEqual(pointers(), [x.data_ptr() for x in (q, k, v, out)] + [None])

    def test_out_and_lse(self):
        q, k, v = qkv()
        out = tensor(2, 4, 5, 32, dtype=np.float32)
        got, lse = self.attention(q, k, v, out=out, return_lse=True)
        self.assertIs(got, out)
        self.assertEqual((lse.shape, lse.dtype), ((2, 4, 5), "torch.float32"))
        self.assertEqual(pointers(), [x.data_ptr() for x in (q, k, v, out, lse)])

    def test_manifest(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "kernels.manifest")
            with facc.Context(cache_mode="off", manifest=path) as context:
                facc.attention(*qkv(), mask_mod="q >= kv", context=context)
            self.assertIn("q >= kv", pathlib.Path(path).read_text())

    def test_kernels_are_kept(self):
        for size in 5, 6, 700:
            for window in 3, 1 << 20:
                self.attention(*qkv(Sq=size), mask_mod="q - kv < w", params={"w": window})
        self.assertEqual(self.events, ["nvrtc"])
        self.attention(*qkv(D=128), mask_mod="q - kv < w", params={"w": 1})
        self.assertEqual(self.events, ["nvrtc", "nvrtc"])

    def test_refused(self):
        q, k, v = qkv()
        self.refused("rank 3", tensor(2, 4, 64), k, v)
        self.refused("v must be .B, H, S, D", q, k, tensor(2, 2))
        self.refused("k", q, tensor(2, 2, 7, 64, dtype=np.float32), v)
        self.refused("k", q, tensor(2, 3, 7, 64), v)
        self.refused("same device", q, qkv(device=1)[1], v)
        self.refused("same device", q, k, v, out=tensor(2, 4, 5, 32, device=-1))
        self.refused("'t' is not on the same device", q, k, v, score_mod="score + t[h]",
                     tensors={"t": tensor(4, dtype=np.float32, device=-1)})
        self.refused("o", q, k, v, out=tensor(2, 4, 5, 31))
        self.refused("element type", *qkv(dtype=np.complex64))
        self.refused("scale", q, k, v, scale=0)
        cu = tensor(3, dtype=np.int32)
        self.refused("same device", tensor(9, 4, 64), tensor(9, 4, 64), tensor(9, 4, 64), cu_seqlens_q=cu,
                     cu_seqlens_kv=tensor(3, dtype=np.int32, device=-1))
        self.refused("B is 2", q, k, v, cu_seqlens_q=cu, cu_seqlens_kv=cu)
        counts, indices = tensor(1, 1, 1, dtype=np.int32), tensor(1, 1, 1, 1, dtype=np.int32)
        self.refused("rows of blocks of 3", q, k, v, block_mask=facc.BlockMask(counts, indices, BLOCK_SIZE=3))
        self.refused("same device", q, k, v, block_mask=facc.BlockMask(counts, tensor(1, 1, 1, 1, dtype=np.int32,
                                                                                      device=-1)))

    def test_packed(self):
        """[T, H, D] and its view [1, H, T, D]: the same launch."""
        q, k, v = tensor(9, 4, 64), tensor(11, 2, 64), tensor(11, 2, 32)
        cu_q, cu_kv = (tensor(4, dtype=np.int32) for _ in range(2))
        lengths = dict(cu_seqlens_q=cu_q, cu_seqlens_kv=cu_kv, max_seqlen_q=5)
        self.attention(q, k, v, **lengths)  # loads
        launches, waits = count("launches"), count("waits")
        out, lse = self.attention(q, k, v, return_lse=True, **lengths)
        self.assertEqual((count("launches"), count("waits")), (launches + 3, waits))  # with schedule and order
        self.assertEqual((out.shape, lse.shape), ((9, 4, 32), (4, 9)))
        h = header()
        self.assertEqual(pointers(), [x.data_ptr() for x in (q, k, v, out, lse)])
        self.assertEqual([list(s) for s in h.strides],
                         [[0, 64, 256], [0, 64, 128], [0, 32, 64], [0, 32, 128], [0, 9, 1]])
        self.assertEqual(list(h.sizes), [3, 4, 2, 5, 11, 64, 32, 2])
        self.assertEqual(list(h.cu_seqlens), [cu_q.data_ptr(), cu_kv.data_ptr()])

        batch = [Tensor(x.values.transpose(1, 0, 2)[None], device=0) for x in (q, k, v)]
        out, lse = self.attention(*batch, return_lse=True, **lengths)
        self.assertEqual((out.shape, lse.shape), ((1, 4, 9, 32), (1, 4, 9)))
        self.assertEqual([list(s) for s in header().strides[:3]], [[0, 64, 256], [0, 64, 128], [0, 32, 64]])
        self.assertEqual(list(header().sizes), [3, 4, 2, 5, 11, 64, 32, 2])

    def test_sinks(self):
        q, k, v = qkv()
        sinks = tensor(4, dtype=np.float32)
        self.attention(q, k, v)
        self.attention(q, k, v, sinks=sinks)  # another kernel
        self.attention(q, k, v, sinks=tensor(4, dtype=np.float32))
        self.assertEqual(self.events, ["nvrtc", "nvrtc"])
        self.refused("sinks is not on the same device", q, k, v, sinks=tensor(4, dtype=np.float32, device=-1))
        self.refused("sinks: shape is .2., expected .4.", q, k, v, sinks=tensor(2, dtype=np.float32))
        self.refused("sinks: dtype is f16, expected f32", q, k, v, sinks=tensor(4))
        kernel = facc.Program.from_expressions(context=self.context).kernel(dtype="f16", head_dim=64, head_dim_v=32)
        self.refused("set|variant has none", q, k, v, call=kernel.prepare, sinks=sinks)

    def test_dropout(self):
        q, k, v = qkv()
        self.attention(q, k, v)
        self.attention(q, k, v, dropout_p=0.0, seed=1)  # the same kernel
        self.attention(q, k, v, dropout_p=0.5, seed=1)  # another one,
        self.attention(q, k, v, dropout_p=0.1, seed=2**32 + 7, offset=9)  # for all of these
        self.assertEqual(self.events, ["nvrtc", "nvrtc"])
        kernel = facc.Program.from_expressions(context=self.context).kernel(dtype="f16", head_dim=64, head_dim_v=32)
        self.refused("variant has no dropout", q, k, v, call=kernel.prepare, dropout_p=0.1, seed=1)
        self.refused("dropout_p is 1: it must be", q, k, v, dropout_p=1.0, seed=1)
        self.refused("dropout_p needs a seed", q, k, v, dropout_p=0.5)

    def test_block_mask(self):
        q, k, v = qkv()

        def lists(rows, cols, B=1, H=1):
            return tensor(B, H, rows, dtype=np.int32), tensor(B, H, rows, cols, dtype=np.int32)
        counts, indices = lists(2, 3, H=4)
        full_counts, full_indices = lists(2, 3, H=4)
        self.attention(q, k, v, block_mask=facc.BlockMask(counts, indices, full_counts, full_indices, (3, 4)))
        at = block_lists()
        self.assertEqual(list(at.lists), [x.data_ptr() for x in (counts, indices, full_counts, full_indices)])
        self.assertEqual(list(at.numbers), [3, 4, 2, 3, 0, 1])
        self.assertNotEqual(at.workspace, None)
        counts, indices = lists(1, 1, B=2)
        self.attention(q, k, v, block_mask=facc.BlockMask(counts, indices))
        self.assertEqual(list(block_lists().lists), [counts.data_ptr(), indices.data_ptr(), None, None])
        self.assertEqual(list(block_lists().numbers), [128, 128, 1, 1, 1, 0])
        self.attention(q, k, v)
        self.assertEqual(list(block_lists().lists), [None] * 4)

    def test_schedule_ready(self):
        program = facc.Program.from_expressions(mask="q - kv < w", declarations=(("w", "i32", None),),
                                                context=self.context)
        kernel = program.kernel(dtype="f16", head_dim=64)
        cu = tensor(3, dtype=np.int32)
        arrays = [tensor(8, 2, 64) for _ in "qkv"]
        call = dict(params={"w": 3}, cu_seqlens_q=cu, cu_seqlens_kv=cu)
        self.refused("set facc_variant.packed", *arrays, call=kernel.prepare, **call)
        kernel = program.kernel(dtype="f16", head_dim=64, packed=True)
        self.refused("is made for packed", *qkv(Dv=64), call=kernel.prepare, params={"w": 3})
        launch = kernel.prepare(*arrays, **call)

        def launches():
            before = count("launches")
            launch()
            return count("launches") - before
        with self.assertRaisesRegex(facc.Error, "needs a launch before"):
            launch.schedule_ready = True
        self.assertEqual((launches(), launches()), (3, 3))
        launch.schedule_ready = True
        self.assertEqual((launches(), launches()), (1, 1))
        launch.set_param("w", 4)
        self.assertFalse(launch.schedule_ready)
        self.assertEqual(launches(), 3)
        self.assertEqual(launch.workspace.values.nbytes % 256, 0)

    def test_info(self):
        program = facc.Program.from_expressions(mask="q >= kv", context=self.context)
        for variant, tier in ({}, "analytic"), ({"packed": True}, "analytic"), ({"block_mask": True}, "given"):
            info = program.kernel(dtype="f16", head_dim=64, **variant).info
            self.assertEqual((info.tier, info.scheduled), (tier, bool(variant)))

    def test_layout_by_the_tensors(self):
        """Aligned ones take family sm90 alone; a second code is made for the first that are not."""
        q, k, v = qkv()
        self.attention(q, k, v)
        self.assertEqual(self.events, ["nvrtc"])

        def shifted(*shape):  # rows of D + 4 elements, of which the last 4 are left out
            x = tensor(*shape[:-1], shape[-1] + 4)
            x.values = x.values[..., :shape[-1]]
            x.shape = shape
            return x
        out = self.attention(q, shifted(2, 2, 7, 64), v)
        self.assertEqual(self.events, ["nvrtc", "memory", "nvrtc"])
        self.assertEqual(pointers()[3], out.data_ptr())
        for x in shifted(2, 4, 5, 64), tensor(2, 4, 5, 64):  # the latter off its place
            if x.values.flags.c_contiguous:
                x.values = np.zeros(2 * 4 * 5 * 64 + 8, np.float16)[4:][:2 * 4 * 5 * 64].reshape(2, 4, 5, 64)
            self.attention(x, k, v)
        self.attention(q, k, v, out=shifted(2, 4, 5, 32))
        self.assertEqual(self.events, ["nvrtc", "memory", "nvrtc"])  # the same kernel
        packed = dict(cu_seqlens_q=tensor(2, dtype=np.int32), cu_seqlens_kv=tensor(2, dtype=np.int32))
        del self.events[:]
        self.attention(tensor(9, 4, 64), tensor(9, 2, 64), tensor(9, 2, 32), **packed)
        self.assertEqual(self.events, ["nvrtc", "nvrtc"])  # and that of schedules
        del self.events[:]
        self.attention(tensor(9, 4, 64), shifted(9, 2, 64), tensor(9, 2, 32), **packed)
        self.assertEqual(sorted(self.events), ["memory", "memory", "nvrtc"])

    def test_families(self):
        program = facc.Program.from_expressions(mask="q >= kv", context=self.context)
        want = dict(dtype="f16", head_dim=64, head_dim_v=32)
        q, k, v = qkv()
        odd = tensor(2, 4, 5, 68)
        odd.values, odd.shape = odd.values[..., :64], (2, 4, 5, 64)
        kernel = program.kernel(**want)
        self.assertEqual((kernel.family, kernel.fallback, kernel.launched), ("sm90", "sm80", ""))
        for x, family in (q, "sm90"), (odd, "sm80"), (q, "sm90"):
            kernel.prepare(x, k, v)()
            self.assertEqual(kernel.launched, family)
        for more, family in (({"family": "auto", "layout": "aligned"}, "sm90"), ({"family": "sm80"}, "sm80"), ({"family": "sm90"}, "sm90"),
                             ({"layout": "aligned"}, "sm90"),
                             ({"check_bounds": True}, "sm80")):
            kernel = program.kernel(**want, **more)
            self.assertEqual((kernel.family, kernel.fallback), (family, ""))
        for more in {"family": "sm90"}, {"layout": "aligned"}:
            kernel = program.kernel(**want, **more)
            self.refused("q: stride 2 is 68 .*FACC_LAYOUT_ANY", odd, k, v, call=kernel.prepare)
        for text, status, more in (("family is", "ARGUMENT", {"family": "sm75"}),
                                   ("layout is", "ARGUMENT", {"layout": "straight"}),
                                   ("needs sm_90", "UNSUPPORTED", {"family": "sm90", "arch": 80})):
            with self.assertRaisesRegex(facc.Error, text) as caught:
                program.kernel(**want, **more)
            self.assertEqual(caught.exception.status_name, "FACC_ERR_" + status)

    def test_gradient(self):
        q, k, _ = qkv()
        with mock.patch.dict(sys.modules, torch=stand_in.torch(True)):
            self.refused("v requires", q, k, tensor(2, 2, 7, 32, requires_grad=True), status="UNSUPPORTED")

    def test_prepare_checks(self):
        """What a prepared launch would refuse is refused when it is made."""
        program = facc.Program.from_expressions(mask="q >= kv", context=self.context)
        kernel = program.kernel(dtype="f16", head_dim=64, head_dim_v=32)
        q, k, v = qkv()
        self.refused("rank", q, k, tensor(2, 2), call=kernel.prepare)
        self.refused("k", q, tensor(2, 3, 7, 64), v, call=kernel.prepare)
        self.refused("head", *qkv(D=128), call=kernel.prepare)
        self.refused("CUDA", *qkv(device=-1), call=kernel.prepare)
        self.refused("block_mask is given", q, k, v, call=kernel.prepare, block_mask=facc.BlockMask(
            tensor(1, 1, 1, dtype=np.int32), tensor(1, 1, 1, 1, dtype=np.int32)))
        given = program.kernel(dtype="f16", head_dim=64, head_dim_v=32, block_mask=True)
        self.refused("block_mask is NULL", q, k, v, call=given.prepare)
        launch = kernel.prepare(q, k, v)
        self.assertIsNone(launch.workspace)
        before = count("launches")
        launch(), launch(stream=5)
        self.assertEqual(count("launches"), before + 2)
        self.assertEqual(ctypes.c_void_p.in_dll(fake, "fake_stream").value, 5)

    # ---- calls like one before (_again.py) ----------------------------------

    def long_ways(self, *arrays, **call):
        """How many Launches a call makes, and its result."""
        with mock.patch.object(facc._calls, "Launch", wraps=facc.Launch) as made:
            result = self.attention(*arrays, **call)
        return made.call_count, result

    def remembered(self):
        """The one Call that the context remembers."""
        (free,), = [self.context.calls.values()]
        call, = free
        return call

    def test_again(self):
        """The same launch with the pointers of this call, and nothing kept alive."""
        for more in {}, {"device": 1}:
            call = dict(mask_mod="q >= kv", return_lse=True)
            q, k, v = qkv(**more)
            self.assertEqual(self.long_ways(q, k, v, **call)[0], 1)
            made, (out, lse) = self.long_ways(q, k, v, **call)
            self.assertEqual(made, 1)
            alive = [weakref.ref(x) for x in (q, k, v, out, lse)]
            del q, k, v, out, lse
            gc.collect()  # the mock that counted had them
            self.assertEqual([x() for x in alive], [None] * 5)
            launches, waits = count("launches"), count("waits")
            q, k, v = qkv(**more)
            made, (out, lse) = self.long_ways(q, k, v, **call)
            self.assertEqual((made, count("launches"), count("waits")), (0, launches + 1, waits))
            self.assertEqual(pointers(), [x.data_ptr() for x in (q, k, v, out, lse)])
            self.assertEqual((out.shape, out.dtype, out.get_device()), ((2, 4, 5, 32), "torch.float16", q.index))
            self.assertEqual((lse.shape, lse.dtype), ((2, 4, 5), "torch.float32"))
            self.assertEqual(ctypes.c_void_p.in_dll(fake, "fake_stream").value, stand_in.CURRENT_STREAM + q.index)
            self.attention(q, k, v, stream=5, **call)
            self.assertEqual(ctypes.c_void_p.in_dll(fake, "fake_stream").value, 5)
            alive = [weakref.ref(x) for x in (q, k, v, out, lse)]
            del q, k, v, out, lse
            self.assertEqual([x() for x in alive], [None] * 5)

    def test_again_with_all_that_changes(self):
        shape = dict(dtype=np.int32)

        def call(w=3, seed=1):
            cu = tensor(3, **shape)
            given = dict(out=tensor(9, 4, 64), sinks=tensor(4, dtype=np.float32),
                         cu_seqlens_q=cu, cu_seqlens_kv=tensor(3, **shape), seqused_q=tensor(2, **shape),
                         seqused_kv=tensor(2, **shape))
            captured = {"a": tensor(9, **shape), "t": tensor(4, dtype=np.float32)}
            arrays = tensor(9, 4, 64), tensor(9, 2, 64), tensor(9, 2, 64)
            made, _ = self.long_ways(*arrays, score_mod="score + t[h] + f", mask_mod="q - kv < w + a[0]",
                                     tensors=captured, params={"w": w, "f": 0.5 * w}, dropout_p=0.5, seed=seed,
                                     offset=seed + 1, **given)
            if not any(self.context.calls.values()):
                return made  # the first
            a = self.remembered().arguments
            self.assertEqual(pointers()[:4], [x.data_ptr() for x in (*arrays, given["out"])])
            self.assertEqual([a.a.seqused_q, a.a.seqused_kv, a.a.cu_seqlens_q, a.a.cu_seqlens_kv, a.sinks.data],
                             [given[n].data_ptr() for n in ("seqused_q", "seqused_kv", "cu_seqlens_q", "cu_seqlens_kv",
                                                            "sinks")])
            program = self.remembered().kernel.program
            self.assertEqual({d.name: view.data for d, view in zip(program.tensors, a.views)},
                             {name: x.data_ptr() for name, x in captured.items()})
            values = {d.name: x.f if d.dtype == "f32" else x.i for d, x in zip(program.params, a.scalars)}
            self.assertEqual((values, a.a.dropout_seed, a.a.dropout_offset), ({"w": w, "f": 0.5 * w}, seed, seed + 1))
            return made
        self.assertEqual([call(), call(), call(), call(w=4), call(seed=9)], [1, 1, 0, 0, 0])

    def test_again_is_no_way_past_a_check(self):
        """What the long way refuses, or does otherwise, behind a call that was right."""
        q, k, v = qkv()
        t, cu = tensor(4, dtype=np.float32), tensor(3, dtype=np.int32)
        call = dict(score_mod="score + t[h] * w", tensors={"t": t}, params={"w": 1.0})
        for _ in range(3):
            self.attention(q, k, v, **call)
        negative = tensor(2, 2, 7, 32)
        negative.is_neg = lambda: True
        self.refused("v is a view with the negative bit", q, k, negative, **call)

        def nowhere():
            raise RuntimeError
        batched = tensor(2, 2, 7, 32)
        batched.data_ptr = nowhere
        self.refused("v has no memory of its own", q, k, batched, status="UNSUPPORTED", **call)
        self.refused("v is not on the same device", q, k, tensor(2, 2, 7, 32, device=1), **call)
        self.refused("v is not on the same device", q, k, tensor(2, 2, 7, 32, device=-1), **call)
        other = tensor(2, 2, 7, 32)
        other.is_cuda, other.device = False, stand_in.Device("xpu", 0)
        self.refused("tensors on .*xpu.* are not supported", q, k, other, **call)
        self.refused("'t' is not on the same device", q, k, v, **{**call, "tensors": {"t": tensor(
            4, dtype=np.float32, device=1)}})
        self.refused("unknown name 't'", q, k, v, score_mod=call["score_mod"], params={"w": 1.0}, status="SCRIPT")
        self.refused("param 'w'", q, k, v, **{**call, "params": {"w": "1"}})
        self.refused("unknown name 'w'", q, k, v, **{**call, "params": {}}, status="SCRIPT")
        self.refused("v", q, k, tensor(2, 2, 6, 32), **call)
        self.refused("scale must not be 0", q, k, v, scale=0, **call)
        self.refused("not both", q, k, v, program="return 1", **call)
        dropped = dict(dropout_p=0.5, seed=1)
        for _ in range(3):
            self.attention(q, k, v, **dropped)
        self.refused("dropout_p needs a seed", q, k, v, dropout_p=0.5)
        self.refused("seed is -1", q, k, v, dropout_p=0.5, seed=-1)
        for _ in range(3):
            self.attention(q, k, v, seqused_q=tensor(2, dtype=np.int32))
        self.refused("seqused_q must be i32", q, k, v, seqused_q=tensor(2, dtype=np.float32))
        self.refused("seqused_q must be i32", q, k, v, seqused_q=cu)
        with mock.patch.dict(sys.modules, torch=stand_in.torch(True)):
            for at, x in enumerate((q, k, v)):
                arrays = [q, k, v]
                arrays[at] = Tensor(x.values, True, device=0)
                self.refused("qkv"[at] + " requires a gradient", *arrays, status="UNSUPPORTED", **call)
            self.refused("'t' requires a gradient", q, k, v, status="UNSUPPORTED",
                         **{**call, "tensors": {"t": Tensor(t.values, True, device=0)}})

    def test_again_in_threads(self):
        """Each launch has the pointers of its own call."""
        real, mixed, lock = facc._again._launch, [], threading.Lock()
        own = threading.local()

        def launch(handle, args, stream, error):
            before = [getattr(args._obj, n).data for n in "qkvo"]
            threading.Event().wait(0.002)
            with lock:
                status = real(handle, args, stream, error)
                if before != pointers()[:4] or before[:3] != own.given:
                    mixed.append((before, pointers()[:4], own.given))
            return status

        def work():
            for _ in range(20):
                arrays = qkv()
                own.given = [x.data_ptr() for x in arrays]
                self.attention(*arrays, mask_mod="q >= kv")
        for _ in range(2):
            self.attention(*qkv(), mask_mod="q >= kv")
        with mock.patch.object(facc._again, "_launch", launch):
            threads = [threading.Thread(target=work) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        self.assertEqual(mixed, [])
        free, = self.context.calls.values()
        self.assertLessEqual(len(free), 4)

    def test_again_has_bounds(self):
        with mock.patch.object(facc._again, "MOST", 3):
            for size in 5, 6, 7, 8, 5, 8:
                self.attention(*qkv(Sq=size))
                self.assertLessEqual(len(self.context.calls), 3)
        program = facc.Program.from_expressions(mask="q >= kv", context=self.context)
        arrays = qkv()
        for _ in range(3):
            self.attention(*arrays, program=program)
        self.assertEqual(len(program.calls), 1)
        self.context.close()
        self.refused("", *arrays, program=program)

    def test_files_are_read_once_until_they_change(self):
        q, k, v = qkv()
        old = os.getcwd()
        self.addCleanup(os.chdir, old)
        with tempfile.TemporaryDirectory() as folder:
            for name, mask in ("a", "q >= kv"), ("b", "q > kv + 10"):
                os.makedirs(os.path.join(folder, name))
                os.chdir(os.path.join(folder, name))
                pathlib.Path("m.lua").write_text(f"return require'facc'.attention {{ mask_mod = '{mask}' }}")
                programs = [facc.find_program(program=p, context=self.context)
                            for p in ("m.lua", pathlib.Path("m.lua"), os.path.abspath("m.lua"))]
                self.assertEqual(len(set(programs)), 1)
                self.attention(q, k, v, program="m.lua")
            self.assertEqual(self.events, ["nvrtc", "nvrtc"])
            pathlib.Path("m.lua").write_text("return require'facc'.attention {}")
            self.attention(q, k, v, program="m.lua")
            self.assertEqual(self.events, ["nvrtc"] * 3)
            os.chdir(old)
        for bad in [], 5.5, "missing.lua", "a\0b":
            with self.assertRaises(facc.Error):
                facc.find_program(program=bad, context=self.context)


if __name__ == "__main__":
    unittest.main()
