// Vectors that grew, objects behind `dyn Trait`, and an enumeration.
//
// In ten rounds each of 1000 items has its price and count read once, and the 200 of kind 3 their flags written once more; of 40 shapes,
// half of them circles, the area is computed once, and of 300 events a third each are played.
// stdout: 10291400 7
#![allow(dead_code, reason = "fields that nobody reads are what is looked for")]

pub struct Item {
    id: u64,
    price: f64,
    count: u32,
    flags: u16,
    kind: u8,
}

pub trait Shape {
    fn area(&self) -> f64;
}

pub struct Circle {
    id: u64,
    radius: f64,
}

pub struct Square {
    id: u64,
    hits: u64,
    side: f64,
}

impl Shape for Circle {
    fn area(&self) -> f64 {
        self.radius * 3.0
    }
}

impl Shape for Square {
    fn area(&self) -> f64 {
        self.side * 2.0
    }
}

pub enum Event {
    Key { code: u32, at: u64 },
    Move { x: f64, y: f64 },
    Quit,
}

#[inline(never)]
fn worth(items: &[Item]) -> f64 {
    items.iter().map(|item| item.price * f64::from(item.count)).sum()
}

#[inline(never)]
fn mark(items: &mut [Item]) {
    for item in items.iter_mut().filter(|item| item.kind == 3) {
        item.flags += 1;
    }
}

#[inline(never)]
fn areas(shapes: &[Box<dyn Shape>]) -> f64 {
    shapes.iter().map(|shape| shape.area()).sum()
}

#[inline(never)]
fn play(events: &[Event]) -> f64 {
    let mut sum = 0.0;
    for event in events {
        sum += match event {
            Event::Key { code, at } => f64::from(*code) + *at as f64,
            Event::Move { x, y } => x * y,
            Event::Quit => 1.0,
        };
    }
    sum
}

fn main() {
    let (mut items, mut events) = (Vec::new(), Vec::new());
    let mut shapes: Vec<Box<dyn Shape>> = Vec::new();
    for id in 0..1000u64 {
        items.push(Item { id, price: id as f64, count: 2, flags: 0, kind: (id % 5) as u8 });
    }
    for id in 0..40 {
        match id % 2 {
            0 => shapes.push(Box::new(Circle { id, radius: 1.0 })),
            _ => shapes.push(Box::new(Square { id, hits: 0, side: 2.0 })),
        }
    }
    for at in 0..300u64 {
        events.push(match at % 3 {
            0 => Event::Key { code: at as u32, at },
            1 => Event::Move { x: 1.0, y: 2.0 },
            _ => Event::Quit,
        });
    }
    let mut sum = 0.0;
    for _ in 0..10 {
        sum += worth(&items) + areas(&shapes) + play(&events);
        mark(&mut items);
    }
    println!("{sum} {}", items[7].id);
}
