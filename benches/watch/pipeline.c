// A pipeline of three stages over blocks of a few bytes that lie scattered: small ranges that change owners.
#include "team.h"

#define QUEUE 64
#define STAGES 3

static struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned char *blocks[QUEUE];
    int first, count;
} queues[STAGES];
static long blocks, sum;

static void put(struct queue *queue, unsigned char *block)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->count == QUEUE)
        pthread_cond_wait(&queue->changed, &queue->lock);
    queue->blocks[(queue->first + queue->count++) % QUEUE] = block;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static unsigned char *take(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (!queue->count)
        pthread_cond_wait(&queue->changed, &queue->lock);
    unsigned char *block = queue->blocks[queue->first];
    queue->first = (queue->first + 1) % QUEUE, queue->count--;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return block;
}

static void stage(int member)
{
    unsigned random = 7;
    for (long i = 0; i < blocks; i++) {
        int bytes = 3 + i % 13;
        unsigned char *block;
        if (member == 0) {
            block = malloc(bytes);
            for (int at = 0; at < bytes; at++)
                block[at] = next_random(&random);
        } else
            block = take(&queues[member - 1]);
        if (member == 1 || member == 2)
            for (int at = member; at < bytes; at += 2)
                block[at] ^= member + i;
        if (member < STAGES)
            put(&queues[member], block);
        else {
            for (int at = 0; at < bytes; at++)
                sum += block[at];
            free(block);
        }
    }
}

int main(int argc, char **argv)
{
    blocks = size_of_run(argc, argv, 8000);
    for (int i = 0; i < STAGES; i++) {
        pthread_mutex_init(&queues[i].lock, 0);
        pthread_cond_init(&queues[i].changed, 0);
    }
    team(stage);
    printf("%ld\n", sum);
    return 0;
}
