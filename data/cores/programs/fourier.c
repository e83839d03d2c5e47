/* Fast Fourier transform forth and back, with roots of unity by repeated half-angle square roots. */
#include "runtime.h"

enum { LOG = 11, N = 1 << LOG, ROUNDS = 4 };
static double re[N], im[N], cosine[N], sine[N];

static void roots(void) {
    double c[LOG + 1], s[LOG + 1]; /* of the angle 2 pi / 2^k */
    c[0] = 1, s[0] = 0, c[1] = -1, s[1] = 0, c[2] = 0, s[2] = 1;
    for (int k = 3; k <= LOG; k++) {
        c[k] = __builtin_sqrt((1 + c[k - 1]) / 2);
        s[k] = s[k - 1] / (2 * c[k]);
    }
    cosine[0] = 1;
    for (int bit = 0; bit < LOG; bit++)
        for (int i = 0; i < 1 << bit; i++) {
            double x = c[LOG - bit], y = s[LOG - bit];
            cosine[i + (1 << bit)] = cosine[i] * x - sine[i] * y;
            sine[i + (1 << bit)] = cosine[i] * y + sine[i] * x;
        }
}

static void transform(double sign) {
    for (u32 i = 0, j = 0; i < N; i++) {
        if (i < j) {
            double swap = re[i];
            re[i] = re[j], re[j] = swap;
            swap = im[i], im[i] = im[j], im[j] = swap;
        }
        u32 bit = N >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j |= bit;
    }
    for (int half = 1; half < N; half *= 2)
        for (int start = 0; start < N; start += 2 * half)
            for (int k = 0; k < half; k++) {
                int a = start + k, b = a + half, w = k * (N / (2 * half));
                double x = re[b] * cosine[w] - sign * im[b] * sine[w], y = re[b] * sine[w] * sign + im[b] * cosine[w];
                re[b] = re[a] - x, im[b] = im[a] - y;
                re[a] += x, im[a] += y;
            }
}

static void program(void) {
    roots();
    for (int i = 0; i < N; i++) re[i] = random_unit() - 0.5, im[i] = 0;
    for (int round = 0; round < ROUNDS; round++) {
        transform(-1);
        for (int i = 0; i < N; i++) re[i] *= 1.0 / (1 + i % 64), im[i] *= 1.0 / (1 + i % 64);
        transform(1);
        for (int i = 0; i < N; i++) re[i] /= N, im[i] /= N;
    }
    for (int i = 0; i < N; i += 37) check_double(re[i]), check_double(im[i]);
}
