// Boxes of traits, a list of boxes, and counted pointers with weak ones back.
// command: errors
// record: --data
// expect: nothing
use std::cell::RefCell;
use std::hint::black_box;
use std::rc::{Rc, Weak};

trait Shape {
    fn area(&self) -> f64;
}
struct Square(f64);
struct Polygon(Vec<f64>);
impl Shape for Square {
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}
impl Shape for Polygon {
    fn area(&self) -> f64 {
        self.0.iter().sum()
    }
}

struct List(u32, Option<Box<List>>);

#[derive(Default)]
struct Node {
    parent: RefCell<Weak<Node>>,
    children: RefCell<Vec<Rc<Node>>>,
}

fn main() {
    let shapes: Vec<Box<dyn Shape>> = vec![Box::new(Square(3.0)), Box::new(Polygon(vec![1.0; 9]))];
    black_box(shapes.iter().map(|shape| shape.area()).sum::<f64>());
    let list = (0..40).fold(None, |rest, number| Some(Box::new(List(number, rest))));
    black_box(&list);
    let root = Rc::new(Node::default());
    for _ in 0..9 {
        let child = Rc::new(Node::default());
        *child.parent.borrow_mut() = Rc::downgrade(&root);
        root.children.borrow_mut().push(child);
    }
    black_box(root);
}
