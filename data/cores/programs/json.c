/* Write a random document as JSON, parse it into a tree, walk the tree. */
#include "runtime.h"

enum { TEXT = 96 * 1024, NODES = 40000, NUL = 0, TRUE, FALSE, NUMBER, STRING, ARRAY, OBJECT };

typedef struct {
    int kind, child, next;
    u32 name;
    double number;
} Node;

static char text[TEXT + 4096];
static Node nodes[NODES];
static int used, end;
static const char *at;

static void put(const char *s) { while (*s) text[end++] = *s++; }

static void put_word(int n) {
    text[end++] = '"';
    while (n--) {
        u32 r = random_below(30);
        if (r >= 26) text[end++] = '\\';
        text[end++] = r < 26 ? (char)('a' + r) : r < 28 ? 'n' : '"';
    }
    text[end++] = '"';
}

static void put_number(void) {
    char digits[10];
    int n = 0;
    u32 x = random_below(1000000) >> random_below(16);
    if (random_below(3) == 0) text[end++] = '-';
    do digits[n++] = (char)('0' + x % 10); while (x /= 10);
    while (n) text[end++] = digits[--n];
    if (random_below(2)) {
        text[end++] = '.';
        for (int i = 1 + random_below(5); i--;) text[end++] = (char)('0' + random_below(10));
    }
}

static void put_value(int depth) {
    u32 kind = depth ? random_below(8) : 3 + random_below(5);
    if (kind < 3) {
        int n = 1 + random_below(7);
        put(kind ? "{" : "[");
        while (n-- && end < TEXT - 2048) {
            if (kind) put_word(1 + random_below(8)), put(": ");
            put_value(depth - 1);
            put(n ? ", " : "");
        }
        while (text[end - 1] == ' ' || text[end - 1] == ',') end--;
        put(kind ? "}" : "]");
    } else if (kind < 5) put_word(random_below(16));
    else if (kind == 5) put(random_below(3) ? random_below(2) ? "true" : "false" : "null");
    else put_number();
}

static void blank(void) { while (*at == ' ' || *at == ',' || *at == ':') at++; }

static u32 word(void) {
    u32 h = 2166136261u;
    for (at++; *at != '"'; at++) {
        if (*at == '\\') at++;
        h = (h ^ (u8)*at) * 16777619u;
    }
    at++;
    return h;
}

static double number(void) {
    double sign = 1, value = 0, unit = 1;
    if (*at == '-') sign = -1, at++;
    while (*at >= '0' && *at <= '9') value = value * 10 + (*at++ - '0');
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++) value += (unit /= 10) * (*at - '0');
    return sign * value;
}

static int parse(void) {
    int me = used++, last = -1;
    Node *node = &nodes[me];
    node->child = node->next = -1;
    if (*at == '{' || *at == '[') {
        char close = *at == '{' ? '}' : ']';
        node->kind = *at++ == '{' ? OBJECT : ARRAY;
        for (blank(); *at != close; blank()) {
            u32 name = 0;
            if (node->kind == OBJECT) name = word(), blank();
            int child = parse();
            nodes[child].name = name;
            if (last < 0) node->child = child;
            else nodes[last].next = child;
            last = child;
        }
        at++;
    } else if (*at == '"') node->kind = STRING, node->number = word();
    else if (*at == 't') node->kind = TRUE, at += 4;
    else if (*at == 'f') node->kind = FALSE, at += 5;
    else if (*at == 'n') node->kind = NUL, at += 4;
    else node->kind = NUMBER, node->number = number();
    return me;
}

static double walk(int me, int depth) {
    double sum = nodes[me].kind >= NUMBER ? nodes[me].number * depth : nodes[me].kind;
    check(nodes[me].name + (u32)nodes[me].kind);
    for (int child = nodes[me].child; child >= 0; child = nodes[child].next) sum += walk(child, depth + 1);
    return sum;
}

static void program(void) {
    put("[");
    while (end < TEXT - 4096) put_value(6), put(", ");
    put("0]");
    for (int round = 0; round < 2; round++) {
        used = 0;
        at = text;
        check_double(walk(parse(), 1));
        check((u64)used);
    }
}
