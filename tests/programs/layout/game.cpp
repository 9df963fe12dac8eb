// Objects that smart pointers hold, with hardly any variable that points to them.
// stdout: 40400
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

constexpr int PLAYERS = 20;
constexpr int ROUNDS = 100;

struct Session {
    long hits = 0, misses = 0;
    int level = 3;
};

struct Item {
    int id = 0, count = 2;
    double weight = 1;
};

struct Player {
    // Twice as large as itself, and nothing like it.
    long *scores = new long[18]();
    std::string name = "player";
    std::unique_ptr<Session> session;
    std::shared_ptr<Item> held;
    int gold = 5;
    int rank = 1;
};

using Players = std::vector<std::unique_ptr<Player>>;

__attribute__((noinline)) long play(Players &players) {
    long sum = 0;
    for (auto &player : players) {
        player->session->hits += 1;
        player->gold += 2;
        sum += player->session->level;
        sum += player->held->count;
        sum += player->scores[17];
    }
    return sum;
}

__attribute__((noinline)) void join(Players &players) {
    auto player = std::make_unique<Player>();
    player->session = std::make_unique<Session>();
    player->held = std::make_shared<Item>();
    players.push_back(std::move(player));
}

int main() {
    Players players;
    for (int i = 0; i < PLAYERS; i++) {
        join(players);
    }
    long sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        sum += 4 * play(players) + 4;
    }
    std::printf("%ld\n", sum);
}
