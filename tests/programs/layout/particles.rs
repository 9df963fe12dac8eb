// Boxes in a vector: 30 particles, moved 10 times.
#[allow(dead_code)]
struct Particle {
    pos: [f64; 2],
    vel: [f64; 2],
    charge: f32,
    id: u32,
}

#[inline(never)]
fn step(all: &mut [Box<Particle>]) {
    for particle in all {
        particle.pos[0] += particle.vel[0];
        particle.pos[1] += particle.vel[1];
    }
}

#[inline(never)]
fn ids(all: &[Box<Particle>]) -> u32 {
    all.iter().map(|particle| particle.id).sum()
}

fn main() {
    let mut all = Vec::new();
    for id in 0..30 {
        all.push(Box::new(Particle { pos: [0.0; 2], vel: [1.0; 2], charge: 1.0, id }));
    }
    for _ in 0..10 {
        step(&mut all);
    }
    std::hint::black_box(ids(&all));
}
