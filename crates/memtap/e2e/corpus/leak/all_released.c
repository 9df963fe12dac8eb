// A tree is built and released.
// command: errors
// record: --data
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

struct tree {
    struct tree *left, *right;
    int key;
};

NOINLINE static struct tree *insert(struct tree *tree, int key)
{
    if (!tree) {
        tree = HIDE(calloc(1, sizeof *tree));
        tree->key = key;
    } else if (key < tree->key) {
        tree->left = insert(tree->left, key);
    } else {
        tree->right = insert(tree->right, key);
    }
    return tree;
}

NOINLINE static void drop(struct tree *tree)
{
    if (!tree)
        return;
    drop(tree->left);
    drop(tree->right);
    free(tree);
}

int main(void)
{
    struct tree *tree = NULL;
    for (int i = 0; i < 40; i++)
        tree = insert(tree, i * 17 % 41);
    drop(tree);
    return 0;
}
