/* A small language, compiled to a stack machine's code and interpreted: sieve, Collatz, matrix product, bubble sort.

   Variables are a-z, @ reads or writes the one array:
   statement = letter '=' expression ';' | '@' factor '=' expression ';' | 'W' expression ';' statement | 'I' expression ';' statement
             | '{' statement* '}', W for while, I for if. Operators + - * / % < = bind alike, from left to right; '(' groups. */
#include "runtime.h"

enum { PUSH, GET, SET, LOAD, STORE, ADD, SUBTRACT, MULTIPLY, DIVIDE, MODULO, LESS, EQUAL, JUMP, JUMP_ZERO, HALT };
enum { CODE = 1024, MEMORY = 8192 };

static i64 code[CODE], memory[MEMORY], variable[26], stack[64];
static int size;
static const char *at;

static void emit(int operation, i64 operand) {
    code[size++] = operation;
    code[size++] = operand;
}

static void expression(void);

static void factor(void) {
    if (*at == '(') {
        at++;
        expression();
        at++;
    } else if (*at == '@') {
        at++;
        factor();
        emit(LOAD, 0);
    } else if (*at >= 'a') emit(GET, *at++ - 'a');
    else {
        i64 value = 0;
        while (*at >= '0' && *at <= '9') value = value * 10 + (*at++ - '0');
        emit(PUSH, value);
    }
}

static void expression(void) {
    factor();
    for (;;) {
        int operation = *at == '+' ? ADD : *at == '-' ? SUBTRACT : *at == '*' ? MULTIPLY : *at == '/' ? DIVIDE
                      : *at == '%' ? MODULO : *at == '<' ? LESS : *at == '=' ? EQUAL : 0;
        if (!operation) return;
        at++;
        factor();
        emit(operation, 0);
    }
}

static void statement(void) {
    char first = *at++;
    if (first == '{') {
        while (*at != '}') statement();
        at++;
    } else if (first == 'W' || first == 'I') {
        int top = size;
        expression();
        at++;
        int skip = size;
        emit(JUMP_ZERO, 0);
        statement();
        if (first == 'W') emit(JUMP, top);
        code[skip + 1] = size;
    } else {
        if (first == '@') factor();
        at++;
        expression();
        at++;
        emit(first == '@' ? STORE : SET, first == '@' ? 0 : first - 'a');
    }
}

static void interpret(void) {
    const i64 *ip = code;
    i64 *sp = stack;
    for (;;) {
        i64 operation = ip[0], operand = ip[1];
        ip += 2;
        switch (operation) {
        case PUSH: *sp++ = operand; break;
        case GET: *sp++ = variable[operand]; break;
        case SET: variable[operand] = *--sp; break;
        case LOAD: sp[-1] = memory[sp[-1] & (MEMORY - 1)]; break;
        case STORE: sp -= 2; memory[sp[0] & (MEMORY - 1)] = sp[1]; break;
        case ADD: sp--; sp[-1] += sp[0]; break;
        case SUBTRACT: sp--; sp[-1] -= sp[0]; break;
        case MULTIPLY: sp--; sp[-1] *= sp[0]; break;
        case DIVIDE: sp--; sp[-1] /= sp[0]; break;
        case MODULO: sp--; sp[-1] %= sp[0]; break;
        case LESS: sp--; sp[-1] = sp[-1] < sp[0]; break;
        case EQUAL: sp--; sp[-1] = sp[-1] == sp[0]; break;
        case JUMP: ip = code + operand; break;
        case JUMP_ZERO: if (!*--sp) ip = code + operand; break;
        default: return;
        }
    }
}

static const char *sources[] = {
    /* primes below 4000, counted in c */
    "{c=0;i=2;Wi<4000;{I@i=0;{c=c+1;j=i*i;Wj<4000;{@j=1;j=j+i;}}i=i+1;}}",
    /* Collatz steps of the numbers below n, summed in c */
    "{c=0;n=1;Wn<400;{x=n;W1<x;{r=x%2;Ir;x=x*3+1;Ir=0;x=x/2;c=c+1;}n=n+1;}}",
    /* product of two n x n matrices at 0 and 1024, into 2048 */
    "{n=18;i=0;Wi<n;{j=0;Wj<n;{s=0;k=0;Wk<n;{s=s+(@(i*n+k)*@(1024+(k*n)+j));k=k+1;}@(2048+(i*n)+j)=s;j=j+1;}i=i+1;}c=s;}",
    /* bubble sort of 110 words */
    "{n=110;i=0;Wi<n;{j=0;Wj<(n-1-i);{a=@j;b=@(j+1);Ib<a;{@j=b;@(j+1)=a;}j=j+1;}i=i+1;}c=@7;}",
};

static void program(void) {
    for (int s = 0; s < 4; s++) {
        for (int i = 0; i < MEMORY; i++) memory[i] = s ? random_below(1000) : 0;
        size = 0;
        at = sources[s];
        statement();
        emit(HALT, 0);
        interpret();
        check((u64)variable['c' - 'a']);
        for (int i = 0; i < MEMORY; i += 37) check((u64)memory[i]);
    }
}
