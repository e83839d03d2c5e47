/* The same keys sorted three ways: bottom-up merge, heap, least significant digit first. */
#include "runtime.h"

enum { N = 12000 };
static u64 keys[N], a[N], b[N];

static u64 digest(const u64 *values) {
    u64 h = 0;
    for (int i = 0; i < N; i++) h = h * 31 + values[i];
    return h;
}

static const u64 *merge_sort(void) {
    u64 *from = a, *to = b;
    for (int width = 1; width < N; width *= 2) {
        for (int low = 0; low < N; low += 2 * width) {
            int middle = low + width < N ? low + width : N, high = low + 2 * width < N ? low + 2 * width : N;
            int i = low, j = middle;
            for (int k = low; k < high; k++) to[k] = i < middle && (j >= high || from[i] <= from[j]) ? from[i++] : from[j++];
        }
        u64 *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static void sift(int root, int size) {
    u64 value = a[root];
    for (int child; (child = 2 * root + 1) < size; root = child) {
        if (child + 1 < size && a[child + 1] > a[child]) child++;
        if (a[child] <= value) break;
        a[root] = a[child];
    }
    a[root] = value;
}

static void heap_sort(void) {
    for (int i = N / 2; i--;) sift(i, N);
    for (int end = N - 1; end; end--) {
        u64 top = a[0];
        a[0] = a[end];
        a[end] = top;
        sift(0, end);
    }
}

static const u64 *radix_sort(void) {
    u64 *from = a, *to = b;
    for (int shift = 0; shift < 64; shift += 8) {
        u32 place[257] = {0};
        for (int i = 0; i < N; i++) place[(from[i] >> shift & 255) + 1]++;
        for (int d = 0; d < 256; d++) place[d + 1] += place[d];
        for (int i = 0; i < N; i++) to[place[from[i] >> shift & 255]++] = from[i];
        u64 *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static void program(void) {
    for (int i = 0; i < N; i++) keys[i] = random_u64() >> random_below(40);
    memcpy(a, keys, sizeof a);
    u64 merged = digest(merge_sort());
    memcpy(a, keys, sizeof a);
    heap_sort();
    u64 heaped = digest(a);
    memcpy(a, keys, sizeof a);
    u64 bucketed = digest(radix_sort());
    check(merged);
    check((u64)(merged == heaped) + 2 * (merged == bucketed));
}
