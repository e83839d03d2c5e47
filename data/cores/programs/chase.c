/* Pointers followed through a shuffled ring of cache lines, and keys looked up in a binary search tree. */
#include "runtime.h"

enum { LINES = 12000, HOPS = 400000, NODES = 6000, LOOKUPS = 20000 };
typedef struct Line { struct Line *next; u64 payload[7]; } Line;
typedef struct Node { u64 key; struct Node *child[2]; u64 count; } Node;
static Line lines[LINES];
static u32 order[LINES];
static Node nodes[NODES];

static void program(void) {
    for (u32 i = 0; i < LINES; i++) order[i] = i;
    for (u32 i = LINES - 1; i; i--) {
        u32 j = random_below(i + 1), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    for (u32 i = 0; i < LINES; i++) {
        lines[order[i]].next = &lines[order[(i + 1) % LINES]];
        lines[i].payload[i % 7] = i;
    }
    Line *line = lines;
    u64 sum = 0;
    for (int hop = 0; hop < HOPS; hop++) {
        sum += line->payload[hop & 3];
        line = line->next;
    }
    check(sum);
    check((u64)(line - lines));

    Node *root = 0;
    for (int i = 0; i < NODES; i++) {
        u64 key = random_u64() >> 44;
        Node **at = &root;
        while (*at && (*at)->key != key) at = &(*at)->child[key > (*at)->key];
        if (!*at) *at = &nodes[i], nodes[i].key = key;
        (*at)->count++;
    }
    u64 depth = 0, found = 0;
    for (int i = 0; i < LOOKUPS; i++) {
        u64 key = random_u64() >> 44;
        Node *at = root;
        for (; at && at->key != key; depth++) at = at->child[key > at->key];
        found += at ? at->count : 0;
    }
    check(depth);
    check(found);
}
