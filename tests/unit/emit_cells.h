// Generated variants on the CPU, part 2: what test_emit.c calls. Included once
// per variant inside its namespace, with CELLS and TILE defined as the
// functions' names.

// Cells (q, kv0 .. kv0 + n - 1), as a kernel's thread makes them.
extern "C" void CELLS(const void *bytes, int b, int h, int q, int kv0, int n,
                      const float *s, float *score, unsigned char *keep)
{
    const KernelArgs &args = *(const KernelArgs *)bytes;
    const Variant::Tile t = Variant::tile(args, b, h);
    const Variant::Row r = Variant::row(args, t, q);
    const Variant::Base base = Variant::base(args, t, r, q, kv0);
    for (int c = 0; c < n; c++) {
        const Variant::Col k = Variant::col(args, t, kv0 + c);
        const Variant::Diag d = Variant::diag(args, t, q - kv0 - c);
        score[c] =
            Variant::kHasScore
                ? fmaf(Variant::score(args, t, r, k, d, base, s[c], q, kv0, c),
                       Variant::multiplier(args, t), Variant::shift(args, t))
                : s[c] * args.scale_log2;
        keep[c] = !Variant::kHasMask ||
                  Variant::mask(args, t, r, k, d, base, s[c], q, kv0, c);
    }
}

// out: first, end, verdict of a tile.
extern "C" void TILE(const void *bytes, int b, int h, int q_first, int q_last,
                     int kv_first, int kv_last, int *out)
{
    const KernelArgs &args = *(const KernelArgs *)bytes;
    const Variant::Tile t = Variant::tile(args, b, h);
    const Variant::KvRange range = Variant::kv_range(args, t, q_first, q_last);
    out[0] = range.first;
    out[1] = range.end;
    out[2] = Variant::verdict(args, t, q_first, q_last, kv_first, kv_last);
}

#undef CELLS
#undef TILE
