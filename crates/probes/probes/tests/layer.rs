//! The probe layer inside one process: discovery, switching, handlers, the Rust macro, the C interface.

use probes::{
    ProbeError, ProbeId, ProbeKind, Provider, activate, capi, deactivate, module, probe_scope, probe_site,
    provider, registry, set_handler,
};
use std::sync::{
    Once,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

static FOUND: AtomicU32 = AtomicU32::new(0);

fn discovered(_: ProbeId) {
    FOUND.fetch_add(1, Ordering::Relaxed);
}

fn discover() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        registry::set_discovery_callback(Some(discovered));
        for index in module::refresh().fresh {
            let found = provider::probe_module(index, &|_| true);
            assert!(found.unprobed.iter().all(|u| u.module.contains('/')), "{:?}", found.unprobed);
        }
    });
}

fn find(name: &str, kind: ProbeKind) -> ProbeId {
    discover();
    (0..registry::probe_count())
        .map(ProbeId)
        .find(|id| registry::metadata(*id).is_ok_and(|m| m.function_name == name && m.kind == kind))
        .unwrap_or_else(|| panic!("no probe {name} {kind:?}"))
}

#[inline(never)]
fn pass(value: u64) -> u64 {
    probe_site!("pass");
    std::hint::black_box(value) + 1
}

#[inline(never)]
fn scope(value: f64) -> f64 {
    let _probe = probe_scope!("scope");
    std::hint::black_box(value) * 2.0
}

#[test]
fn a_point_calls_its_handler_only_while_it_is_active() {
    static HITS: AtomicU64 = AtomicU64::new(0);
    static OTHERS: AtomicU64 = AtomicU64::new(0);
    extern "C" fn count(_: u32, _: *mut usize) {
        HITS.fetch_add(1, Ordering::Relaxed);
    }
    extern "C" fn count_others(_: u32, _: *mut usize) {
        OTHERS.fetch_add(1, Ordering::Relaxed);
        pass(1); // a hit inside a handler does nothing
    }
    let id = find("pass", ProbeKind::Point);
    assert_eq!(pass(1), 2);
    activate(id, count).unwrap();
    assert!(registry::is_active(id));
    for i in 0..100 {
        assert_eq!(pass(i), i + 1);
    }
    set_handler(id, count_others).unwrap();
    pass(1);
    deactivate(id).unwrap();
    assert_eq!(pass(3), 4);
    assert_eq!((HITS.load(Ordering::Relaxed), OTHERS.load(Ordering::Relaxed)), (100, 1));
    assert!(FOUND.load(Ordering::Relaxed) >= 3);
}

#[test]
fn a_scope_has_an_entry_and_an_exit_of_one_function() {
    static HITS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    extern "C" fn on_entry(_: u32, _: *mut usize) {
        HITS[0].fetch_add(1, Ordering::Relaxed);
    }
    extern "C" fn on_exit(_: u32, _: *mut usize) {
        assert_eq!(HITS[0].load(Ordering::Relaxed), HITS[1].fetch_add(1, Ordering::Relaxed) + 1);
    }
    let (entry, exit) = (find("scope", ProbeKind::Entry), find("scope", ProbeKind::Exit));
    let (a, b) = (registry::metadata(entry).unwrap(), registry::metadata(exit).unwrap());
    assert_eq!((a.function, a.provider), (b.function, Provider::Macro));
    assert_eq!(registry::switch_all(&[entry, exit], true), []);
    set_handler(entry, on_entry).unwrap();
    set_handler(exit, on_exit).unwrap();
    for _ in 0..10 {
        assert_eq!(scope(1.5), 3.0);
    }
    assert_eq!(registry::switch_all(&[entry, exit], false), []);
    scope(1.0);
    assert_eq!(HITS[1].load(Ordering::Relaxed), 10);
}

#[test]
fn unknown_probes_are_refused() {
    extern "C" fn nothing(_: u32, _: *mut usize) {}
    discover();
    let unknown = ProbeId(registry::probe_count() + 10);
    assert!(matches!(activate(unknown, nothing), Err(ProbeError::Unknown(id)) if id == unknown));
    assert!(deactivate(unknown).unwrap_err().to_string().contains(&unknown.to_string()));
    assert_eq!(capi::memtap_probe_deactivate(unknown.0), capi::MEMTAP_PROBE_UNKNOWN);
    assert_eq!(capi::memtap_probe_activate(0, None), capi::MEMTAP_PROBE_NULL);
}

#[test]
fn the_c_interface_sees_the_same_probes() {
    let id = find("pass", ProbeKind::Point);
    assert_eq!(capi::memtap_probe_kind(id.0), 3);
    assert!(capi::memtap_probe_count() > id.0);
    let mut text = [1; 3];
    // SAFETY: room for three bytes, as said.
    assert_eq!(unsafe { capi::memtap_probe_function(id.0, text.as_mut_ptr(), 3) }, 4);
    assert_eq!(text.map(|c| c as u8), *b"pa\0");
}

#[test]
fn probes_are_switched_while_another_thread_runs_through_them() {
    #[inline(never)]
    fn hot(value: u64) -> u64 {
        probe_site!("hot");
        value.wrapping_mul(3)
    }
    static HITS: AtomicU64 = AtomicU64::new(0);
    extern "C" fn count(_: u32, _: *mut usize) {
        HITS.fetch_add(1, Ordering::Relaxed);
    }
    let id = find("hot", ProbeKind::Point);
    activate(id, count).unwrap();
    std::thread::scope(|scope| {
        let runner = scope.spawn(|| {
            for i in 0..2_000_000u64 {
                assert_eq!(hot(std::hint::black_box(i)), i.wrapping_mul(3));
            }
        });
        while !runner.is_finished() {
            registry::switch(id, false).unwrap();
            registry::switch(id, true).unwrap();
        }
    });
    assert!(HITS.load(Ordering::Relaxed) > 0);
}
