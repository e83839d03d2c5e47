/* Searching a text (Boyer-Moore-Horspool, Knuth-Morris-Pratt) and the edit distance of its parts. */
#include "runtime.h"

enum { TEXT = 60000, NEEDLES = 6, LENGTH = 14, PART = 260 };
static u8 text[TEXT], needle[NEEDLES][LENGTH];

static u64 horspool(const u8 *word) {
    u8 skip[256];
    u64 found = 0;
    for (int i = 0; i < 256; i++) skip[i] = LENGTH;
    for (int i = 0; i < LENGTH - 1; i++) skip[word[i]] = (u8)(LENGTH - 1 - i);
    for (int at = 0; at + LENGTH <= TEXT; at += skip[text[at + LENGTH - 1]]) {
        int i = LENGTH - 1;
        while (i >= 0 && text[at + i] == word[i]) i--;
        found += i < 0;
    }
    return found;
}

static u64 automaton(const u8 *word) {
    int border[LENGTH + 1], k = 0;
    u64 found = 0;
    border[0] = -1;
    for (int i = 0, j = -1; i < LENGTH;) {
        while (j >= 0 && word[i] != word[j]) j = border[j];
        border[++i] = ++j;
    }
    for (int i = 0; i < TEXT; i++) {
        while (k >= 0 && (k == LENGTH || text[i] != word[k])) k = border[k];
        found += ++k == LENGTH;
    }
    return found;
}

static u64 edit_distance(const u8 *a, const u8 *b) {
    static u32 row[PART + 1];
    for (u32 j = 0; j <= PART; j++) row[j] = j;
    for (u32 i = 1; i <= PART; i++) {
        u32 corner = row[0];
        row[0] = i;
        for (u32 j = 1; j <= PART; j++) {
            u32 best = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[PART];
}

static void program(void) {
    for (int i = 0; i < TEXT; i++) text[i] = (u8)('a' + (random_below(4) & random_below(4)));
    for (int n = 0; n < NEEDLES; n++) {
        u32 from = random_below(TEXT - LENGTH);
        for (int i = 0; i < LENGTH; i++) needle[n][i] = text[from + (u32)i];
        u64 found = horspool(needle[n]);
        check(found);
        check((u64)(found == automaton(needle[n])));
    }
    for (int k = 0; k < 3; k++) check(edit_distance(text + random_below(TEXT - PART), text + random_below(TEXT - PART)));
}
