/* Regular expressions: compiled to an automaton (Thompson, CACM 1968), all states run side by side over a text. */
#include "runtime.h"

enum { STATES = 128, TEXT = 5000, PATTERNS = 6, ANY = 256, SPLIT, MATCH };

typedef struct { int symbol, out, other; } State;
static State states[STATES];
static int count, list[2][STATES], size[2];
static u32 mark[STATES], generation;
static char text[TEXT + 1];
static const char *patterns[PATTERNS] = {"(ab|ba)*c", "a.(b|c)+d?", "e*f(a|b)*e", "((a|b)c)+(d|e)", "b+a+d.e?f", "(a|b|c|d)*fe.a"};
static const char *at;

typedef struct { int start, out[32], outs; } Fragment;

static int make(int symbol, int out, int other) {
    states[count].symbol = symbol;
    states[count].out = out;
    states[count].other = other;
    return count++;
}

/* A dangling exit is 2 * state, plus 1 for its second one. */
static void patch(const Fragment *f, int target) {
    for (int i = 0; i < f->outs; i++)
        if (f->out[i] & 1) states[f->out[i] / 2].other = target;
        else states[f->out[i] / 2].out = target;
}

static Fragment alternation(void);

static Fragment atom(void) {
    Fragment f;
    if (*at == '(') {
        at++;
        f = alternation();
        at++;
        return f;
    }
    f.start = make(*at == '.' ? ANY : *at, -1, -1);
    f.out[0] = 2 * f.start;
    f.outs = 1;
    at++;
    return f;
}

static Fragment repeated(void) {
    Fragment f = atom();
    while (*at == '*' || *at == '+' || *at == '?') {
        int split = make(SPLIT, f.start, -1);
        if (*at == '?') f.out[f.outs++] = 2 * split + 1;
        else {
            patch(&f, split);
            f.out[0] = 2 * split + 1;
            f.outs = 1;
        }
        if (*at++ != '+') f.start = split;
    }
    return f;
}

static Fragment sequence(void) {
    Fragment f = repeated();
    while (*at && *at != '|' && *at != ')') {
        Fragment next = repeated();
        patch(&f, next.start);
        next.start = f.start;
        f = next;
    }
    return f;
}

static Fragment alternation(void) {
    Fragment f = sequence();
    while (*at == '|') {
        at++;
        Fragment right = sequence();
        f.start = make(SPLIT, f.start, right.start);
        for (int i = 0; i < right.outs; i++) f.out[f.outs++] = right.out[i];
    }
    return f;
}

static void follow(int which, int state) {
    if (mark[state] == generation) return;
    mark[state] = generation;
    if (states[state].symbol == SPLIT) {
        follow(which, states[state].out);
        follow(which, states[state].other);
    } else list[which][size[which]++] = state;
}

static void program(void) {
    for (int i = 0; i < TEXT; i++) text[i] = (char)('a' + random_below(6));
    for (int p = 0; p < PATTERNS; p++) {
        count = 0;
        at = patterns[p];
        Fragment f = alternation();
        patch(&f, make(MATCH, -1, -1));
        u64 matches = 0, ends = 0;
        int now = 0;
        size[now] = 0;
        for (int i = 0; i <= TEXT; i++) {
            generation++;
            for (int k = 0; k < size[now]; k++) mark[list[now][k]] = generation;
            follow(now, f.start); /* a match may start anywhere */
            int then = 1 - now;
            size[then] = 0;
            generation++;
            for (int k = 0; k < size[now]; k++) {
                State *s = &states[list[now][k]];
                if (s->symbol == MATCH) matches++, ends += (u64)i;
                else if (i < TEXT && (s->symbol == ANY || s->symbol == text[i])) follow(then, s->out);
            }
            now = then;
        }
        check(matches);
        check(ends);
    }
}
