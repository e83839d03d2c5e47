/* SHA-256 (FIPS 180-4) of a seeded message, chained over several rounds. */
#include "runtime.h"

enum { BYTES = 64 * 1024, ROUNDS = 2 };
static u8 message[BYTES];
static u32 constants[64], state[8];

static u32 rotate(u32 x, int n) { return x >> n | x << (32 - n); }

/* The constants are the first 32 bits of the fractional parts of the primes' cube and square roots. */
static u32 fraction(u32 prime, int cube) {
    u64 low = 0, high = 1ul << 40; /* root * 2^32 */
    while (high - low > 1) {
        u64 middle = (low + high) / 2;
        unsigned __int128 square = (unsigned __int128)middle * middle;
        int above;
        if (cube) above = (square >> 64) * middle + (((square & ~0ul) * (unsigned __int128)middle) >> 64) >= (unsigned __int128)prime << 32;
        else above = square >= (unsigned __int128)prime << 64;
        if (above) high = middle;
        else low = middle;
    }
    return (u32)low;
}

static void compress(const u8 *block) {
    u32 w[64], v[8];
    for (int i = 0; i < 16; i++) w[i] = (u32)block[4 * i] << 24 | block[4 * i + 1] << 16 | block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        u32 a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    for (int i = 0; i < 8; i++) v[i] = state[i];
    for (int i = 0; i < 64; i++) {
        u32 one = v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6])) + constants[i] + w[i];
        u32 two = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        for (int j = 7; j; j--) v[j] = v[j - 1];
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

static void program(void) {
    for (u32 n = 2, found = 0; found < 64; n++) {
        int prime = 1;
        for (u32 d = 2; d * d <= n; d++) prime &= n % d != 0;
        if (!prime) continue;
        if (found < 8) state[found] = fraction(n, 0);
        constants[found++] = fraction(n, 1);
    }
    for (int i = 0; i < BYTES; i++) message[i] = (u8)random_u64();
    for (int round = 0; round < ROUNDS; round++) {
        for (int at = 0; at < BYTES; at += 64) compress(message + at);
        for (int i = 0; i < 32; i++) message[i] ^= (u8)(state[i / 4] >> 8 * (i % 4));
    }
    for (int i = 0; i < 8; i++) check(state[i]);
}
