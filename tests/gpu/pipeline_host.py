"""Compiles the sm90 forward kernel for the CPU (host/pipeline/) and runs its warps on random cases, in
random order: deadlocks, races of barriers and slots, what is multiplied and written. Needs a C++
compiler, no GPU.

    python3 tests/gpu/pipeline_host.py [--cases N] [--seed N] [--size N] [--only PART] [--mutations]
                                       [--templates FOLDER] [--jobs N]

Programs are named kind.variant.shape. In those of the kind tags, tiles hold what they are instead of
elements, so that many cases are done; numbers has all of the kernel but its instructions, a 25th of the
cases; softmax has the softmax of a warp alone. --mutations: instead, each change of the templates that MUTATIONS lists must be found.
"""
import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

from tune_unit import ROOT, config_text, fp8_variant

HOST = os.path.join(ROOT, "tests/gpu/host/pipeline")
FLAGS = ["-std=c++17", "-O1", "-fno-strict-aliasing", "-w", "-Wno-psabi",
         "-U_FORTIFY_SOURCE"]
LISTED = "tests/gpu/host/pipeline/listed.cuh"
PLANE = "tests/gpu/host/pipeline/plane.cuh"
DOT = "tests/gpu/host/pipeline/dot.cuh"
T5 = "tests/golden/t5_causal_sm90.cuh"
# variant: (file, captured tensors, launches bring a schedule, flags). Those with one are packed or listed.
VARIANTS = {
    "plain": ("templates/stub/facc_variant.cuh", 0, False, []),
    "causal": ("tests/gpu/variants/causal.cuh", 0, False, []),
    "alibi": ("tests/gpu/variants/alibi_causal.cuh", 1, False, ["-DHOST_TENSOR=1"]),
    "bias": ("tests/gpu/variants/bias.cuh", 1, False, ["-DHOST_TENSOR=3"]),
    "t5": (T5, 1, False, ["-DHOST_TENSOR=32"]),
    "t5_packed": (T5, 1, True, ["-DHOST_TENSOR=32"]),
    "relative": ("tests/golden/relative_bias_sm90.cuh", 1, False, ["-DHOST_TENSOR=65"]),
    "dot": (DOT, 2, False, ["-DHOST_DOT_FACTOR=1"]),
    "dot_packed": (DOT, 2, True, ["-DHOST_DOT_FACTOR=1"]),
    "dot_times": (DOT, 2, False, ["-DHOST_DOT_FACTOR=-0.75f"]),
    "softcap": ("tests/golden/softcap_fast.cuh", 0, False, []),
    "narrow": ("tests/gpu/host/pipeline/narrow.cuh", 0, False, []),
    "plane2": (PLANE, 1, False, ["-DHOST_CAUSAL=0", "-DHOST_PLANE_TYPE=kElementBf16"]),
    "plane4": (PLANE, 1, False, ["-DHOST_CAUSAL=0", "-DHOST_PLANE_TYPE=kElementF32"]),
    "plane2_causal": (PLANE, 1, False, ["-DHOST_CAUSAL=1", "-DHOST_PLANE_TYPE=kElementBf16"]),
    "plane4_causal": (PLANE, 1, False, ["-DHOST_CAUSAL=1", "-DHOST_PLANE_TYPE=kElementF32"]),
    "plane2_packed": (PLANE, 1, True, ["-DHOST_CAUSAL=0", "-DHOST_PLANE_TYPE=kElementBf16"]),
    "plane4_packed": (PLANE, 1, True, ["-DHOST_CAUSAL=1", "-DHOST_PLANE_TYPE=kElementF32"]),
    "packed": ("templates/stub/facc_variant.cuh", 0, True, []),
    "packed_causal": ("tests/gpu/variants/causal.cuh", 0, True, []),
    "listed": (LISTED, 0, True, ["-DHOST_LISTED=1", "-DHOST_REVERSE=0", "-DHOST_TABLES=0"]),
    "reverse": (LISTED, 0, True, ["-DHOST_LISTED=1", "-DHOST_REVERSE=1", "-DHOST_TABLES=0"]),
    "at_once": (LISTED, 0, True, ["-DHOST_LISTED=1", "-DHOST_REVERSE=0", "-DHOST_TABLES=0", "-DHOST_AT_ONCE=1"]),
    "tables": (LISTED, 0, True, ["-DHOST_LISTED=1", "-DHOST_REVERSE=0", "-DHOST_TABLES=1"]),
    "bounded": (LISTED, 0, False, ["-DHOST_LISTED=0", "-DHOST_REVERSE=0", "-DHOST_TABLES=1"]),
    "bounded_reverse": (LISTED, 0, False, ["-DHOST_LISTED=0", "-DHOST_REVERSE=1", "-DHOST_TABLES=1"]),
}
SHAPES = {"2.1": dict(m=128, warps=12, q_buffers=1, n=64),
          "2.2": dict(m=128, warps=12, q_buffers=2, n=128),
          "2.80": dict(m=128, warps=12, q_buffers=1, n=80),
          "2.full": dict(m=128, warps=12, q_buffers=2, n=128, D=128, Dv=128),  # all memory with a table
          "3.1": dict(m=192, warps=16, q_buffers=1, n=96),
          "3.2": dict(m=192, warps=16, q_buffers=2, n=64),
          "3.2.4": dict(m=192, warps=16, q_buffers=2, n=96, stages=4)}
