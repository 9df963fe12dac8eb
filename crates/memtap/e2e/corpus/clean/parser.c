// A small parser of expressions, whose tree is on the heap.
// command: errors
// record: --data
// expect: nothing
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

struct node {
    char kind;
    long value;
    struct node *left, *right;
};

static const char *at;

static struct node *sum(void);

static struct node *make(char kind, long value, struct node *left, struct node *right)
{
    struct node *node = HIDE(malloc(sizeof *node));
    *node = (struct node){kind, value, left, right};
    return node;
}

static struct node *factor(void)
{
    if (*at == '(') {
        at++;
        struct node *inner = sum();
        at++;
        return inner;
    }
    long value = 0;
    while (isdigit((unsigned char)*at))
        value = value * 10 + *at++ - '0';
    return make('n', value, NULL, NULL);
}

static struct node *product(void)
{
    struct node *left = factor();
    while (*at == '*') {
        at++;
        left = make('*', 0, left, factor());
    }
    return left;
}

static struct node *sum(void)
{
    struct node *left = product();
    while (*at == '+') {
        at++;
        left = make('+', 0, left, product());
    }
    return left;
}

NOINLINE static long take(struct node *node)
{
    long value = node->value;
    if (node->kind != 'n') {
        long left = take(node->left), right = take(node->right);
        value = node->kind == '+' ? left + right : left * right;
    }
    free(node);
    return value;
}

int main(void)
{
    char *text = HIDE(strdup(HIDE((const char *)"(1+2)*3+4*(5+6*7)+((8))")));
    at = text;
    long value = take(sum());
    free(text);
    return value != 205;
}
