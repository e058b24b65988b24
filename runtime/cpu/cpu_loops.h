/* The body of one set of kernels. The includer defines FT, CK_LANES (per
 * vector), CK_NAME(f) (function names of the set), CK_ISA, CK_TARGET
 * (attribute), CK_FMA(a, b, c) on vectors and CK_EXP; all but FT and CK_EXP
 * are undefined at the end. No include guard: included once per set. */

typedef FT CK_NAME(vec)
    __attribute__((vector_size(CK_LANES * sizeof(FT)), may_alias));

/* mr rows times one panel of nv vectors. */
CK_TARGET static inline __attribute__((always_inline)) void
CK_NAME(block)(const int mr, const int nv, bool add, FT scale, int k,
               const FT *a, size_t lda, const FT *b, FT *c, size_t ldc)
{
    CK_NAME(vec) acc[6][2];
#pragma GCC unroll 6
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            acc[i][v] = (CK_NAME(vec)){0};
    for (int p = 0; p < k; p++) {
        const CK_NAME(vec) *row = (const CK_NAME(vec) *)(b + p * nv * CK_LANES);
#pragma GCC unroll 6
        for (int i = 0; i < mr; i++) {
            CK_NAME(vec) x = a[(size_t)i * lda + (size_t)p] - (CK_NAME(vec)){0};
#pragma GCC unroll 2
            for (int v = 0; v < nv; v++)
                acc[i][v] = CK_FMA(x, row[v], acc[i][v]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++) {
            CK_NAME(vec) *to =
                (CK_NAME(vec) *)(c + (size_t)i * ldc + v * CK_LANES);
            *to = add ? *to + acc[i][v] : acc[i][v] * scale;
        }
}

#define CK_BLOCK(mr)                                                           \
    (nv == 2 ? CK_NAME(block)(mr, 2, add, scale, k, a, lda, b, c, ldc)         \
             : CK_NAME(block)(mr, 1, add, scale, k, a, lda, b, c, ldc))

/* All rows times one panel. */
CK_TARGET static void CK_NAME(panel)(int nv, bool add, FT scale, int m, int k,
                                     const FT *a, size_t lda, const FT *b,
                                     FT *c, size_t ldc)
{
    while (m > 0) {
        int mr = m >= 6 ? 6 : m >= 4 ? 4 : m >= 2 ? 2 : 1;
        if (mr == 6)
            CK_BLOCK(6);
        else if (mr == 4)
            CK_BLOCK(4);
        else if (mr == 2)
            CK_BLOCK(2);
        else
            CK_BLOCK(1);
        a += (size_t)mr * lda;
        c += (size_t)mr * ldc;
        m -= mr;
    }
}

static void CK_NAME(gemm)(bool add, double scale, int m, int n, int k,
                          const void *a, size_t lda, const void *b, void *c,
                          size_t ldc)
{
    const FT *panels = b;
    FT *to = c;
    for (int j = 0; j < n; j += 2 * CK_LANES)
        CK_NAME(panel)
    (n - j > CK_LANES ? 2 : 1, add, (FT)scale, m, k, a, lda,
     panels + (size_t)j * (size_t)k, to + j, ldc);
}

CK_TARGET static void CK_NAME(pack_columns)(void *b, int dim, int col0,
                                            const float *rows)
{
    enum { STEP = CK_LANES }; /* columns that never straddle a panel */
    for (int c = 0; c < 16; c += STEP) {
        int col = col0 + c, in = col % (2 * CK_LANES);
        FT *to = (FT *)b + (size_t)(col - in) * (size_t)dim + in;
        for (int d = 0; d < dim; d++)
            for (int r = 0; r < STEP; r++)
                to[(size_t)d * 2 * CK_LANES + (size_t)r] =
                    rows[(size_t)(c + r) * (size_t)dim + (size_t)d];
    }
}

CK_TARGET static bool CK_NAME(pack_row)(void *b, int k, int n, int row, int dim,
                                        const float *values)
{
    FT *to = b;
    for (int j = 0; j < n; j += 2 * CK_LANES) {
        int w = n - j < 2 * CK_LANES ? n - j : 2 * CK_LANES;
        FT *at = to + (size_t)j * (size_t)k + (size_t)row * (size_t)w;
        for (int i = 0; i < w; i++)
            at[i] = j + i < dim ? (FT)values[j + i] : 0;
    }
    uint32_t special = 0;
    for (int i = 0; i < dim; i++)
        special |= (ev_bits(values[i]) & 0x7f800000u) == 0x7f800000u;
    return special != 0;
}

CK_TARGET static void CK_NAME(widen)(void *to, const float *from, int n)
{
    FT *d = to;
    for (int i = 0; i < n; i++)
        d[i] = (FT)from[i];
}

CK_TARGET static void CK_NAME(mask)(int n, void *s, const uint8_t *keep)
{
    FT *x = s;
    for (int i = 0; i < n; i++)
        x[i] = keep[i] ? x[i] : -(FT)INFINITY;
}

CK_TARGET static double CK_NAME(row_max)(int n, const void *s)
{
    const FT *x = s;
    FT lane[CK_LANES], m = -(FT)INFINITY;
    for (int l = 0; l < CK_LANES; l++)
        lane[l] = m;
    for (int i = 0; i < n; i += CK_LANES)
        for (int l = 0; l < CK_LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (int l = 0; l < CK_LANES; l++)
        m = lane[l] > m ? lane[l] : m;
    return (double)m;
}

CK_TARGET static double CK_NAME(row_exp)(int n, void *s, double m)
{
    FT *x = s, top = (FT)m;
    CK_NAME(vec) sum = {0};
    for (int i = 0; i < n; i++)
        x[i] = CK_EXP(x[i] - top);
    for (int i = 0; i < n; i += CK_LANES)
        sum += *(CK_NAME(vec) *)(x + i);
    double total = 0;
    for (int l = 0; l < CK_LANES; l++)
        total += (double)sum[l];
    return total;
}

CK_TARGET static void CK_NAME(add_row)(int n, void *o, const void *p,
                                       const float *v)
{
    FT *to = o, x = *(const FT *)p;
    for (int i = 0; i < n; i++)
        to[i] += x * (FT)v[i];
}

CK_TARGET static void CK_NAME(scale_row)(int n, void *s, double factor)
{
    FT *x = s, f = (FT)factor;
    for (int i = 0; i < n; i++)
        x[i] *= f;
}

static const struct cpu_kernels CK_NAME(kernels) = {
    CK_ISA,
    sizeof(FT),
    CK_LANES,
    CK_NAME(gemm),
    CK_NAME(pack_columns),
    CK_NAME(pack_row),
    CK_NAME(widen),
    CK_NAME(mask),
    CK_NAME(row_max),
    CK_NAME(row_exp),
    CK_NAME(add_row),
    CK_NAME(scale_row),
};

#undef CK_BLOCK
#undef CK_LANES
#undef CK_NAME
#undef CK_ISA
#undef CK_TARGET
#undef CK_FMA