# Shapes of those that ask little of a shape, or whose panels' rows are 128, 64 or 32 bytes wide by columns; others have all
# but 2.80; numbers have head dims of their own but for 2.full.
SHAPES_OF = {"t5": ["2.2", "3.2.4"], "t5_packed": ["2.1"], "relative": ["3.1", "2.2"],
             "plane2": ["2.2", "2.80", "3.1"], "plane4": ["2.1", "2.80"], "plane2_causal": ["2.2", "2.80"], "plane4_causal": ["3.1"],
             "plane2_packed": ["3.1"], "plane4_packed": ["2.1"]}
OTHER_SHAPES = [s for s in SHAPES if s not in ("2.80", "2.full")]
EXTRA = {"2.1": 64, "2.2": 16, "3.1": 32, "3.2": 128, "3.2.4": 16}  # columns of dot.cuh by shape
NUMBERS = [("dot", "2.2"), ("dot", "3.1"), ("dot_packed", "2.1"), ("dot_times", "2.1"), ("dot_times", "2.2"),
           ("plain", "2.2"), ("causal", "2.1"), ("alibi", "3.2"), ("softcap", "2.2"), ("softcap", "3.1"), ("bias", "2.2"), ("packed", "2.2"),
           ("packed_causal", "3.1"), ("listed", "3.1"), ("reverse", "2.2"), ("tables", "3.2"), ("tables", "2.1"),
           ("bounded", "3.2"), ("plane2", "2.2"), ("plane2", "2.80"), ("plane2", "3.1"), ("plane4", "2.80"), ("plane4", "3.1"),
           ("plane2_causal", "3.1"), ("plane4_packed", "2.1"), ("t5", "2.1"), ("t5", "2.2"), ("t5", "3.2.4"), ("t5_packed", "2.2"),
           ("relative", "2.1"), ("relative", "2.2"), ("relative", "2.full"), ("relative", "3.1")]
SINKS = [("relative", "2.1"), ("causal", "2.1"), ("bias", "2.2"), ("packed_causal", "3.1"), ("reverse", "2.2")]  # of these have sinks
DROPOUT = [("t5", "2.1"), ("causal", "2.1"), ("softcap", "3.1"), ("packed", "2.2"), ("tables", "3.2"), ("listed", "3.1")]  # have dropout
SOFTMAX = [("narrow", "2.2"), ("narrow", "3.1")]
# FP8: shapes with other head dims; programs of the kind fp8
FP8 = {"2.1": dict(D=160, Dv=48, out="f32"), "2.2": dict(D=64, Dv=64, n=64), "3.1": dict(D=64, Dv=64),
       "3.2": dict(D=64, Dv=80), "3.2.4": dict(D=64, Dv=64)}
FP8_PROGRAMS = ["plain.3.2.4", "plain.2.1+promotes", "causal.3.1+promotes", "alibi.3.2", "alibi.3.2.4+blocks", "softcap.2.2",
                "bias.3.1+blocks", "packed.2.2", "packed_causal.3.1+promotes", "packed.3.2+blocks+promotes", "reverse.2.2+promotes",
                "tables.3.2", "tables.2.1+blocks", "plain.2.2+blocks", "t5.3.1", "relative.2.2+blocks", "causal.2.2+peaks"] + [
                    f"{name}+transposes" for name in (
                        "plain.3.2.4", "plain.2.2+promotes", "causal.2.1", "alibi.3.2.4+blocks", "packed.2.2", "packed_causal.3.1+promotes",
                        "reverse.2.2", "tables.3.2", "tables.2.1+blocks", "bias.3.1")]
