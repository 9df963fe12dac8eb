// What Rust's library keeps: a hash map with its control bytes, an enumeration, shared accounts, a tree, vectors that grow.
// stdout: 1250 3000 4000
#![allow(dead_code, reason = "fields that nobody reads are what is looked for")]
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

const ROUNDS: u64 = 100;

enum Kind {
    Plain(u64),
    Saving { rate: f64, since: u32 },
}

struct Account {
    balance: i64,
    kind: Kind,
    owner: String,
    flags: u32,
}

struct Transfer {
    to: u64,
    amount: i64,
    day: u64,
}

fn account(number: u64) -> Account {
    let kind = match number % 2 {
        0 => Kind::Plain(number),
        _ => Kind::Saving { rate: 0.5, since: 7 },
    };
    Account { balance: 0, kind, owner: format!("the owner of account {number}"), flags: 0 }
}

#[inline(never)]
fn apply(accounts: &mut HashMap<u64, Account>, transfers: &[Transfer]) {
    for transfer in transfers {
        if let Some(account) = accounts.get_mut(&transfer.to) {
            account.balance += transfer.amount;
        }
    }
}

#[inline(never)]
fn interest(accounts: &mut BTreeMap<u64, Account>) -> f64 {
    let mut sum = 0.0;
    for account in accounts.values_mut() {
        if let Kind::Saving { rate, .. } = account.kind {
            sum += rate;
            account.flags += 1;
        }
    }
    sum
}

#[inline(never)]
fn visit(accounts: &[Rc<RefCell<Account>>]) {
    for account in accounts {
        account.borrow_mut().balance += 1;
    }
}

fn main() {
    let mut map = HashMap::with_capacity(100);
    let mut tree = BTreeMap::new();
    let mut shared = Vec::new();
    let mut transfers = Vec::new();
    for number in 0..50 {
        map.insert(number, account(number));
        tree.insert(number, account(number));
    }
    for number in 0..40 {
        shared.push(Rc::new(RefCell::new(account(number))));
    }
    for number in 0..30 {
        transfers.push(Transfer { to: number, amount: number as i64 + 6, day: number });
    }
    let mut rates = 0.0;
    for _ in 0..ROUNDS {
        apply(&mut map, &transfers);
        rates += interest(&mut tree);
        visit(&shared);
    }
    std::mem::forget((map, tree, shared));
    println!("{rates} {} {}", ROUNDS * 30, ROUNDS * 40);
}
