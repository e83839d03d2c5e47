/* A cache of the least recently used: hash table and doubly linked list, requests with a skewed popularity. */
#include "runtime.h"

enum { CAPACITY = 1024, BUCKETS = 2048, REQUESTS = 40000, KEYS = 8192 };
typedef struct { u32 key; i32 newer, older, next; u64 value; } Item;
static Item items[CAPACITY + 1];
static i32 bucket[BUCKETS];
static int used;
static u64 hits, evictions;

static void unlink(int i) {
    items[items[i].older].newer = items[i].newer;
    items[items[i].newer].older = items[i].older;
}

/* Item CAPACITY is the list's head: its `older` is the newest item. */
static void make_newest(int i) {
    items[i].older = items[CAPACITY].older;
    items[i].newer = CAPACITY;
    items[items[i].older].newer = i;
    items[CAPACITY].older = i;
}

static i32 *slot(u32 key) {
    i32 *at = &bucket[(key * 2654435761u) >> 21];
    while (*at >= 0 && items[*at].key != key) at = &items[*at].next;
    return at;
}

static u64 request(u32 key) {
    i32 *at = slot(key);
    int i = *at;
    if (i >= 0) {
        hits++;
        unlink(i);
    } else {
        if (used < CAPACITY) i = used++;
        else {
            i = items[CAPACITY].newer;
            unlink(i);
            i32 *old = slot(items[i].key);
            *old = items[i].next;
            evictions++;
            at = slot(key);
        }
        items[i].key = key;
        items[i].next = -1;
        items[i].value = key * 0x9e3779b97f4a7c15ul >> 7;
        *at = i;
    }
    make_newest(i);
    return items[i].value;
}

static void program(void) {
    for (int i = 0; i < BUCKETS; i++) bucket[i] = -1;
    items[CAPACITY].newer = items[CAPACITY].older = CAPACITY;
    u64 sum = 0;
    for (int n = 0; n < REQUESTS; n++) {
        u32 key = (u32)(((u64)random_below(KEYS) * random_below(KEYS)) / KEYS);
        sum += request(n % 5 ? key : (u32)n % KEYS);
    }
    check(sum);
    check(hits);
    check(evictions);
}
