/* Breadth-first search, connected components and PageRank of a random graph with a skewed degree distribution. */
#include "runtime.h"

enum { VERTICES = 6000, EDGES = 48000, ITERATIONS = 6 };
static u32 from[EDGES], to[EDGES], first[VERTICES + 1], target[EDGES], queue[VERTICES], root[VERTICES];
static i32 level[VERTICES];
static double rank[VERTICES], next[VERTICES];

static u32 pick(void) {
    u32 a = random_below(VERTICES), b = random_below(VERTICES);
    return a < b ? a : b;
}

static u32 find(u32 v) {
    while (root[v] != v) v = root[v] = root[root[v]];
    return v;
}

static void program(void) {
    for (int e = 0; e < EDGES; e++) {
        from[e] = pick();
        to[e] = random_below(VERTICES);
        first[from[e] + 1]++;
    }
    for (int v = 0; v < VERTICES; v++) first[v + 1] += first[v], root[v] = (u32)v, level[v] = -1;
    static u32 place[VERTICES];
    for (int v = 0; v < VERTICES; v++) place[v] = first[v];
    for (int e = 0; e < EDGES; e++) target[place[from[e]]++] = to[e];

    for (int source = 0; source < 3; source++) {
        u32 start = random_below(VERTICES), head = 0, tail = 0;
        for (int v = 0; v < VERTICES; v++) level[v] = -1;
        level[start] = 0;
        queue[tail++] = start;
        while (head < tail) {
            u32 v = queue[head++];
            for (u32 e = first[v]; e < first[v + 1]; e++)
                if (level[target[e]] < 0) level[target[e]] = level[v] + 1, queue[tail++] = target[e];
        }
        check(tail);
        check((u64)level[queue[tail - 1]]);
    }
    for (int e = 0; e < EDGES; e++) root[find(from[e])] = find(to[e]);
    u64 components = 0;
    for (int v = 0; v < VERTICES; v++) components += find((u32)v) == (u32)v;
    check(components);

    for (int v = 0; v < VERTICES; v++) rank[v] = 1.0 / VERTICES;
    for (int i = 0; i < ITERATIONS; i++) {
        double lost = 0;
        for (int v = 0; v < VERTICES; v++) next[v] = 0;
        for (int v = 0; v < VERTICES; v++) {
            u32 degree = first[v + 1] - first[v];
            if (!degree) lost += rank[v];
            double share = degree ? rank[v] / degree : 0;
            for (u32 e = first[v]; e < first[v + 1]; e++) next[target[e]] += share;
        }
        for (int v = 0; v < VERTICES; v++) rank[v] = 0.15 / VERTICES + 0.85 * (next[v] + lost / VERTICES);
    }
    for (int v = 0; v < VERTICES; v += 101) check_double(rank[v]);
}
