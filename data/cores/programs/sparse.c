/* Conjugate gradients on a sparse symmetric matrix in compressed rows: a grid's Laplacian and random couplings. */
#include "runtime.h"

enum { SIDE = 48, N = SIDE * SIDE, EXTRA = 1500, ENTRIES = 5 * N + 2 * EXTRA, STEPS = 24 };
static u32 row[N + 1], column[ENTRIES], pair[EXTRA][2];
static double value[ENTRIES], strength[EXTRA], x[N], r[N], p[N], q[N];

static void build(void) {
    for (int e = 0; e < EXTRA; e++) {
        pair[e][0] = random_below(N);
        pair[e][1] = random_below(N);
        strength[e] = random_unit() * 0.5;
    }
    static u32 place[N];
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < N; i++) {
            int neighbours[4] = {i >= SIDE ? i - SIDE : -1, i % SIDE ? i - 1 : -1, i % SIDE < SIDE - 1 ? i + 1 : -1, i < N - SIDE ? i + SIDE : -1};
            if (!pass) row[i + 1]++;
            else column[place[i]] = (u32)i, value[place[i]++] = 4.5;
            for (int k = 0; k < 4; k++) {
                if (neighbours[k] < 0) continue;
                if (!pass) row[i + 1]++;
                else column[place[i]] = (u32)neighbours[k], value[place[i]++] = -1;
            }
        }
        for (int e = 0; e < EXTRA; e++)
            for (int side = 0; side < 2; side++) {
                u32 i = pair[e][side];
                if (!pass) row[i + 1]++;
                else column[place[i]] = pair[e][1 - side], value[place[i]++] = -strength[e] * 0.1;
            }
        if (!pass)
            for (int i = 0; i < N; i++) row[i + 1] += row[i], place[i] = row[i];
    }
}

static double dot(const double *a, const double *b) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += a[i] * b[i];
    return sum;
}

static void program(void) {
    build();
    for (int i = 0; i < N; i++) r[i] = p[i] = random_unit() - 0.5;
    double rr = dot(r, r);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (u32 k = row[i]; k < row[i + 1]; k++) sum += value[k] * p[column[k]];
            q[i] = sum;
        }
        double alpha = rr / dot(p, q), before = rr;
        for (int i = 0; i < N; i++) x[i] += alpha * p[i], r[i] -= alpha * q[i];
        rr = dot(r, r);
        for (int i = 0; i < N; i++) p[i] = r[i] + rr / before * p[i];
    }
    check_double(rr);
    for (int i = 0; i < N; i += 53) check_double(x[i]);
}
