/* Two tables joined by a hash table with chains, the matches grouped and summed. */
#include "runtime.h"

enum { ORDERS = 16000, CUSTOMERS = 5000, BUCKETS = 4096, GROUPS = 64 };
typedef struct { u64 key; u32 group; i32 next; } Customer;
typedef struct { u64 key; u32 amount, item; } Order;
static Customer customers[CUSTOMERS];
static Order orders[ORDERS];
static i32 bucket[BUCKETS];
static u64 sums[GROUPS], counts[GROUPS];

static u32 hash(u64 key) {
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdul;
    key ^= key >> 29;
    return key & (BUCKETS - 1);
}

static void program(void) {
    for (int i = 0; i < CUSTOMERS; i++) {
        customers[i].key = random_u64() % 20000;
        customers[i].group = random_below(GROUPS);
    }
    for (int i = 0; i < ORDERS; i++) {
        orders[i].key = random_u64() % 20000;
        orders[i].amount = random_below(10000);
        orders[i].item = random_below(100);
    }
    for (int round = 0; round < 3; round++) {
        u64 matches = 0;
        for (int b = 0; b < BUCKETS; b++) bucket[b] = -1;
        for (int i = 0; i < CUSTOMERS; i++) {
            u32 b = hash(customers[i].key);
            customers[i].next = bucket[b];
            bucket[b] = i;
        }
        for (int i = 0; i < ORDERS; i++) {
            if (orders[i].item % 3 == (u32)round) continue;
            for (i32 c = bucket[hash(orders[i].key)]; c >= 0; c = customers[c].next)
                if (customers[c].key == orders[i].key) {
                    matches++;
                    sums[customers[c].group] += orders[i].amount;
                    counts[customers[c].group]++;
                }
        }
        check(matches);
    }
    for (int g = 0; g < GROUPS; g++) check(counts[g] ? sums[g] / counts[g] : 0);
}
