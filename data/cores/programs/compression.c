/* LZ77 with hash chains, then a Huffman code of the tokens; decoded again and compared. */
#include "runtime.h"

enum { SIZE = 48 * 1024, HASH = 4096, DEPTH = 8, SYMBOLS = 512, MINIMUM = 4, MAXIMUM = 200 };

static u8 text[SIZE], again[SIZE + MAXIMUM], packed[2 * SIZE];
static i32 head[HASH], previous[SIZE];
static u16 token[SIZE], distance[SIZE];
static u32 frequency[SYMBOLS], code[SYMBOLS];
static u8 length[SYMBOLS];
static u32 heap[SYMBOLS * 2], heap_size, weight[SYMBOLS * 2];
static i32 parent[SYMBOLS * 2];
static u64 bit_position;

static void make_text(void) {
    static u8 words[256][12];
    for (int w = 0; w < 256; w++) {
        int n = 2 + random_below(9);
        for (int i = 0; i < n; i++) words[w][i] = 'a' + random_below(26);
        words[w][n] = ' ';
    }
    for (int at = 0; at < SIZE;) {
        u32 pick = random_below(256) * random_below(256) >> 8;
        for (int i = 0; at < SIZE; i++) {
            text[at++] = words[pick][i];
            if (words[pick][i] == ' ') break;
        }
    }
}

static u32 hash_of(int at) {
    u32 word = text[at] | text[at + 1] << 8 | text[at + 2] << 16 | (u32)text[at + 3] << 24;
    return (word * 2654435761u) >> 20;
}

static int find_tokens(void) {
    int count = 0;
    for (int i = 0; i < HASH; i++) head[i] = -1;
    for (int at = 0; at < SIZE;) {
        int best = 0, from = 0;
        if (at + MINIMUM <= SIZE) {
            int candidate = head[hash_of(at)];
            for (int depth = 0; depth < DEPTH && candidate >= 0 && at - candidate < 65536; depth++) {
                int n = 0;
                while (n < MAXIMUM && at + n < SIZE && text[candidate + n] == text[at + n]) n++;
                if (n > best) best = n, from = candidate;
                candidate = previous[candidate];
            }
        }
        int step = best >= MINIMUM ? best : 1;
        token[count] = best >= MINIMUM ? 256 + best : text[at];
        distance[count++] = (u16)(at - from);
        for (int i = 0; i < step; i++, at++)
            if (at + MINIMUM <= SIZE) {
                u32 h = hash_of(at);
                previous[at] = head[h];
                head[h] = at;
            }
    }
    return count;
}

static void push(u32 node) {
    u32 at = heap_size++;
    while (at && weight[heap[(at - 1) / 2]] > weight[node]) heap[at] = heap[(at - 1) / 2], at = (at - 1) / 2;
    heap[at] = node;
}

static u32 pop(void) {
    u32 top = heap[0], last = heap[--heap_size], at = 0;
    for (;;) {
        u32 child = 2 * at + 1;
        if (child >= heap_size) break;
        if (child + 1 < heap_size && weight[heap[child + 1]] < weight[heap[child]]) child++;
        if (weight[heap[child]] >= weight[last]) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

static void build_code(int count) {
    u32 nodes = SYMBOLS, per_length[64] = {0}, next[64];
    for (int i = 0; i < SYMBOLS; i++) frequency[i] = 0;
    for (int i = 0; i < count; i++) frequency[token[i]]++;
    heap_size = 0;
    for (u32 s = 0; s < SYMBOLS; s++)
        if (frequency[s]) weight[s] = frequency[s], push(s);
    while (heap_size > 1) {
        u32 a = pop(), b = pop();
        weight[nodes] = weight[a] + weight[b];
        parent[a] = parent[b] = (i32)nodes;
        push(nodes++);
    }
    u32 root = pop();
    for (u32 s = 0; s < SYMBOLS; s++) {
        length[s] = 0;
        if (!frequency[s]) continue;
        for (u32 node = s; node != root; node = (u32)parent[node]) length[s]++;
        per_length[length[s]]++;
    }
    for (u32 bits = 1, first = 0; bits < 64; bits++) next[bits] = first = (first + (bits > 1 ? per_length[bits - 1] : 0)) << 1;
    for (u32 s = 0; s < SYMBOLS; s++)
        if (length[s]) code[s] = next[length[s]]++;
}

static void put(u32 value, int bits) {
    while (bits--) {
        packed[bit_position >> 3] |= (u8)((value >> bits & 1) << (bit_position & 7));
        bit_position++;
    }
}

static u32 get(int bits) {
    u32 value = 0;
    while (bits--) {
        value = value << 1 | (packed[bit_position >> 3] >> (bit_position & 7) & 1);
        bit_position++;
    }
    return value;
}

static u32 get_symbol(void) {
    u32 value = 0;
    for (int bits = 1;; bits++) {
        value = value << 1 | get(1);
        for (u32 s = 0; s < SYMBOLS; s++)
            if (length[s] == bits && code[s] == value) return s;
    }
}

static void program(void) {
    make_text();
    int count = find_tokens();
    build_code(count);
    for (int i = 0; i < count; i++) {
        put(code[token[i]], length[token[i]]);
        if (token[i] > 255) put(distance[i], 16);
    }
    check((u64)count);
    check(bit_position);
    u64 end = bit_position;
    for (u64 i = 0; i < end / 8; i++) check(packed[i]);
    bit_position = 0;
    int at = 0, tokens = count / 20; /* the search for a code is slow: a part is enough */
    while (tokens--) {
        u32 symbol = get_symbol();
        if (symbol < 256) again[at++] = (u8)symbol;
        else
            for (u32 n = symbol - 256, from = (u32)at - get(16); n; n--) again[at++] = again[from++];
    }
    int same = 0;
    for (int i = 0; i < at; i++) same += again[i] == text[i];
    check((u64)(same == at));
    check((u64)same);
}