# file, text, in its place, a program that must find it
VISITS, MAINLOOP, PRODUCER = "sm90/visits.cuh", "sm90/mainloop.cuh", "sm90/producer.cuh"
PLANE_FILE, SHAPE_FILE = "sm90/plane.cuh", "sm90/shape.cuh"
FP8_FILE, FP8_SOFTMAX = "sm90/fp8.cuh", "sm90/fp8_softmax.cuh"
VARIANT_MATH = "common/variant_math.cuh"
SCHEDULER, EPILOGUE = "sm90/scheduler.cuh", "sm90/epilogue.cuh"
SOFTMAX_FILE, REFERENCES, TABLES, DROPOUT_FILE = ("sm90/softmax.cuh", "sm90/references.cuh", "common/tables.cuh",
                                                 "common/dropout.cuh")
MUTATIONS = [
    # runs
    (VISITS, "c_.run_full[slot].wait_full(runs_, kRuns);", ";", "tags.listed.2.2"),
    (PRODUCER, "c.run_full[n % kRuns].wait_full(n, kRuns);", ";", "tags.listed.2.2"),
    (PRODUCER, "c_.run_empty[slot].wait_empty(n_ - 1, kRuns);", ";", "tags.listed.3.2.4"),
    (PRODUCER, "const Run run =", "const Run &run =", "tags.plain.2.2"),
    (VISITS, "c_.dead[threadIdx.x / 32] = run.dead[group_];\n        c_.run_empty[slot].arrive_warp();",
     "c_.run_empty[slot].arrive_warp();\n        c_.dead[threadIdx.x / 32] = run.dead[group_];", "tags.causal.2.1"),
    (PRODUCER, "bits >> bit;", "bits >> (bit & ~1);", "tags.listed.3.1"),
    (PRODUCER, "__brev(bits) >> (31 - bit)", "__brev(bits) >> (31 - bit & ~1)", "tags.reverse.2.2"),
    (PRODUCER, "__brev(all) >> (31 - bit)", "__brev(all >> (tiles > 1)) >> (31 - bit)", "tags.reverse.2.2"),
    (PRODUCER, "all << bit", "all >> (tiles > 1) << bit", "tags.listed.3.2"),
    (PRODUCER, "left = 1;", ";", "numbers.alibi.3.2"),
    (PRODUCER, "__brev(all) >> (31 - bit)", "__brev(2 * all | 1) >> (31 - bit)", "tags.reverse.3.1"),
    (PRODUCER, "windows.over() && s.any == 0", "windows.over()", "tags.listed.2.1"),
    (PRODUCER, "return left_ == 0;", "return left_ <= 1;", "tags.bounded.2.2"),
    (PRODUCER, "told != kRunLastTiles", "told == kRunEnd", "tags.listed.2.1"),
    (PRODUCER, "word_.x, 1 + g) & exist", "word_.x, 1 + g)", "tags.listed.2.2"),
    (VISITS, "run.tile - (Variant::kReverse ? -1 : 1)", "run.tile - 1", "tags.bounded_reverse.3.1"),
    # dead tiles and masked ones
    (PRODUCER, "s.group[g].masked | ~s.group[g].work", "s.group[g].masked", "tags.causal.3.2"),
    (PRODUCER, "run.dead[g] = ~s.group[g].work;", "run.dead[g] = ~s.group[0].work;", "tags.causal.3.1"),
    (VISITS, "masked_ >>= 1;", "", "tags.causal.2.2"),
    (VISITS, "run.masked[group_]", "run.masked[0]", "tags.listed.2.2"),
    (VISITS, ">> (tile & 31)", ">> (tile & 15)", "tags.listed.2.1"),
    (MAINLOOP, "if (visits_.is_dead(v.tile))", "if (false)", "tags.listed.3.2.4"),
    (MAINLOOP, "weigh_nothing(p, factor_);", "factor_[0] = factor_[1] = 1;", "tags.bounded.2.1"),
    (MAINLOOP, "kv0 + kTileN > w.kv_len : v.masked", "false : v.masked", "tags.at_once.2.1"),
    (MAINLOOP, "            total[0] = total[1] = 0.0f;\n", "", "numbers.causal.2.1"),
    (MAINLOOP, "    state_.sum[0] += total[0];\n", "", "tags.plain.2.2"),
    (MAINLOOP, "(!kGuesses && first_) || masked", "masked", "tags.plain.3.1"),
    (MAINLOOP, "if (kGuesses && first_ && !masked)", "if (kGuesses && !masked)", "tags.plain.2.1"),
    (MAINLOOP, "rescale_ = kGuesses && first_;", "rescale_ = false;", "tags.plain.2.2"),
    (REFERENCES, "factor[0] = factor[1] = 1.0f;", "factor[0] = factor[1] = 0.0f;", "softmax.narrow.2.2"),
    # K, V, tables
    (PRODUCER, "c.k_empty[slot].wait_empty(load, kStages);", ";", "tags.plain.2.2"),
    (PRODUCER, "c.v_empty[slot].wait_empty(load, kStages);", ";", "tags.plain.2.2"),
    (PRODUCER, "row += Variant::kReverse ? -kTileN : kTileN;", "row += kTileN;", "tags.reverse.3.2"),
    (PRODUCER, "Variant::kReverse ? -i : i", "i", "tags.reverse.3.2"),
    (PRODUCER, "c.table_empty[slot].wait_empty(load, kTableSlots);", ";", "tags.tables.3.1"),
    (PRODUCER, "        c.stage.fill_next(", "        c.table_full[slot].arrive();\n        c.stage.fill_next(", "tags.tables.2.1"),
    (PRODUCER, "load, i > 0)", "load, load > 0)", "tags.tables.2.2"),
    (TABLES, "before[i + kTileN]", "before[i + kTileN - 1]", "tags.bounded_reverse.2.1"),
    (TABLES, "diag[slot][i + kTileN] = before[i]", "diag[slot][i] = before[i]", "tags.tables.2.1"),
    (TABLES, "kReverse ? kShared : 0", "kReverse ? kTileN : 0", "tags.bounded_reverse.3.1"),
    (TABLES, "kBuffers - 1) % kBuffers", "1) % kBuffers", "tags.tables.3.2.4"),
    # copied elements of a captured tensor
    (PRODUCER, "        else\n            full.arrive();", "", "tags.plane2.2.2"),
    (PRODUCER, "tile * kTileN, tiles.plane(slot), c.table_full", "0, tiles.plane(slot), c.table_full", "tags.plane4.2.1"),
    (SHAPE_FILE, "init(kPlanes ? 33 : 32)", "init(32)", "tags.plane2.2.2"),
    (PLANE_FILE, "copied = args.tensors[V::Plane::kTensor].copied", "copied = true", "tags.plane4.2.1"),
    (PLANE_FILE, " && plane_first % (16 / kPlaneBytes) == 0", "", "tags.plane2.2.2"),
    (PLANE_FILE, "mbarrier_expect(full, kPlaneSlotBytes)", "mbarrier_expect(full, kPlanePanelBytes)", "tags.plane2.3.1"),
    (PLANE_FILE, "w.plane_first + kv0 + i", "kv0 + i", "tags.plane2.3.1"),
    (PLANE_FILE, "i * (kPlaneWidth / kPlaneBytes)", "i * kPlaneWidth", "tags.plane2.2.80"),
    (PLANE_FILE, "w.plane_place.position + w.q0", "w.plane_place.position + w.q_start + w.q0", "tags.plane2_packed.3.1"),
    (PLANE_FILE, "w.plane_place.position + w.q0", "max(0, w.plane_place.position + w.q0)", "tags.plane2.2.2"),
    (PLANE_FILE, "w.plane_place.other[0], w.plane_place.other[1]", "w.plane_place.other[1], w.plane_place.other[0]",
     "tags.plane2_causal.2.2"),
    (PLANE_FILE, "+ units / kUnits * kPlanePanelBytes", "+ units / kUnits * kPlaneWidth", "numbers.plane2.2.2"),
    (PLANE_FILE, "^ r * kUnits / 8 % kUnits", "^ r % kUnits", "numbers.plane2.2.80"),
    (PLANE_FILE, "^ r * kUnits / 8 % kUnits", "", "numbers.plane2.3.1"),
    (PLANE_FILE, "(unit ^ 16 * (units % kUnits))", "(unit + 16 * (units % kUnits))", "numbers.plane4.2.80"),
    (PLANE_FILE, "words[n % 2 * 2 + half]", "words[half * 2 + n % 2]", "numbers.plane2.3.1"),
    (PLANE_FILE, "address(n) + 8 * kPlaneWidth", "address(n)", "numbers.plane4.3.1"),
    (SCHEDULER, "kPlanes ? Item{head % args.B, head / args.B, tile, 0}", "false ? Item{0, 0, tile, 0}", "tags.plane2.2.2"),
    (SCHEDULER, "number / n % tiles", "number % tiles", "tags.plane2.3.1"),
    (SCHEDULER, " / together(args) * together(args);", ";", "tags.plane2_causal.2.2"),
    (SCHEDULER, "pair / n % per_head", "pair % per_head", "tags.plane4_causal.3.1"),
    (SHAPE_FILE, "+ slot * kPlaneSlotBytes;\n}", ";\n}", "tags.plane2_causal.2.2"),
    (MAINLOOP, "c_.table_full[slot].wait_full(load, kTableSlots);", ";", "tags.tables.2.1"),
    (MAINLOOP, "        c_.table_empty[slot].arrive_warp();", ";", "tags.tables.2.1"),
    (MAINLOOP, "        wait_k(visits_.load());", ";", "tags.plain.2.2"),
    (MAINLOOP, "        wait_v(last);\n", "", "tags.plain.2.2"),
    (MAINLOOP, "v_descriptor(visits_.held())", "v_descriptor(visits_.load())", "tags.plain.2.1"),
    (MAINLOOP, "visits_.load() - 1; // V", "visits_.load(); // V", "tags.plain.2.2"),
    (MAINLOOP, "k0_ + load % kStages", "k0_ + load % 2", "tags.plain.3.2.4"),
    (MAINLOOP, "if (plain)\n            visits_.release_v();", "if (true)\n            visits_.release_v();",
     "tags.plain.2.1"),
    (MAINLOOP, "if (reads)\n                visits_.release_v();", ";", "tags.plain.2.2"),
    (MAINLOOP, "} else {\n            wgmma_wait<0>();", "} else {", "tags.plain.2.2"),
    (MAINLOOP, "wgmma_wait<1>();", "", "tags.listed.2.2"),
    (MAINLOOP, "    visits_.hold_back();\n", "", "tags.plain.2.1"),
    (MAINLOOP, "    visits_.release_v();\n    open_ = true;",
     "    open_ = true;\n    visits_.release_v();\n    visits_.release_v();", "tags.plain.2.1"),
    (MAINLOOP, "    wgmma_wait<0>();\n    visits_.release_v();\n    open_ = true;",
     "    visits_.release_v();\n    wgmma_wait<0>();\n    open_ = true;", "tags.plain.2.1"),
    (MAINLOOP, "clear_tail<kRowBytes>(tiles_.v(", "if (false) clear_tail<kRowBytes>(tiles_.v(", "numbers.plain.2.2"),
    # V transposed in the kernel
    (FP8_FILE, "b.natural_empty[slot].wait_empty(load, kNaturalSlots);", ";", "fp8.plain.3.2.4+transposes"),
    (FP8_FILE, "b.natural_full[natural].wait_full(load, kNaturalSlots);", ";", "fp8.plain.3.2.4+transposes"),
    (FP8_FILE, "    c.v_empty[slot].wait_empty(load, kStages);\n    transpose_tile", "    transpose_tile", "fp8.plain.3.2.4+transposes"),
    (FP8_FILE, "tiles.v(slot), part);", "tiles.v(slot), 0);", "fp8.plain.3.2.4+transposes"),
    (FP8_FILE, "(row >> 2 ^ (matrix & 1))", "(matrix & 1)", "fp8.causal.2.1+transposes"),
    (FP8_FILE, "half = (down + i) % 2;", "half = i % 2;", "fp8.causal.2.1+transposes"),
    # rows that few keys carry
    (FP8_SOFTMAX, "!any_of(p, half, fmaxf(share * state.sum[half], kTopWeight));", "true;", "fp8.causal.2.2+peaks"),
    (FP8_SOFTMAX, "top |= p[2 * m + half] + up;", "top |= p[2 * m] + up;", "fp8.causal.2.2+peaks"),
    # items and Q
    (VISITS, "if (holds)\n                    return kNextBehind;", "", "tags.listed.2.1"),
    (VISITS, "c_.q_full[items_ % kQBuffers][group_].wait_full(items_, kQBuffers);", ";",
     "tags.listed.2.1"),
    (VISITS, "} else {\n                release_q();\n            }", "}", "tags.plain.3.1"),
    (VISITS, "c_.q_empty[items_ % kQBuffers]", "c_.q_empty[(items_ + 1) % kQBuffers]", "tags.plain.2.2"),
    (MAINLOOP, "                wait_q(visits_.item());\n", "                ;\n",
     "tags.listed.2.2"),
    (MAINLOOP, "put_off(item_);\n    reset(state_);", "put_off(item_);", "tags.plain.2.2"),
    (MAINLOOP, "            settle();\n            keep(p);\n            if (!plain)\n                leave();\n",
     "            if (!plain)\n                leave();\n            settle();\n            keep(p);\n", "tags.plain.2.2"),
    # three groups: what is rare before the product
    (MAINLOOP, "        wgmma_wait<0>(); // P V of the visit before: not below", "        ; // not below", "numbers.packed_causal.3.1"),
    (MAINLOOP, "            scale_output(factor_[0], factor_[1]);\n    } else {", "            ;\n    } else {", "numbers.packed_causal.3.1"),
    (MAINLOOP, "        if (!first_)\n            scale_output", "        wgmma_wait<0>();\n        if (!first_)\n            scale_output",
     "tags.plain.3.1"),
    (MAINLOOP, "        visits_.hold_back(); // its", "        ; // its", "tags.plain.3.2"),
    (MAINLOOP, "                settle();\n                wgmma_wait<0>();", "                wgmma_wait<0>();", "tags.plain.3.2"),
    (MAINLOOP, "visits_.release_v_if(plain)", "visits_.release_v_if(true)", "tags.plain.3.1"),
    (MAINLOOP, "    write_output(args_, c_.item[item % kItems], tiles_.o(group_), rows, promoter_);\n",
     "    c_.item_empty[item % kItems].arrive_warp();\n"
     "    write_output(args_, c_.item[item % kItems], tiles_.o(group_), rows, promoter_);    return;\n", "tags.listed.2.1"),
    (PRODUCER, "c.item_empty[item % kItems].arrive_warp();", ";", "tags.plain.2.1"),
    (PRODUCER, "if (lane == 0)\n            c.started.arrive();",
     "if (lane == 0 && i % 16 != 15)\n            c.started.arrive();", "tags.listed.2.1"),
    (SCHEDULER, "c.item_empty[i % kItems].wait_empty(i, kItems);", ";", "tags.packed_causal.2.2"),
    (SCHEDULER, "c.q_empty[buffer][g].wait_empty(item, kQBuffers);", ";", "tags.listed.2.1"),
    (SCHEDULER, "args.next_item[0] = 0;", ";", "tags.packed.2.1"),
    ("common/items.cuh", ": heads - section * section_heads;", ": section_heads;", "tags.listed.2.1"),
    # extra columns
    ("sm90/extra.cuh", "p.position + position", "position", "tags.dot.2.2"),
    ("common/extra.cuh", "p.other[n++] =", "p.other[0] =", "tags.dot.2.2"),
    ("common/extra.cuh", "V::dot_factor(args, t) / args.scale", "V::dot_factor(args, t)", "numbers.dot_times.2.2"),
    (SCHEDULER, "kHeadBytesQ + extra_bytes(kRowsPerGroup)", "kHeadBytesQ", "tags.dot.2.2"),
    (SCHEDULER, "w.q0 + kRowsPerGroup * g);", "w.q_start + w.q0 + kRowsPerGroup * g);", "tags.dot_packed.2.1"),
    (PRODUCER, "place, row - start", "place, row", "tags.dot_packed.2.1"),
    (PRODUCER, "tiles.k(slot) + kHeadBytesK", "tiles.k(slot)", "tags.dot.3.1"),
    (MAINLOOP, "s[n][e] *= factor;", ";", "numbers.dot_times.2.2"),
    (MAINLOOP, "multiply_extra(s, q, k);\n        wgmma_wait<0>();", "multiply_extra(s, q, k);", "numbers.dot_times.2.2"),
    # weights and output
    (EPILOGUE, "sum != 0.0f", "true", "numbers.listed.3.1"),
    (EPILOGUE, "base = sunk.top;", "", "numbers.causal.2.1"),
    (EPILOGUE, "factor * facc_rcp(sum)", "facc_rcp(sum)", "numbers.bias.2.2"),
    (EPILOGUE, "to.attends(half) ? sink_of(args, w) : nothing", "nothing", "numbers.reverse.2.2"),
    (EPILOGUE, "to.attends(half) ? sunk.sink : nothing", "sunk.sink", "numbers.packed_causal.3.1"),
    (EPILOGUE, "(lane / 16 ^ lane % 8) << 4", "lane / 16 << 4", "numbers.plain.2.2"),
    (EPILOGUE, "place ^ n % 8 << 4", "place + (n % 8 << 4)", "numbers.plain.2.2"),
    (EPILOGUE, "        clear_rows(own, attends);", "        ;", "numbers.plain.2.2"),
    (EPILOGUE, "+ 8 * half) * kRowBytes + i % 8", ") * kRowBytes + i % 8", "numbers.plain.2.2"),
    (SCHEDULER, "c.row[buffer * kTileM + r]", "c.row[r]", "tags.listed.2.2"),
    (SCHEDULER, "        c.q_full[buffer][g].arrive();", "        ;", "tags.listed.2.1"),
    (MAINLOOP, "c_.row[item_ % kQBuffers * kTileM + r]", "c_.row[r]", "tags.reverse.3.2"),
    (MAINLOOP, "threadIdx.x % 32 / 4 + 8 * half", "threadIdx.x % 32 / 4", "numbers.relative.2.full"),
    (EPILOGUE, "by[half] *= args.dropout_scale;", ";", "numbers.tables.3.2"),
    (MAINLOOP, "drop_weights(args_, w, w.q0 + row_in_tile(), kv0, p);", ";", "numbers.causal.2.1"),
    (SOFTMAX_FILE, "kv0 + 16 * step + 2 * (threadIdx.x % 4)", "kv0 + 16 * step", "numbers.softcap.3.1"),
    (SOFTMAX_FILE, "p[4 * step + i] &= keep[i];", "p[4 * step + (i ^ 1)] &= keep[i];", "numbers.listed.3.1"),
    (DROPOUT_FILE, "w.b * args.H + w.h", "w.h", "numbers.packed.2.2"),
    (DROPOUT_FILE, "(x & drops) | ((x | drops) & into)", "into", "numbers.packed.2.2"),
    (SOFTMAX_FILE, "widest <= Variant::narrow_limit(args, w.t)", "true", "softmax.narrow.2.2"),
    (SOFTMAX_FILE, "offset[half] -= Variant::shift(args, w.t);", ";", "softmax.narrow.2.2"),
    (SOFTMAX_FILE, "kRawScores, kNarrow, kPlane>", "kRawScores, false, kPlane>", "softmax.narrow.2.2"),
    (VARIANT_MATH, "x.distance - last >= kBefore", "x.distance >= kBefore", "numbers.t5.2.2"),
    (VARIANT_MATH, "x.distance <= -kAfter", "x.distance - last <= -kAfter", "numbers.relative.2.2"),
    (SOFTMAX_FILE, "if constexpr (!kMoved)", "if constexpr (true)", "numbers.alibi.3.2"),
    (SOFTMAX_FILE, "[kSums - 1] += high", "[kSums - 1] += kSums == 1 ? 0 : high", "softmax.narrow.2.2"),
    (SOFTMAX_FILE, "fmaxf(4.0f * sum, kTileN)", "16.0f * sum", "softmax.narrow.2.2"),
    (SOFTMAX_FILE, "fmaxf(4.0f * sum, kTileN)", "kTileN", "softmax.narrow.2.2"),
    (REFERENCES, "factor[0] = factor[1] = 1.0f;", "", "softmax.narrow.3.1"),
]


