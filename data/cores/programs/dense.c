/* A blocked matrix product with fused multiply-add, then LU with partial pivoting and the solution of a system. */
#include "runtime.h"

enum { N = 72, BLOCK = 24 };
static double a[N][N], b[N][N], c[N][N], x[N];
static int order[N];

static void product(void) {
    for (int i0 = 0; i0 < N; i0 += BLOCK)
        for (int k0 = 0; k0 < N; k0 += BLOCK)
            for (int j0 = 0; j0 < N; j0 += BLOCK)
                for (int i = i0; i < i0 + BLOCK; i++)
                    for (int k = k0; k < k0 + BLOCK; k++) {
                        double factor = a[i][k];
                        for (int j = j0; j < j0 + BLOCK; j++) c[i][j] = __builtin_fma(factor, b[k][j], c[i][j]);
                    }
}

static void factor(void) {
    for (int i = 0; i < N; i++) order[i] = i;
    for (int k = 0; k < N; k++) {
        int pivot = k;
        for (int i = k + 1; i < N; i++)
            if (__builtin_fabs(c[i][k]) > __builtin_fabs(c[pivot][k])) pivot = i;
        int kept = order[k];
        order[k] = order[pivot];
        order[pivot] = kept;
        for (int j = 0; j < N; j++) {
            double swap = c[k][j];
            c[k][j] = c[pivot][j];
            c[pivot][j] = swap;
        }
        for (int i = k + 1; i < N; i++) {
            double ratio = c[i][k] /= c[k][k];
            for (int j = k + 1; j < N; j++) c[i][j] -= ratio * c[k][j];
        }
    }
}

static void program(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) a[i][j] = random_unit() - 0.5, b[i][j] = random_unit() + (i == j);
    product();
    factor();
    for (int i = 0; i < N; i++) {
        x[i] = 1.0 / (1 + order[i]);
        for (int j = 0; j < i; j++) x[i] -= c[i][j] * x[j];
    }
    for (int i = N; i--;) {
        for (int j = i + 1; j < N; j++) x[i] -= c[i][j] * x[j];
        x[i] /= c[i][i];
    }
    for (int i = 0; i < N; i++) check_double(x[i]), check((u64)order[i]);
}
