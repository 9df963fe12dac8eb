// Threads that send boxes through a channel.
// command: race
// expect: nothing
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;

fn main() {
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = (0..3u64)
        .map(|number| {
            let sender = sender.clone();
            thread::spawn(move || {
                for i in 0..20 {
                    sender.send(Box::new([number, i, 3])).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let sum: u64 = receiver.iter().map(|numbers| black_box(numbers[1])).sum();
    for thread in threads {
        thread.join().unwrap();
    }
    black_box(sum);
}