def programs():
    return ([f"tags.{v}.{s}" for v in VARIANTS if v not in dict(SOFTMAX) and v != "dot_times"
             for s in SHAPES_OF.get(v, OTHER_SHAPES)] +
            [f"numbers.{v}.{s}" for v, s in NUMBERS] + [f"softmax.{v}.{s}" for v, s in SOFTMAX] +
            [f"fp8.{name}" for name in FP8_PROGRAMS])


def build(folder, name, templates, changes=()):
    kind, variant, shape = name.split("+")[0].split(".", 2)
    file, tensors, scheduled, flags = VARIANTS[variant]
    numbers = kind != "tags"
    plane = int(variant[5]) if variant.startswith("plane") else 0
    extra = EXTRA[shape] if variant.startswith("dot") else 0
    place = tempfile.mkdtemp(prefix=name, dir=folder)
    config = dict(dict(stages=2, D=64, Dv=64), **SHAPES[shape], qreg=False, dtype="bf16",
                  out="f32" if shape == "2.1" else "bf16", tensors=tensors, wgmma="", scheduled=scheduled, extra=extra, plane=plane,
                  packed=scheduled)
    if numbers:
        config.update(sinks=kind == "numbers" and (variant, shape) in SINKS,
                      dropout=kind == "numbers" and (variant, shape) in DROPOUT)
        if "D" not in SHAPES[shape]:
            config.update(D=24, Dv=40 if shape != "2.1" else 72)
    texts = {"facc_config.cuh": config_text(config), "facc_variant.cuh": open(os.path.join(ROOT, file)).read()}
    if kind == "fp8":
        config.update(FP8[shape])
        if "transposes" in name:
            D = {"2.1": 256, "2.2": 128}.get(shape, 64)
            config.update(D=D, Dv=D)
        texts = {"facc_config.cuh": config_text(dict(config, dtype="e4m3", block_scales="blocks" in name,
                                                           promotes="promotes" in name, transposes="transposes" in name,
                                                           peaks="peaks" in name)),
                 "facc_variant.cuh": fp8_variant(texts["facc_variant.cuh"])}
    with open(os.path.join(templates, "sm90", "fp8_forward.cu" if kind == "fp8" else "forward.cu")) as f:
        texts["forward_host.cuh"] = f.read()
    with open(os.path.join(templates, "sm90/kernel.cuh")) as f:
        kernel = f.read()
    for old, new in (("extern __shared__ __align__(1024) unsigned char shared[];",
                      "unsigned char *const shared = simt::m.cta->shared;"),
                     ('extern "C" __global__', "static")):
        assert old in kernel, old
        kernel = kernel.replace(old, new)
    texts["sm90/kernel.cuh"] = kernel
    for file, old, new in changes:
        text = texts.get(file)
        if text is None:
            with open(os.path.join(templates, file)) as f:
                text = f.read()
        if old not in text:
            raise SystemExit(f"{file} no longer has this: {old}")
        texts[file] = text.replace(old, new)
    for file, text in texts.items():
        os.makedirs(os.path.dirname(os.path.join(place, file)), exist_ok=True)
        with open(os.path.join(place, file), "w") as f:
            f.write(text)
    include = [place] + ([] if numbers else [os.path.join(HOST, "tags")]) + [HOST, templates, ROOT]
    program = os.path.join(place, "pipeline")
    subprocess.run([os.environ.get("CXX", "c++"), *FLAGS, *flags, f"-DHOST_CONSUMER_LANES={32 if numbers else 1}",
                    *(x for i in include for x in ("-I", i)),
                    os.path.join(HOST, "softmax.cpp" if kind == "softmax" else "pipeline.cpp"), "-o", program], check=True)
    return program


