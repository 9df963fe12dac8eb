/* A small program with something to find, for `cargo xtask demo`: a shop that looks items up in a table.
 *
 * - `shelf` is hot: nearly all of its accesses are to one field, `key`, because `find` compares it with every item.
 * - each order copies its text into a receipt that nobody ever reads.
 * - every seventh order is forgotten: it is never freed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item {
    long key;
    long price;
    long sold;
    char name[40];
};

static struct item shelf[64];
static long income;

struct order {
    long key;
    long amount;
    char *receipt;
};

static struct item *find(long key)
{
    for (int i = 0; i < 64; i++)
        if (shelf[i].key == key)
            return &shelf[i];
    return NULL;
}

static void stock(void)
{
    for (int i = 0; i < 64; i++) {
        shelf[i].key = (i * 37) % 64;
        shelf[i].price = i + 1;
        snprintf(shelf[i].name, sizeof shelf[i].name, "item %d", i);
    }
}

static char *write_receipt(const struct item *item)
{
    char *receipt = malloc(256);
    for (int i = 0; i < 40; i++)
        receipt[i] = item->name[i];
    return receipt;
}

static void serve(long number)
{
    struct order *order = malloc(sizeof *order);
    order->key = number % 64;
    order->amount = 1 + number % 3;
    struct item *item = find(order->key);
    order->receipt = write_receipt(item);
    item->sold += order->amount;
    income += item->price * order->amount;
    if (number % 7 == 0)
        return; /* forgotten */
    free(order->receipt);
    free(order);
}

int main(void)
{
    stock();
    for (long number = 0; number < 2000; number++)
        serve(number);
    printf("income: %ld\n", income);
    return 0;
}
