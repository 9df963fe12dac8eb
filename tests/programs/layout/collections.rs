// Boxes, vectors, reference counts and hash maps: what their blocks are.
// stdout: 435 250 0 7800 10 400
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

struct Particle {
    id: u64,
    pos: [f64; 2],
    vel: [f64; 2],
}

struct Cell {
    alive: u32,
    age: u32,
    label: [u8; 40],
}

struct Node {
    value: u64,
    next: Option<Box<Node>>,
}

struct Account {
    balance: i64,
    visits: u32,
}

#[inline(never)]
fn steps(particles: &mut Vec<Box<Particle>>) {
    for particle in particles.iter_mut() {
        particle.pos[0] += particle.vel[0];
        particle.pos[1] += particle.vel[1];
    }
}

#[inline(never)]
fn living(cells: &[Cell]) -> u32 {
    cells.iter().map(|cell| cell.alive).sum()
}

#[inline(never)]
fn grow(cells: &mut Vec<Cell>) {
    for cell in cells.iter_mut() {
        cell.age += 1;
    }
}

#[inline(never)]
fn total(list: &Option<Box<Node>>) -> u64 {
    let mut sum = 0;
    let mut at = list;
    while let Some(node) = at {
        sum += node.value;
        at = &node.next;
    }
    sum
}

#[inline(never)]
fn pay(account: &Rc<RefCell<Account>>) {
    let mut account = account.borrow_mut();
    account.balance += 5;
    account.visits += 1;
}

#[inline(never)]
fn visit(accounts: &mut HashMap<u64, Account>, key: u64) {
    if let Some(account) = accounts.get_mut(&key) {
        account.visits += 1;
    }
}

fn main() {
    let mut particles: Vec<Box<Particle>> =
        (0..30).map(|id| Box::new(Particle { id, pos: [0.0; 2], vel: [1.0; 2] })).collect();
    for _ in 0..10 {
        steps(std::hint::black_box(&mut particles));
    }
    let ids: u64 = particles.iter().map(|one| one.id).sum();
    let mut cells: Vec<Cell> = (0..50).map(|i| Cell { alive: i & 1, age: 0, label: [0; 40] }).collect();
    let mut alive = 0;
    for _ in 0..10 {
        grow(&mut cells);
        alive += living(std::hint::black_box(&cells));
    }
    let mut list = None;
    for value in 0..40 {
        list = Some(Box::new(Node { value, next: list }));
    }
    let mut sum = 0;
    for _ in 0..10 {
        sum += total(std::hint::black_box(&list));
    }
    let accounts: Vec<Rc<RefCell<Account>>> =
        (0..20).map(|_| Rc::new(RefCell::new(Account { balance: 0, visits: 0 }))).collect();
    for account in &accounts {
        for _ in 0..10 {
            pay(account);
        }
    }
    let mut by_key: HashMap<u64, Account> = (0..40).map(|key| (key * 7, Account { balance: 0, visits: 0 })).collect();
    for turn in 0..10 {
        for key in 0..40 {
            visit(&mut by_key, key * 7);
        }
        assert!(turn < 10);
    }
    let visits: u32 = by_key.values().map(|one| one.visits).sum();
    println!("{ids} {alive} {} {sum} {} {visits}", cells[3].label[1], accounts[0].borrow().visits);
}