def run(folder, name, args, changes=()):
    cases = max(1, args.cases // 25) if name.startswith(("numbers", "fp8")) else args.cases
    try:
        program = build(folder, name, args.templates, changes)
    except subprocess.CalledProcessError:
        return name, None, "does not compile"
    try:
        done = subprocess.run([program, str(args.seed), str(cases), str(args.size)] + ["first"] * bool(changes),
                              capture_output=True, text=True, timeout=args.timeout)
        result = name, done.returncode, (done.stdout + done.stderr).strip()
    except subprocess.TimeoutExpired:
        result = name, None, "takes too long"
    shutil.rmtree(os.path.dirname(program))
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("--mutations", action="store_true")
    parser.add_argument("--templates", default=os.path.join(ROOT, "templates"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=int, default=600)
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        if args.mutations:
            mutations = [m for m in MUTATIONS if args.only in m[3]]
            clean = {n: pool.submit(run, folder, n, args) for n in sorted({m[3] for m in mutations})}
            for name, task in clean.items():
                code, text = task.result()[1:]
                failed += code != 0
                print("ok    " if code == 0 else "FAILED", name, text, flush=True)
            tasks = [(m, pool.submit(run, folder, m[3], args, [m[:3]])) for m in mutations]
            for mutation, task in tasks:
                name, code, text = task.result()
                failed += code != 1
                print("found    " if code == 1 else "NOT FOUND", name, " ".join(f"{mutation[1]} -> {mutation[2]}".split()))
                print("    " + " ".join(text.split("\n")[1:2])[:160], flush=True)
        else:
            for task in [pool.submit(run, folder, name, args) for name in programs() if args.only in name]:
                name, code, text = task.result()
                failed += code != 0
                print("ok    " if code == 0 else "FAILED", name, text[:6000], flush=True)
    print(f"{failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
