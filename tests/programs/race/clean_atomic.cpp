// Messages by std::atomic, to and fro.
// build: -pthread
#include <atomic>
#include <thread>

std::atomic<int> turn{0};
int ball;

static void play(int me)
{
    for (int i = 0; i < 10; i++) {
        while (turn.load(std::memory_order_acquire) != me)
            ;
        ball++;
        turn.store(!me, std::memory_order_release);
    }
}

int main()
{
    std::thread a(play, 0), b(play, 1);
    a.join();
    b.join();
    return ball != 20;
}
