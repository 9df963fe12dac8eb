// Boxed functions that go to other threads and are dropped there.
// command: errors
// expect: nothing
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;

fn main() {
    let (sender, receiver) = mpsc::sync_channel::<Box<dyn FnOnce() -> String + Send>>(4);
    let worker = thread::spawn(move || receiver.into_iter().map(|work| work()).collect::<Vec<_>>());
    for i in 0..30 {
        let text = format!("work number {i}");
        sender.send(Box::new(move || text.to_uppercase())).unwrap();
    }
    drop(sender);
    assert_eq!(black_box(worker.join().unwrap()).len(), 30);
}
