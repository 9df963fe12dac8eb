// Four threads of a pool fill a map that they share, allocate, and are compiled while they run: code is made, changed and
// thrown away beside the data of other threads.
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

public class Pool {
    static final class Item {
        final long key;
        final int[] data = new int[64];
        final String name;

        Item(long key) {
            this.key = key;
            this.name = "item" + key;
        }
    }

    static long work(int id, int turns, ConcurrentHashMap<String, Long> shared) {
        long sum = 0;
        ArrayList<Item> kept = new ArrayList<>();
        for (int turn = 0; turn < turns; turn++) {
            Item item = new Item(turn * 31L + id);
            item.data[turn & 63] = turn;
            kept.add(item);
            if (kept.size() > 500) kept.clear();
            shared.merge(item.name.substring(0, Math.min(6, item.name.length())), 1L, Long::sum);
            sum += item.key ^ item.data[turn & 63] ^ item.name.hashCode();
        }
        return sum;
    }

    public static void main(String[] words) throws Exception {
        int turns = Integer.parseInt(words[0]);
        ConcurrentHashMap<String, Long> shared = new ConcurrentHashMap<>();
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> sums = new ArrayList<>();
        for (int id = 0; id < 8; id++) {
            final int own = id;
            sums.add(pool.submit(() -> work(own, turns, shared)));
        }
        long sum = 0;
        for (Future<Long> part : sums) sum += part.get();
        pool.shutdown();
        System.out.println(sum + " " + shared.size() + " " + shared.values().stream().mapToLong(n -> n).sum());
    }
}
