/* Alpha-beta search with a transposition table: four in a row on a board of seven columns and six rows, as bit sets. */
#include "runtime.h"

enum { WIDTH = 7, HEIGHT = 6, TABLE = 1 << 13, DEPTH = 6, GAMES = 12 };

typedef struct { u64 key; i32 value; i32 depth; } Entry;
static Entry table[TABLE];
static u64 nodes, hits;

static u64 column(int c) { return ((1ul << HEIGHT) - 1) << c * (HEIGHT + 1); }

static int wins(u64 stones) {
    static const int steps[4] = {1, HEIGHT, HEIGHT + 1, HEIGHT + 2};
    for (int i = 0; i < 4; i++) {
        u64 pairs = stones & stones >> steps[i];
        if (pairs & pairs >> 2 * steps[i]) return 1;
    }
    return 0;
}

static int bits(u64 x) {
    int n = 0;
    for (; x; x &= x - 1) n++;
    return n;
}

/* The centre is worth more: the number of fours through a cell falls towards the edge. */
static int worth(u64 mine, u64 theirs) {
    int value = 0;
    static const int weight[WIDTH] = {1, 2, 4, 7, 4, 2, 1};
    for (int c = 0; c < WIDTH; c++) value += weight[c] * (bits(mine & column(c)) - bits(theirs & column(c)));
    return value;
}

static int search(u64 mine, u64 theirs, int depth, int alpha, int beta) {
    static const int order[WIDTH] = {3, 2, 4, 1, 5, 0, 6};
    nodes++;
    if (wins(theirs)) return -1000 - depth;
    u64 all = mine | theirs;
    if (depth == 0) return worth(mine, theirs);
    Entry *entry = &table[(mine * 0x9e3779b97f4a7c15ul + theirs * 0xc2b2ae3d27d4eb4ful) >> 51];
    if (entry->key == (mine ^ theirs << 1) && entry->depth == depth) {
        hits++;
        return entry->value;
    }
    int best = -100000, low = alpha;
    for (int k = 0; k < WIDTH; k++) {
        int c = order[k];
        u64 place = (all + (1ul << c * (HEIGHT + 1))) & column(c);
        if (!place) continue;
        int value = -search(theirs, mine | place, depth - 1, -beta, -low);
        if (value > best) best = value;
        if (value > low) low = value;
        if (low >= beta) return best;
    }
    if (best == -100000) return 0;
    if (best > alpha) {
        entry->key = mine ^ theirs << 1;
        entry->value = best;
        entry->depth = depth;
    }
    return best;
}

static void program(void) {
    for (int game = 0; game < GAMES; game++) {
        u64 mine = 0, theirs = 0;
        for (int move = 0; move < 8; move++) {
            int c = (int)random_below(WIDTH);
            u64 place = ((mine | theirs) + (1ul << c * (HEIGHT + 1))) & column(c);
            if (!place || wins(mine | place)) continue;
            u64 swap = mine | place;
            mine = theirs;
            theirs = swap;
        }
        check((u64)(i64)search(mine, theirs, DEPTH, -100000, 100000));
    }
    check(nodes);
    check(hits);
}
